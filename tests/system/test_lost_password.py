"""A password that was lost is set anew while the master is down, by whoever runs it, and by root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from master.durable.disk import OsDisk
from master.people.passwords import LEAST_CHARACTERS
from tests.faults import error_line, in_words
from tests.rights import need_users
from tests.system.lab import ROOT, Lab
from tests.system.pc import Pc
from wire.message import Message

FIRST, SECOND = "gull kettle 七 orchard", "seven slow lanterns hum"
MASTERS = 6001


def set_password(lab: Lab, name: str, password: str, *words: str) -> subprocess.CompletedProcess[str]:
    path = lab.folder / "typed"
    path.write_text(password + "\n", encoding="utf-8")
    return lab.muster("users", "passwd", name, "--password-file", str(path), *words)


@pytest.fixture
def ann(lab: Lab, tmp_path: Path) -> Pc:
    """A user, and an admin, who has logged in from somewhere; her master is down."""
    lab.start()
    (lab.folder / "first").write_text(FIRST + "\n", encoding="utf-8")
    added = lab.muster("users", "add", "ann", "--admin", "--password-file", str(lab.folder / "first"))
    assert added.returncode == 0, added.stderr
    pc = Pc(tmp_path / "pc")
    pc.log_in("ann", FIRST, "--conf", str(lab.conf))
    lab.kill_master()
    return pc


def test_it_holds_after_the_next_start_and_her_log_ins_have_ended(lab: Lab, ann: Pc) -> None:
    done = set_password(lab, "ann", SECOND, "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"name": "ann", "has_password": True}), done.stderr
    assert "does not answer: the password is set in its files" in done.stderr
    lab.start()
    conf = ("--conf", str(lab.conf))
    assert str(Message("no_such_token")) in ann.muster("whoami", *conf).stderr
    ann.log_in("ann", SECOND, *conf)
    assert json.loads(ann.muster("whoami", "--json", *conf).stdout)["user"] == "ann"
    [entry] = [one for one in json.loads(lab.muster("audit", "--json").stdout) if one["from"] == "offline"]
    assert (entry["verb"], entry["target"], entry["result"]) == ("user.password", "ann", "ok")
    texts = [path.read_bytes() for path in lab.task_info.rglob("*") if path.is_file()]
    assert not any(SECOND.encode() in text for text in texts)


@pytest.mark.usefixtures("ann")
def test_what_is_wrong_is_told_and_changes_nothing(lab: Lab) -> None:
    before = (lab.task_info / "journal.jsonl").read_bytes()
    nobody, short = Message("no_user", name="bob"), Message("password_too_short", least=LEAST_CHARACTERS)
    for name, password, told in (("bob", SECOND, nobody), ("ann", "short", short)):
        done = set_password(lab, name, password)
        assert (done.returncode, str(told) in done.stderr) == (1, True), done.stderr
    assert (lab.task_info / "journal.jsonl").read_bytes() == before
    done = lab.muster("users", "passwd", "--remove")
    assert (done.returncode, in_words(done.stderr, "whose_password")) == (1, True)
    done = lab.muster("users", "passwd", "ann", "--remove", "--token", "mst_0a_x")
    assert (done.returncode, "cannot be reached" in done.stderr) == (3, True), "whoever shows a token is only that one"


@pytest.mark.usefixtures("ann")
def test_a_master_that_runs_and_does_not_answer_is_left_alone(lab: Lab) -> None:
    held = OsDisk().lock(lab.task_info / "lock")
    try:
        done = set_password(lab, "ann", SECOND)
    finally:
        for fd in held:
            os.close(fd)
    assert done.returncode == 1
    told = error_line("locked", "master_holds_queue", pid=os.getpid(), folder=str(lab.task_info))
    assert told in done.stderr
    assert set_password(lab, "ann", SECOND).returncode == 0


@pytest.fixture
def others() -> Iterator[Lab]:
    """A queue of another account's, in a folder that everybody may pass through; its master is down."""
    need_users()
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="muster-lost-") as folder:
        Path(folder).chmod(0o755)
        lab = Lab(Path(folder, "lab"), nodes=1)
        lab.start()
        with lab.client() as owner:
            owner.call("user.add", {"name": "ann", "role": "admin"}, repeatable=False)
        lab.stop_master()
        for path in (lab.folder, *lab.folder.rglob("*")):
            os.chown(path, MASTERS, MASTERS, follow_symlinks=False)
        yield lab
        assert lab.close() == []


def test_root_does_it_as_whoever_runs_the_master_and_nobody_else_may(others: Lab) -> None:
    lab = others
    done = set_password(lab, "ann", SECOND)
    assert done.returncode == 0, done.stderr
    made = [path for path in (*lab.folder.glob("*"), *lab.task_info.rglob("*")) if path.name != "typed"]
    assert [path for path in made if path.lstat().st_uid != MASTERS] == []
    code = (
        "import os, sys, pathlib; from master.config.config import load_config; "
        "from master.setup.people.lost_password import set_password; "
        "config = load_config(pathlib.Path(sys.argv[1])); os.setresuid(1, 1, 1); set_password(config, 'ann', None)"
    )
    tried = subprocess.run(
        [sys.executable, "-c", code, str(lab.conf)], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert str(Message("queue_of_another", folder=str(lab.task_info), owner=MASTERS)) in tried.stderr
