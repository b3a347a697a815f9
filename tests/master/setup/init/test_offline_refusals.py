"""Users of a stopped master: why they cannot be changed, by key and values."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from master.config.config import load_config
from master.durable.disk import OsDisk
from master.edited_files.ownership import user_name
from master.setup.init.setup_folder import init
from master.setup.people.first_admin import check_first_admin
from master.setup.people.offline import change_people
from tests.faults import refusing
from wire.errors import ConflictError, ForbiddenError, LockedError, NotFoundError


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    init(tmp_path)
    return tmp_path / "conf.json"


def test_where_there_is_no_queue_no_user_can_be_changed(conf: Path) -> None:
    config = load_config(conf)
    with refusing(NotFoundError, "no_queue_yet", folder=str(config.task_info)):
        change_people(config, "user.add", "ann", lambda _people: None)


def test_where_there_is_a_queue_nobody_becomes_the_first_admin(conf: Path) -> None:
    folder = load_config(conf).task_info
    folder.mkdir(parents=True)
    (folder / "journal.jsonl").touch()
    with refusing(ConflictError, "queue_is_there", folder=str(folder), name="ann"):
        check_first_admin(folder, "ann", None)


def test_a_master_that_holds_the_queue_is_named_by_its_pid_if_that_is_known(conf: Path) -> None:
    config = load_config(conf)
    folder, disk = config.task_info, OsDisk()
    disk.make_folder(folder)
    held = disk.lock(folder / "lock")
    try:
        with refusing(LockedError, "master_holds_queue", folder=str(folder), pid=os.getpid()):
            change_people(config, "user.add", "ann", lambda _people: None)
        (folder / "lock").write_text("", encoding="ascii")
        with refusing(LockedError, "master_holds_queue_unseen", folder=str(folder)):
            change_people(config, "user.add", "ann", lambda _people: None)
    finally:
        for fd in held:
            disk.close(fd)


def test_the_queue_of_another_account_is_refused_with_whose_it_is(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_config(conf)
    config.task_info.mkdir(parents=True, exist_ok=True)
    owner = config.task_info.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with refusing(ForbiddenError, "queue_of_another", folder=str(config.task_info), owner=user_name(owner)):
        change_people(config, "user.add", "ann", lambda _people: None)
