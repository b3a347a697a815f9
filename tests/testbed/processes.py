"""Processes as /proc shows them: what lives, whose child it is, which attempt it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_GONE = (FileNotFoundError, ProcessLookupError, PermissionError)
"""What reading /proc/PID says of a process that ended meanwhile, or is another user's."""


class Process(NamedTuple):
    """A living process. `launch_id`: of the attempt that it belongs to, or empty."""

    pid: int
    parent: int
    launch_id: str
    command: str


def alive(belongs: Callable[[int], bool]) -> list[Process]:
    """All processes whose pid `belongs` accepts. Zombies do not count.

    One list is not enough: a process that forks after the list was read, and ends before it is looked at, would hide
    its child. So the list is read again until it names nobody who was not looked at.
    """
    found: list[Process] = []
    looked_at: set[int] = set()
    while new := _pids() - looked_at:
        looks = (_look(pid) for pid in sorted(new) if _accepts(belongs, pid))
        found += [process for process in looks if process is not None]
        looked_at |= new
    return found


def environment(pid: int) -> list[bytes]:
    """What the process was started with, as NAME=VALUE. Raises OSError."""
    return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def words(pid: int) -> list[bytes]:
    """The command line. Raises OSError."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def shown(pid: int) -> bytes:
    """What everybody, or its own user, may read of how a process was started; nothing when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() + b"".join(environment(pid))
    except _GONE:
        return b""


def state(pid: int) -> str:
    """The kernel's letter for what a process does: R, S, D, T, Z …; empty when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except _GONE:
        return ""
    return stat[stat.rindex(b")") + 2 :][:1].decode("ascii")


def owner(pid: int) -> int | None:
    """The uid of a process; None when it is gone."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except _GONE:
        return None


def namespace(pid: int, kind: str) -> str:
    """The name of the process' namespace, e.g. `pid:[4026531836]`. Raises OSError."""
    return str(Path(f"/proc/{pid}/ns/{kind}").readlink())


def mounts(pid: int, what: str) -> bool:
    """Whether something of that name is mounted where the process lives; False when it is gone."""
    try:
        return what in Path(f"/proc/{pid}/mountinfo").read_text(encoding="utf-8", errors="replace")
    except _GONE:
        return False


def inner_pid(pid: int) -> int | None:
    """The pid of a process as its own pid namespace counts; None when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except _GONE:
        return None
    [numbers] = [line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")]
    return int(numbers[-1])


def children(pid: int) -> list[int]:
    """The pids of a process' children; none when it is gone."""
    return [process.pid for process in alive(lambda one: _parent(one) == pid)]


def _pids() -> set[int]:
    return {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()}


def _accepts(belongs: Callable[[int], bool], pid: int) -> bool:
    try:
        return belongs(pid)
    except _GONE:
        return False


def _parent(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_bytes()
    return int(stat[stat.rindex(b")") + 2 :].split()[1])


def _look(pid: int) -> Process | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        environ = environment(pid)
    except _GONE:
        return None
    state, parent = stat[stat.rindex(b")") + 2 :].split()[:2]
    if state in b"ZX":
        return None
    ids = [entry.partition(b"=")[2].decode() for entry in environ if entry.startswith(b"MUSTER_LAUNCH_ID=")]
    return Process(pid, int(parent), ids[0] if ids else "", command)
