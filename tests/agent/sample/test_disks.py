"""How full disks are, although one of them may hang for good."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from monitor.agent.sample.disks import EVERY_S, PATIENCE_S, Disks
from tests.waiting import until

HANGS = "/hangs"


@pytest.fixture(autouse=True)
def hanging(monkeypatch: pytest.MonkeyPatch) -> None:
    """One folder is on a file server that is gone."""
    real = os.statvfs

    def statvfs(folder: str) -> os.statvfs_result:
        if folder == HANGS:
            time.sleep(1000)
        return real(folder)

    monkeypatch.setattr(os, "statvfs", statvfs)


class Watch:
    """Disks, and time as the test wants it."""

    def __init__(self, *folders: str) -> None:
        self.disks = Disks(list(folders))
        self.now = 100.0

    def look(self, after_s: float = 0.0) -> list[str]:
        """Look, and hear all that answers by itself; the folders of which something is known."""
        self.now += after_s
        self.disks.look(self.now)
        while self.disks.fd >= 0 and self.disks.folder != HANGS:
            assert select.select([self.disks.fd], [], [], 60)[0]
            self.disks.on_ready(self.now)
        return [disk["path"] for disk in self.disks.figures]


@pytest.fixture
def watches() -> Iterator[list[Watch]]:
    made: list[Watch] = []
    yield made
    for watch in made:
        for pid in watch.disks.pids.values():
            os.kill(pid, 9)
            os.waitpid(pid, 0)
        if watch.disks.fd >= 0:
            os.close(watch.disks.fd)


def test_total_and_free_are_told_of_each_folder(tmp_path: Path, watches: list[Watch]) -> None:
    watch = Watch("/", str(tmp_path), "/no/such")
    watches.append(watch)
    assert watch.look() == ["/", str(tmp_path)]
    whole = os.statvfs("/")
    [root, _] = watch.disks.figures
    assert root["total_mib"] == whole.f_blocks * whole.f_frsize >> 20
    assert root["free_mib"] == pytest.approx(whole.f_bavail * whole.f_frsize >> 20, abs=2048)


def test_they_are_looked_at_seldom(tmp_path: Path, watches: list[Watch], monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(str(tmp_path))
    watches.append(watch)
    watch.look()
    monkeypatch.setattr(watch.disks, "_ask", lambda _now: pytest.fail("not yet"))
    assert watch.look(EVERY_S - 1) == [str(tmp_path)]
    monkeypatch.undo()
    tmp_path.rmdir()
    until("the look that finds it gone", lambda: watch.look(EVERY_S) == [])


def test_one_that_hangs_keeps_the_others_waiting_for_a_moment_only(watches: list[Watch]) -> None:
    watch = Watch("/proc", HANGS, "/")
    watches.append(watch)
    assert watch.look() == ["/proc"]
    pid = watch.disks.pids[HANGS]
    assert watch.look(PATIENCE_S - 0.1) == ["/proc"]
    assert watch.look(0.2) == ["/proc", "/"]
    until("it is killed", lambda: not Path(f"/proc/{pid}/root").exists())


def test_no_other_is_sent_after_one_that_cannot_be_killed(
    watches: list[Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(HANGS, "/")
    watches.append(watch)
    monkeypatch.setattr(os, "kill", lambda _pid, _number: None)
    watch.look()
    stuck = watch.disks.pids[HANGS]
    watch.look(PATIENCE_S)
    for _ in range(3):
        assert watch.look(EVERY_S) == ["/"]
        assert watch.disks.pids[HANGS] == stuck
    monkeypatch.undo()


def test_where_no_process_can_be_made_this_round_is_left_out(
    watches: list[Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_fork() -> NoReturn:
        raise BlockingIOError

    watch = Watch("/")
    watches.append(watch)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fork", no_fork)
        assert watch.look() == []
    assert watch.look(EVERY_S) == ["/"]
