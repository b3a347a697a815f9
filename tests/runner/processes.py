"""The processes that the runner starts, and those that its tests leave behind.

The runner adopts every orphan beneath it (a subreaper, prctl(2)), so whatever a test starts stays a descendant of the
runner, also after it became a daemon, and can be named and ended.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

_SET_CHILD_SUBREAPER = 36
_TEST = "PYTEST_CURRENT_TEST"
"""The variable in which pytest names the running test; what the test starts inherits it."""


class Left(NamedTuple):
    """A process that was left behind: what it is, the test in its environment or an empty text, and when it was
    started, on the monotonic clock in seconds."""

    told: str
    test: str
    since: float


class Child:
    """A process in a session of its own. Its output goes to a file: a pipe stays open as long as any of its heirs."""

    def __init__(self, command: Sequence[str], output: Path, environment: Mapping[str, str]) -> None:
        self.command = list(command)
        self.output = output
        self.status: int | None = None
        """The exit code once it has ended; a signal's number as a negative one."""
        with output.open("wb") as file:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,
            )
        self.pid = self._process.pid

    def ended(self, status: int) -> None:
        """The kernel told how it ended."""
        self.status = os.waitstatus_to_exitcode(status)
        self._process.returncode = self.status

    def kill(self) -> None:
        """End it with all its descendants, whatever sessions these made."""
        with suppress(psutil.NoSuchProcess):
            for process in [*psutil.Process(self.pid).children(recursive=True), psutil.Process(self.pid)]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()


class Nursery:
    """Starts children, and waits for them and for every orphan, at once: a test that waits for a process of its own to
    be gone must not wait for the runner."""

    def __init__(self) -> None:
        if ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
        self._children: dict[int, Child] = {}
        self._changed = threading.Condition()
        threading.Thread(target=self._reap, name="reaper", daemon=True).start()

    def start(self, command: Sequence[str], output: Path, environment: Mapping[str, str]) -> Child:
        """Start a child."""
        with self._changed:  # so that it is known before its end is
            child = Child(command, output, environment)
            self._children[child.pid] = child
            self._changed.notify_all()
        return child

    def _reap(self) -> None:
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:
                with self._changed:
                    self._changed.wait_for(lambda: self._children)
                continue
            with self._changed:
                if ended is not None:
                    _, status = os.waitpid(ended.si_pid, 0)
                    child = self._children.pop(ended.si_pid, None)
                    if child is not None:
                        child.ended(status)

    def kill(self) -> None:
        """End all children and every orphan."""
        for child in list(self._children.values()):
            child.kill()
        self.left((), 0.0)

    def left(self, keep: Iterable[Child], patience_s: float) -> list[Left]:
        """Kill the descendants of this process that are still there after `patience_s` seconds, apart from the children
        to `keep` and their descendants, and tell of them."""
        until = time.monotonic() + patience_s
        kept = [child.pid for child in keep if child.status is None]
        while (found := _strangers(kept)) and time.monotonic() < until:
            time.sleep(0.1)
        left = []
        while found:
            left += [one for one in map(_describe, found) if one is not None]
            for process in found:
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGKILL)
            psutil.wait_procs(found, timeout=5)
            found = _strangers(kept)  # those that were forked meanwhile
        return left


def _strangers(kept: Iterable[int]) -> list[psutil.Process]:
    """The descendants that live. One that forks and ends while they are listed hides its child, so nobody is only
    believed when it is seen twice."""
    return _listed(kept) or _listed(kept)


def _listed(kept: Iterable[int]) -> list[psutil.Process]:
    known = set(kept)
    found = []
    for process in psutil.Process().children():
        if process.pid in known:
            continue
        with suppress(psutil.NoSuchProcess):
            found += [process, *process.children(recursive=True)]
    return [process for process in found if _lives(process)]


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _describe(process: psutil.Process) -> Left | None:
    """Pid, command, folder and test of a process; None if it ended meanwhile."""
    try:
        since = _since(process.pid)
        with process.oneshot():
            command = " ".join(process.cmdline()) or process.name()
            told = f"process {process.pid} ({command[:200]}) in {process.cwd()}"
            test = process.environ().get(_TEST, "").removesuffix(" (call)")
    except (psutil.NoSuchProcess, FileNotFoundError):
        return None
    except psutil.AccessDenied:
        return Left(f"process {process.pid} ({process.name()})", "", since)
    return Left(told, test, since)


def _since(pid: int) -> float:
    """When a process was started, on the monotonic clock. psutil knows it only to a second."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    slept = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK") - slept
