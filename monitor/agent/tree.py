"""Processes: who is alive, who descends from whom, who carries a launch id, and signals that never reach a stranger.

It owns reading /proc and sending signals. It knows nothing of attempts, graces and deadlines.
"""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress
from typing import Dict, Iterable, List, NamedTuple, Optional, Set

MARK = "MUSTER_LAUNCH_ID"
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)


class Process(NamedTuple):
    """A process: its start time (clock ticks since boot) tells it from a later one with the same pid."""

    pid: int
    parent: int
    start: int
    state: str


def become_subreaper() -> None:
    """Orphans among our descendants become our children. Raises OSError."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Have this process killed as soon as its parent, which had that pid before the fork, ends. Raises OSError."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)  # it ended before we could ask


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def look(pid: int) -> Optional[Process]:
    """The process with this pid (also a zombie), or None."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            text = file.read(4096)
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    return Process(pid, int(fields[1]), int(fields[19]), fields[0].decode())


def is_alive(pid: Optional[int], start: Optional[int]) -> bool:
    """Whether that very process lives (a zombie does not)."""
    if not pid:
        return False
    found = look(pid)
    return found is not None and found.start == start and found.state not in "ZX"


def everyone() -> Dict[int, Process]:
    """All processes by pid."""
    found = (look(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {process.pid: process for process in found if process is not None}


def descendants(roots: Iterable[int], processes: Dict[int, Process]) -> List[Process]:
    """Everything below these pids (they themselves left out), without zombies."""
    children: Dict[int, List[Process]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
    found: List[Process] = []
    seen: Set[int] = set(roots)
    open_ends = list(seen)
    while open_ends:
        for child in children.get(open_ends.pop(), []):
            if child.pid not in seen:
                seen.add(child.pid)
                open_ends.append(child.pid)
                found.append(child)
    return [process for process in found if process.state not in "ZX"]


def carriers(launch_ids: Iterable[str]) -> Dict[str, List[Process]]:
    """For each launch id the living processes that carry it in their environment, and all that descend from them."""
    processes = everyone()
    marks = {b"\0%s=%s\0" % (MARK.encode(), name.encode()): name for name in launch_ids}
    found: Dict[str, List[Process]] = {name: [] for name in marks.values()}
    for process in processes.values():
        environ = b"" if process.state in "ZX" else _environ(process.pid)
        if MARK.encode() not in environ:
            continue
        for mark, name in marks.items():
            if mark in environ:
                found[name].append(process)
    for members in found.values():
        known = {process.pid for process in members}
        members += [below for below in descendants(known, processes) if below.pid not in known]
    return found


def send(processes: Iterable[Process], number: int) -> None:
    """Signal these very processes; those that are gone are passed over, and so are those we may not signal."""
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):  # what we may not signal goes on being waited for
            _send(process, number)


def terminate(processes: Iterable[Process]) -> None:
    """TERM, and CONT for those that are stopped and could not hear it."""
    members = list(processes)
    send(members, signal.SIGTERM)
    send(members, signal.SIGCONT)


def _send(process: Process, number: int) -> None:
    opener = getattr(os, "pidfd_open", None)
    if opener is None:
        if _is_same(process):
            os.kill(process.pid, number)
        return
    fd = opener(process.pid)
    try:
        if _is_same(process):
            sender = getattr(signal, "pidfd_send_signal")  # noqa: B009  (Python 3.8 has none)
            sender(fd, number)
    finally:
        os.close(fd)


def _is_same(process: Process) -> bool:
    found = look(process.pid)
    return found is not None and found.start == process.start


def _environ(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return b"\0" + file.read()
    except OSError:
        return b""  # gone, or not ours to read
