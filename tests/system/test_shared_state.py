"""Two labs whose conf.json names one state folder (`task_info`): no command of the one touches what the other runs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.cli.programs.beside import CONSOLE, WRITER
from tests.cases import each_case
from tests.ports import free_ports
from tests.system.lab import PORTS, ROOT, Lab
from tests.system.test_two_labs import check_unharmed
from tests.waiting import until
from wire.lab import path_of
from wire.message import Message


@pytest.fixture
def labs() -> Iterator[list[Lab]]:
    """What is made of `first` and the like; all of it is ended with the test."""
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
    """Another one, on ports of its own, that names the first one's state folder."""
    labs.append(Lab(tmp_path / "second", nodes=0))
    labs[1].write_conf(task_info=str(first.task_info))
    return labs[1]


def check_left_alone(lab: Lab, other: Lab, code: str, *words: str) -> None:
    """The command is refused with the file, the key and the other lab."""
    done = lab.muster(*words)
    assert (done.returncode, done.stdout) == (1, ""), (words, done)
    said = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]
    assert len(said) == 1, (words, done.stderr)
    assert said[0].startswith(f"error: {code}: {lab.conf}: task_info: "), (words, said)
    assert str(other.conf) in said[0], "the other lab is named"


def test_no_command_of_one_lab_ends_or_joins_the_master_of_the_other(first: Lab, second: Lab) -> None:
    with each_case() as cases:
        for code, *words in (("conflict", "down"), ("config", "up", "--detach"), ("config", "up")):
            with cases.case(" ".join(words)):
                check_left_alone(second, first, code, *words)
                check_unharmed(first)
        with cases.case("users"):
            check_left_alone(second, first, "config", "users", "passwd", "wang", "--remove")
    assert first.muster("down").returncode == 0, "its own is ended"
    assert first.master is not None
    assert first.master.wait(60) == 0
    first.master = None


def test_the_queue_of_a_lab_whose_master_is_down_is_not_taken_either(first: Lab, second: Lab) -> None:
    first.stop_master()
    files = {path: path.read_bytes() for path in first.task_info.glob("*.json*")}
    for words in (("up", "--detach"), ("users", "passwd", "wang", "--remove")):
        check_left_alone(second, first, "config", *words)
    assert {path: path.read_bytes() for path in first.task_info.glob("*.json*")} == files
    first.start()
    check_unharmed(first)


def test_it_is_taken_once_the_other_lab_is_gone_or_has_another_folder(first: Lab, second: Lab, tmp_path: Path) -> None:
    first.stop_master()
    first.write_conf(task_info=str(tmp_path / "own"))
    second.start()
    second.stop_master()
    first.write_conf(task_info=str(first.task_info))
    done = first.muster("up", "--detach")
    assert done.returncode == 1, done
    assert f"error: config: {first.conf}: task_info: " in done.stderr, done.stderr
    assert str(second.conf) in done.stderr, done.stderr
    second.conf.unlink()
    first.start()
    check_unharmed(first)


def test_a_copied_lab_with_an_absolute_state_folder_is_another_lab(first: Lab, labs: list[Lab], tmp_path: Path) -> None:
    first.stop_master()
    first.write_conf(task_info=str(first.task_info))
    first.start()
    shutil.copytree(first.folder, tmp_path / "copy", symlinks=True)
    copy = Lab(tmp_path / "copy", nodes=0)
    labs.append(copy)
    copy.keys = {**first.keys, "socket_info": dict(zip(PORTS, free_ports(3), strict=True))}
    copy.write_conf()
    check_left_alone(copy, first, "conflict", "down")
    check_left_alone(copy, first, "config", "up", "--detach")
    check_unharmed(first)


def test_the_programs_beside_a_master_do_not_begin_in_another_labs_folder(first: Lab, second: Lab) -> None:
    second.write_conf(web={"port": free_ports(1)[0]}, influx={"url": "http://127.0.0.1:9", "bucket": "lab"})
    with each_case() as cases:
        for program in (CONSOLE, WRITER):
            with cases.case(program.name):
                done = subprocess.run(
                    program.command(str(second.conf)), cwd=ROOT, env=second.environment(), capture_output=True,
                    text=True, timeout=60, check=False,
                )  # fmt: skip
                told = done.stderr + done.stdout
                assert done.returncode == 1, told
                assert f"config: {second.conf}: task_info: " in told, told
                assert str(first.conf) in told, told
                assert not (first.task_info / program.lock).exists(), "nothing is made there"


def test_a_lab_that_was_moved_while_its_master_runs_still_ends_it(first: Lab, tmp_path: Path) -> None:
    first.folder.rename(tmp_path / "moved")
    first.keys["socket_info"] = dict(zip(PORTS, free_ports(3), strict=True))
    was, first.conf = first.conf, tmp_path / "moved" / "conf.json"
    first.conf.write_text(json.dumps(first.keys))
    done = first.muster("down")
    first.conf = was
    (tmp_path / "moved").rename(first.folder)
    assert done.returncode == 0, done
    assert first.master is not None
    assert first.master.wait(60) == 0
    first.master = None


def test_the_console_of_the_other_lab_runs_on(first: Lab, second: Lab) -> None:
    (web,) = free_ports(1)
    first.write_conf(web={"port": web})
    second.write_conf(web={"port": free_ports(1)[0]})
    process = CONSOLE.start(str(first.conf))
    try:
        until("the console runs", lambda: CONSOLE.pid(str(first.conf)) == process.pid)
        check_left_alone(second, first, "config", "up")
        check_left_alone(second, first, "conflict", "down")
        first.stop_master()
        check_left_alone(second, first, "config", "up")
        check_left_alone(second, first, "conflict", "down")
        os.kill(process.pid, 0)
        assert process.poll() is None
        assert CONSOLE.stop(str(first.task_info), str(first.conf))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_up_tells_of_a_copied_queue_and_of_what_lies_in_the_place_of_an_identity(
    first: Lab, labs: list[Lab], tmp_path: Path
) -> None:
    first.stop_master()
    shutil.copytree(first.folder, tmp_path / "copy", symlinks=True)
    copy = Lab(tmp_path / "copy", nodes=0)
    labs.append(copy)
    done = copy.muster("up", "--detach")
    assert done.returncode == 0, done
    assert str(Message("queue_is_copy", folder=str(copy.task_info), of=str(first.conf))) in done.stderr
    assert copy.muster("down").returncode == 0
    done = copy.muster("up", "--detach")
    assert (done.returncode, done.stderr) == (0, ""), "it has an identity of its own by now"
    assert copy.muster("down").returncode == 0
    path = Path(path_of(str(copy.conf)))
    path.unlink()
    path.mkdir()
    done = copy.muster("up", "--detach")
    assert (done.returncode, done.stdout.count("the master runs")) == (0, 1), done
    assert done.stderr.startswith(str(Message("lab_file_odd", path=str(path)))), done.stderr
    assert copy.muster("down").returncode == 0
    path.rmdir()
    for lay in (os.mkfifo, _link, _damaged):
        path.unlink(missing_ok=True)
        lay(path)
        done = copy.muster("up", "--detach")
        assert (done.returncode, done.stderr) == (0, ""), (lay, done)
        assert path.is_file(), "it is made anew"
        assert not path.is_symlink()
        assert copy.muster("down").returncode == 0


def _link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def _damaged(path: Path) -> None:
    path.write_text("{")
