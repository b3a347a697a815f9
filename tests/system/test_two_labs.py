"""Two labs on one machine whose conf.json names the same ports: a master does nothing that is asked in the other lab.

Real masters, the real command, and the versions that labs run already."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from client.api import connect
from tests import landed
from tests.cases import each_case
from tests.ports import free_ports
from tests.system.lab import PORTS, ROOT, Lab
from wire.errors import ConflictError
from wire.lab import path_of

ASKED = (
    *(("submit", "--", "true"), ("queue",), ("cancel", "--all"), ("status",), ("down",), ("logs", "1")),
    *(("top", "--once"), ("wait", "1"), ("run", "--", "true")),
)


@pytest.fixture
def labs() -> Iterator[list[Lab]]:
    """What is made of `second` and the like; all of it is ended with the test."""
    made: list[Lab] = []
    yield made
    left = [process for lab in made for process in lab.close()]
    assert left == []


@pytest.fixture
def first(tmp_path: Path, labs: list[Lab]) -> Lab:
    """A lab whose master runs, and has a task."""
    labs.append(Lab(tmp_path / "first", nodes=1, state=tmp_path / "state"))
    labs[0].start()
    with labs[0].client() as client:
        client.submit(["true"], hold=True)
    return labs[0]


@pytest.fixture
def second(tmp_path: Path, first: Lab, labs: list[Lab]) -> Lab:
    """Another one, with the same ports."""
    labs.append(Lab(tmp_path / "second", nodes=0))
    labs[1].write_conf(socket_info=first.keys["socket_info"])
    return labs[1]


def muster(conf: Path, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command with this conf.json, and with no other master in sight."""
    command = [sys.executable, "-m", "muster", verb, "--conf", str(conf), *words]
    own = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    return subprocess.run(
        command, cwd=conf.parent, env={**own, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip


def muster_at(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command where there is no conf.json."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    return subprocess.run(
        [sys.executable, "-m", "muster", *words], cwd=folder, env={**own, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def check_refused(lab: Lab, other: Lab, *words: str) -> None:
    done = muster(lab.conf, *words)
    told = done.stderr.strip()
    assert (done.returncode, done.stdout) == (1, ""), (words, done)
    assert told.startswith("error: conflict: "), (words, told)
    assert str(other.conf) in told, "the other lab is named"
    assert str(lab.conf) in told


def check_unharmed(lab: Lab) -> None:
    assert lab.master is not None
    assert lab.master.poll() is None
    with lab.client() as client:
        assert [task["state"] for task in client.list_tasks()[0]] == ["held"]


def test_nothing_that_is_asked_in_one_lab_is_done_by_the_others_master(first: Lab, second: Lab) -> None:
    assert not Path(path_of(str(second.conf))).exists(), "it was never started"
    with each_case() as cases:
        for words in ASKED:
            with cases.case(" ".join(words)):
                check_refused(second, first, *words)
    with pytest.raises(ConflictError), connect(conf=str(second.conf)) as client:
        client.submit(["true"])
    check_unharmed(first)


def test_a_copy_of_a_conf_json_that_is_not_there_is_told_a_way_that_works(first: Lab, tmp_path: Path) -> None:
    conf = tmp_path / "home of li" / "conf.json"
    conf.parent.mkdir()
    conf.write_bytes(first.conf.read_bytes())
    assert f"`--conf {first.conf}` uses that lab" in muster(conf, "queue").stderr
    aside = first.conf.with_name("aside")
    first.conf.rename(aside)
    told = muster(conf, "queue").stderr
    aside.rename(first.conf)
    way = f"--master 127.0.0.1:{first.keys['socket_info']['data_port']}"
    assert f"`{way}` uses that lab" in told
    assert muster_at(tmp_path, "queue", *way.split()).returncode == 0


def test_nor_where_each_has_an_identity(first: Lab, second: Lab) -> None:
    own = dict(zip(PORTS, free_ports(3), strict=True))
    second.write_conf(socket_info=own)
    second.start()
    second.stop_master()
    second.write_conf(socket_info=first.keys["socket_info"])
    for words in ASKED:
        check_refused(second, first, *words)
    check_unharmed(first)


def test_each_of_the_ports_is_compared(first: Lab, second: Lab) -> None:
    """The data port is this lab's, the others are not."""
    ports = dict(zip(PORTS, free_ports(3), strict=True))
    second.write_conf(socket_info=ports)
    second.start()
    for name in ("train_state_port", "monitor_port"):
        second.write_conf(socket_info={**ports, name: first.keys["socket_info"][name]})
        with pytest.raises(ConflictError), second.client() as client:
            next(client.watch("tasks" if name == "train_state_port" else "nodes"))
    second.write_conf(socket_info=ports)


def test_up_names_the_lab_that_has_the_port(first: Lab, second: Lab) -> None:
    for words in (("up",), ("up", "--detach")):
        check_refused(second, first, *words)
    check_unharmed(first)


def test_down_ends_the_master_of_its_own_lab_that_listens_elsewhere(first: Lab, second: Lab) -> None:
    second.write_conf(socket_info=dict(zip(PORTS, free_ports(3), strict=True)))
    second.start()
    second.write_conf(socket_info=first.keys["socket_info"])
    done = muster(second.conf, "down")
    assert done.returncode == 0, done
    assert second.master is not None
    assert second.master.wait(60) == 0
    second.master = None
    check_unharmed(first)


def test_a_copied_folder_is_no_second_name_of_the_lab(first: Lab, labs: list[Lab], tmp_path: Path) -> None:
    shutil.copytree(first.folder, tmp_path / "copy", symlinks=True)
    copy = Lab(tmp_path / "copy", nodes=0)
    labs.append(copy)
    copy.write_conf(socket_info=first.keys["socket_info"])
    check_refused(copy, first, "down")
    check_unharmed(first)
    copy.write_conf(socket_info=dict(zip(PORTS, free_ports(3), strict=True)))
    copy.start()
    identities = {json.loads(Path(path_of(str(lab.conf))).read_text())["lab"] for lab in (first, copy)}
    assert len(identities) == 2
    copy.stop_master()
    copy.write_conf(socket_info=first.keys["socket_info"])
    check_refused(copy, first, "down")
    check_unharmed(first)


def test_nor_is_a_copy_of_conf_json_with_the_same_queue(first: Lab, tmp_path: Path) -> None:
    """`down` ends what holds the queue's lock only where that is not the master at the port."""
    first.stop_master()
    first.write_conf(task_info=str(first.task_info))
    first.start()
    (tmp_path / "mine").mkdir()
    mine = tmp_path / "mine" / "conf.json"
    mine.write_text(first.conf.read_text())
    done = muster(mine, "down")
    assert done.returncode == 1, done
    check_unharmed(first)


def test_a_moved_folder_stays_the_lab(first: Lab, tmp_path: Path) -> None:
    first.folder.rename(tmp_path / "moved")
    for folder in (tmp_path / "moved", tmp_path / "link"):
        if folder.name == "link":
            folder.symlink_to(tmp_path / "moved")
        with connect(conf=str(folder / "conf.json")) as client:
            assert client.info()["tasks"]["held"] == 1
    (tmp_path / "moved").rename(first.folder)


@contextmanager
def in_place_of_identity(lab: Lab, what: str) -> Iterator[None]:
    path = Path(path_of(str(lab.conf)))
    was = path.read_bytes()
    path.unlink()
    match what:
        case "a pipe":
            os.mkfifo(path)
        case "a link":
            path.symlink_to("/etc/passwd")
        case "a folder":
            path.mkdir()
        case "nothing":
            pass
        case _:
            path.write_text(what)
    yield
    path.rmdir() if what == "a folder" else path.unlink(missing_ok=True)
    path.write_bytes(was)


DAMAGED = ("nothing", "a pipe", "a link", "a folder", "", "{}", "[" * 5000, '{"lab": 7, "conf": "/"}', "\0" * 100)


def test_a_damaged_identity_keeps_nobody_from_the_own_master(first: Lab, second: Lab) -> None:
    with each_case() as cases:
        for what in DAMAGED:
            with cases.case(what[:20]), in_place_of_identity(first, what):
                done = muster(first.conf, "status", "--json")
                assert (done.returncode, done.stderr) == (0, ""), done
    Path(path_of(str(second.conf))).write_text("")
    check_refused(second, first, "down")


def test_a_start_replaces_a_damaged_identity(first: Lab) -> None:
    path = Path(path_of(str(first.conf)))
    first.stop_master()
    for what in ("", "a link"):
        path.unlink()
        if what:
            path.symlink_to(first.registry)
        else:
            path.write_text(what)
        before = first.registry.read_bytes()
        first.start()
        assert len(json.loads(path.read_text())["lab"]) == 32
        assert not path.is_symlink()
        assert (path.stat().st_mode & 0o777, first.registry.read_bytes()) == (0o644, before)
        first.stop_master()
    kept = path.read_bytes()
    first.start()
    assert path.read_bytes() == kept, "and keeps one that is whole"


def test_a_master_without_an_identity_is_accepted_with_a_note_and_not_stopped_for_another_lab(
    tmp_path: Path, labs: list[Lab]
) -> None:
    old, other = Lab(tmp_path / "old", nodes=0), Lab(tmp_path / "other", nodes=0)
    labs += [old, other]
    old.code = landed.unpack("users", tmp_path / "code")
    other.write_conf(socket_info=old.keys["socket_info"])
    old.start()
    done = muster(old.conf, "queue")
    assert done.returncode == 0, done
    assert "does not say which lab it is of" in done.stderr
    check_refused_in_words(other, old, "down")
    check_refused_in_words(other, old, "up")
    with old.client() as client:
        assert client.info()["tasks"] is not None, "it runs on"
    done = muster(old.conf, "down")
    assert done.returncode == 0, done
    assert old.master is not None
    assert old.master.wait(60) == 0
    old.master = None


def check_refused_in_words(lab: Lab, other: Lab, *words: str) -> None:
    done = muster(lab.conf, *words)
    assert done.returncode == 1, done
    assert "error: conflict: " in done.stderr, done
    assert str(other.conf) in done.stderr


def test_an_earlier_client_is_answered_as_before(first: Lab, tmp_path: Path) -> None:
    code = landed.unpack("users", tmp_path / "code")
    ((tasks, total),) = landed.ask(code, first.conf, ("list_tasks", [], {}))
    assert (len(tasks), total) == (1, 1)
