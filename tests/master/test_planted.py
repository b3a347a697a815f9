"""What somebody else laid where a new lab is to be, in a folder like /tmp, is not taken for our own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from master.config.config import load_config, make_folders
from master.nodes.registry import load_registry
from tests.faults import fault_in
from tests.master.config.test_config import conf, write
from tests.rights import need_users

OURS, STRANGER = 4242, 4343


@pytest.fixture
def of_a_stranger(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """We are another account than the one that makes the files; what this is called on belongs to a third one."""
    need_users()
    monkeypatch.setattr(os, "geteuid", lambda: OURS)
    return lambda path: os.chown(path, STRANGER, STRANGER)


@pytest.mark.parametrize("what", ["task_info", "task_info/wait_task.json", "task_info/history/2026-01.jsonl"])
def test_queues_that_a_stranger_laid_there_before_are_not_ours(
    tmp_path: Path, of_a_stranger: Callable[[Path], None], what: str
) -> None:
    config = load_config(conf(tmp_path))
    (tmp_path / "task_info" / "history").mkdir(parents=True)
    for name in ("wait_task.json", "history/2026-01.jsonl"):
        (tmp_path / "task_info" / name).touch()
    make_folders(config)  # root's is as good as ours
    of_a_stranger(tmp_path / what)
    fault = fault_in(config.path, lambda: make_folders(config))
    assert (fault.key, fault.args["folder"]) == ("task_info_of_another", str(tmp_path / what))


def test_root_who_was_told_to_obey_the_conf_json_of_an_account_obeys_its_queues_and_nobody_elses(
    tmp_path: Path,
) -> None:
    need_users()
    config = load_config(conf(tmp_path))
    make_folders(config)
    for path in (config.path, config.task_info):
        os.chown(path, OURS, OURS)
    make_folders(config)
    os.chown(config.task_info, STRANGER, STRANGER)
    fault = fault_in(config.path, lambda: make_folders(config))
    assert (fault.key, fault.args["ours"]) == ("task_info_of_another", "root")


def test_a_registry_that_a_stranger_laid_into_an_open_folder_is_not_obeyed(
    tmp_path: Path, of_a_stranger: Callable[[Path], None]
) -> None:
    registry = write(tmp_path, "[]").rename(tmp_path / "gpu_slaver_info.json")
    of_a_stranger(registry)
    assert load_registry(registry) == ()  # an admin's, in a folder that strangers cannot write
    tmp_path.chmod(0o1777)
    assert fault_in(registry, lambda: load_registry(registry)).key == "registry_planted"
