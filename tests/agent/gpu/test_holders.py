"""Whose a process is: of an attempt of this agent, even when it hides that, or else foreign; and its user's name."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from monitor.agent.gpu import holders
from monitor.agent.gpu.holders import Holders
from tests.waiting import until

ME = pwd.getpwuid(os.getuid()).pw_name


class Crowd:
    """Processes, with a folder of claims; `holders` looks at them."""

    def __init__(self, folder: Path) -> None:
        self.claims = folder / "attempts"
        self.claims.mkdir()
        self.holders = Holders(str(self.claims))
        self.processes: list[subprocess.Popen[bytes]] = []

    def claim(self, launch_id: str) -> None:
        (self.claims / launch_id).mkdir()

    def start(self, launch_id: str | None, *command: str) -> int:
        env = {} if launch_id is None else {"MUSTER_LAUNCH_ID": launch_id}
        process = subprocess.Popen(command or ("/bin/sleep", "1000"), env=env, stdin=subprocess.PIPE)
        self.processes.append(process)
        mark = b"" if launch_id is None else b"MUSTER_LAUNCH_ID="
        until("its environment", lambda: mark in Path(f"/proc/{process.pid}/environ").read_bytes())
        return process.pid

    def launch_id(self, pid: int) -> str:
        told = self.told(pid)
        assert told is not None
        return str(told["launch_id"])

    def told(self, pid: int) -> dict[str, Any] | None:
        found = self.holders.process(pid, 5)
        self.holders.forget_others()
        return found

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    made = Crowd(tmp_path)
    yield made
    made.close()


def test_a_process_of_an_attempt_is_ours(crowd: Crowd) -> None:
    crowd.claim("t1-a")
    pid = crowd.start("t1-a")
    assert crowd.told(pid) == {"pid": pid, "user": ME, "memory_mib": 5, "launch_id": "t1-a"}


def test_one_that_dropped_its_environment_is_known_by_who_started_it(crowd: Crowd) -> None:
    crowd.claim("t1-a")
    parent = crowd.start("t1-a", "/bin/bash", "-c", "env -i /bin/sleep 1000 & wait")
    path = Path(f"/proc/{parent}/task/{parent}/children")
    [child] = until("the pids", lambda: [int(pid) for pid in path.read_text(encoding="ascii").split()])
    try:
        until("the child is sleep", lambda: b"sleep" in Path(f"/proc/{child}/cmdline").read_bytes())
        assert crowd.launch_id(child) == "t1-a"
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("launch_id", [None, "of-another-muster", "", ".", "..", "../attempts"])
def test_all_others_are_foreign(crowd: Crowd, launch_id: str | None) -> None:
    assert crowd.launch_id(crowd.start(launch_id)) == ""


def test_the_user_is_the_one_who_runs_it(crowd: Crowd) -> None:
    told = crowd.told(1)
    assert told is not None
    assert (told["user"], told["launch_id"]) == ("root", "")


def test_one_that_ended_meanwhile_is_left_out_but_what_the_driver_goes_on_listing_is_not(crowd: Crowd) -> None:
    process = subprocess.Popen(["/bin/true"])
    process.wait()
    assert crowd.told(process.pid) is None
    assert crowd.told(process.pid) == {"pid": process.pid, "user": "", "memory_mib": 5, "launch_id": ""}


def test_one_that_was_known_and_ended_is_still_whose_it_was(crowd: Crowd) -> None:
    crowd.claim("t1-a")
    pid = crowd.start("t1-a")
    assert crowd.launch_id(pid) == "t1-a"
    crowd.close()
    assert crowd.launch_id(pid) == "t1-a"


def test_what_was_found_is_remembered_while_the_process_is_there(crowd: Crowd) -> None:
    crowd.claim("t1-a")
    pid = crowd.start("t1-a")
    assert crowd.launch_id(pid) == "t1-a"
    (crowd.claims / "t1-a").rmdir()
    assert crowd.launch_id(pid) == "t1-a"
    crowd.holders.forget_others()
    assert crowd.launch_id(pid) == ""


def test_one_that_could_not_be_read_at_first_is_looked_at_again(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd.claim("t1-a")
    pid = crowd.start("t1-a")
    with monkeypatch.context() as patch:
        patch.setattr(Holders, "_carried", lambda _self, _pid: "")
        assert crowd.launch_id(pid) == ""
    assert crowd.launch_id(pid) == "t1-a"


def test_a_directory_service_that_is_away_delays_nobody(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    back = threading.Event()
    real = pwd.getpwuid

    def slow(uid: int) -> pwd.struct_passwd:
        back.wait(20)
        return real(uid)

    monkeypatch.setattr(holders, "NAME_PATIENCE_S", 0.05)
    monkeypatch.setattr(pwd, "getpwuid", slow)
    pid = crowd.start(None)
    assert (crowd.told(pid) or {})["user"] == str(os.getuid())
    back.set()
    until("the name", lambda: (crowd.told(pid) or {})["user"] == ME)


def test_who_poses_as_part_of_somebodys_attempt_is_foreign(crowd: Crowd) -> None:
    crowd.claim("7.1.a")
    pid = crowd.start("7.1.a")
    other = os.getuid() + 1
    record = crowd.claims / "7.1.a" / "record"
    record.write_text(f'{{"is":"claim"}}\n{{"is":"start","pid":1,"uid":{other}}}\n', encoding="ascii")
    assert crowd.launch_id(pid) == ""
    record.write_text(f'{{"is":"claim"}}\n{{"is":"start","pid":1,"uid":{os.getuid()}}}\n', encoding="ascii")
    assert crowd.launch_id(crowd.start("7.1.a")) == "7.1.a"
