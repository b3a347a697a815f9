"""A conf.json that was found rather than named is obeyed only where nobody else can have written it: real files, real
owners, the real command."""

from __future__ import annotations

import errno
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from client.address import conf_path, find
from tests.client.fake_master import FakeMaster
from tests.faults import fault_in, refused, says
from tests.rights import need_users
from wire.message import Message

ROOT = Path(__file__).parents[2]
STRANGER = 54321


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a conf.json of ours, in which we are."""
    folder = tmp_path / "lab"
    folder.mkdir(mode=0o755)
    conf = {"socket_info": {"monitor_port": 1, "data_port": 2, "train_state_port": 3}}
    (folder / "conf.json").write_text(json.dumps(conf))
    (folder / "conf.json").chmod(0o644)
    monkeypatch.chdir(folder)
    return folder


def refusal(key: str, path: Path, why: str, **values: str) -> None:
    """Check that the conf.json that is found is not obeyed because of this file or folder."""
    said = refused(find)
    assert (said.key, Path.cwd() / str(said.args["path"])) == (key, path)
    assert says(said, why, **values), repr(said)


def test_ours_is_obeyed_here_and_in_folders_beneath(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find().data == 2
    beneath = lab / "runs" / "today"
    beneath.mkdir(parents=True)
    monkeypatch.chdir(beneath)
    assert find().data == 2
    assert conf_path() == str(lab / "conf.json")
    ports = {"monitor_port": 7, "data_port": 8, "train_state_port": 9}
    (beneath.parent / "conf.json").write_text(json.dumps({"socket_info": ports}))
    assert find().data == 8, "the nearest one"


def test_what_another_program_calls_conf_json_in_a_folder_above_is_passed_by(
    lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = lab / "project"
    (project / "src").mkdir(parents=True)
    (project / "conf.json").write_text('{"compilerOptions": {}}')
    monkeypatch.chdir(project / "src")
    assert find().data == 2


@pytest.mark.parametrize("mode", [0o666, 0o646, 0o777])
def test_one_that_others_can_write_is_refused_with_the_cure(lab: Path, mode: int) -> None:
    (lab / "conf.json").chmod(mode)
    refusal("conf_not_obeyed", lab / "conf.json", "written_by_everybody")
    assert find(str(lab / "conf.json")).data == 2, "what is named is obeyed"


def test_one_in_a_folder_that_others_can_write_is_refused(lab: Path) -> None:
    lab.chmod(0o777)
    refusal("conf_folder_not_obeyed", lab, "written_by_everybody")
    lab.chmod(0o1777)
    assert find().data == 2, "where only the owner changes a file, as in /tmp, its owner tells"


def test_it_is_looked_at_in_the_same_way_in_folders_above(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (lab / "beneath").mkdir()
    monkeypatch.chdir(lab / "beneath")
    (lab / "conf.json").chmod(0o666)
    refusal("conf_not_obeyed", lab / "conf.json", "written_by_everybody")


def test_a_link_leads_to_what_is_looked_at(lab: Path, tmp_path: Path) -> None:
    real = tmp_path / "open" / "conf.json"
    real.parent.mkdir()
    (lab / "conf.json").rename(real)
    (lab / "conf.json").symlink_to(real)
    assert find().data == 2
    real.parent.chmod(0o777)
    refusal("conf_folder_not_obeyed", real.parent, "written_by_everybody")
    real.parent.chmod(0o755)
    real.chmod(0o666)
    refusal("conf_not_obeyed", lab / "conf.json", "written_by_everybody")
    real.unlink()
    said = Message("file_unreadable", detail=os.strerror(errno.ENOENT))
    assert fault_in(Path("conf.json"), find) == said


def test_a_foreign_group_is_others_and_a_private_one_is_not(lab: Path) -> None:
    need_users()
    os.chown(lab / "conf.json", 0, STRANGER)
    (lab / "conf.json").chmod(0o664)
    refusal("conf_not_obeyed", lab / "conf.json", "written_by_group", mode="664")
    os.chown(lab / "conf.json", 0, 0)
    assert find().data == 2


@pytest.mark.parametrize("what", ["file", "folder", "link"])
def test_a_strangers_is_not_obeyed(lab: Path, what: str) -> None:
    need_users()
    if what == "link":
        (lab / "conf.json").rename(lab / "real.json")
        (lab / "conf.json").symlink_to("real.json")
        lab.chmod(0o1777)
    path = lab if what == "folder" else lab / "conf.json"
    os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
    key = "conf_folder_not_obeyed" if what == "folder" else "conf_not_obeyed"
    refusal(key, path, "belongs_to", owner=f"uid {STRANGER}")


@pytest.mark.real
def test_root_in_a_strangers_folder_starts_no_master_and_talks_to_none(tmp_path: Path) -> None:
    need_users()
    with FakeMaster({"server.info": lambda _: {}, "task.list": lambda _: {"tasks": [], "total": 0}}) as master:
        conf = Path(master.conf(tmp_path))
        os.chown(conf, STRANGER, STRANGER)
        for words in (["up", "--detach"], ["queue"], ["deploy", "out"], ["shell", "a"], ["status"], ["down"]):
            done = subprocess.run(
                [sys.executable, "-m", "muster", *words],
                cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
                timeout=60, check=False,
            )  # fmt: skip
            assert done.returncode == 1
            why = Message("belongs_to", owner=f"uid {STRANGER}")
            told = Message("conf_not_obeyed", path="conf.json", why=why, conf=str(conf))
            assert done.stderr == f"error: config: {told}\n"
        assert master.calls == []
        assert {one.name for one in tmp_path.iterdir()} == {"conf.json"}


@pytest.mark.real
def test_what_init_writes_is_obeyed_whatever_the_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    script = f"umask 000; {shlex.join([sys.executable, '-m', 'muster', 'init', str(tmp_path / 'made')])}"
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    monkeypatch.chdir(tmp_path / "made")
    assert find().same_machine
