"""Processes as /proc shows them: what lives, whose child it is, which attempt it belongs to.

Tests that wait look through all of the machine's processes again and again, so nothing here makes an object for a file.
"""

# ruff: noqa: PTH115, PTH116, PTH208

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

_GONE = (FileNotFoundError, ProcessLookupError, PermissionError)
"""What reading /proc/PID says of a process that ended meanwhile, or is another user's."""

_PIECE = 1 << 16


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
    return _read(pid, "environ").split(b"\0")


def carries(pid: int, mark: bytes) -> bool:
    """Whether a process lives that was started with `mark`, a whole NAME=VALUE."""
    try:
        return b"\0" + mark + b"\0" in b"\0" + _read(pid, "environ") + b"\0" and _state(pid) not in "ZX"
    except _GONE:
        return False


def words(pid: int) -> list[bytes]:
    """The command line. Raises OSError."""
    return _read(pid, "cmdline").split(b"\0")


def shown(pid: int) -> bytes:
    """What everybody, or its own user, may read of how a process was started; nothing when it is gone."""
    try:
        return _read(pid, "cmdline") + b"".join(environment(pid))
    except _GONE:
        return b""


def state(pid: int) -> str:
    """The kernel's letter for what a process does: R, S, D, T, Z …; empty when it is gone."""
    try:
        return _state(pid)
    except _GONE:
        return ""


def owner(pid: int) -> int | None:
    """The uid of a process; None when it is gone."""
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except _GONE:
        return None


def namespace(pid: int, kind: str) -> str:
    """The name of the process' namespace, e.g. `pid:[4026531836]`. Raises OSError."""
    return os.readlink(f"/proc/{pid}/ns/{kind}")


def together(pid: int, kind: str) -> list[Process]:
    """All that live in the process' namespace; none when it is gone."""
    try:
        own = namespace(pid, kind)
    except _GONE:
        return []
    return alive(lambda one: namespace(one, kind) == own)


def mounts(pid: int, what: str) -> bool:
    """Whether something of that name is mounted where the process lives; False when it is gone."""
    try:
        return what in _read(pid, "mountinfo").decode("utf-8", "replace")
    except _GONE:
        return False


def inner_pid(pid: int) -> int | None:
    """The pid of a process as its own pid namespace counts; None when it is gone."""
    try:
        status = _read(pid, "status").decode("utf-8", "replace")
    except _GONE:
        return None
    [numbers] = [line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")]
    return int(numbers[-1])


def children(pid: int) -> list[int]:
    """The pids of a process' children; none when it is gone."""
    return [process.pid for process in alive(lambda one: _parent(one) == pid)]


def _pids() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdecimal()}


def _read(pid: int, what: str) -> bytes:
    """A file of a process, whole. Raises OSError."""
    descriptor = os.open(f"/proc/{pid}/{what}", os.O_RDONLY)
    try:
        whole = piece = os.read(descriptor, _PIECE)
        while piece:
            piece = os.read(descriptor, _PIECE)
            whole += piece
    finally:
        os.close(descriptor)
    return whole


def _accepts(belongs: Callable[[int], bool], pid: int) -> bool:
    try:
        return belongs(pid)
    except _GONE:
        return False


def _fields(pid: int) -> list[bytes]:
    """What stat tells behind the name: the state, the parent …"""
    stat = _read(pid, "stat")
    return stat[stat.rindex(b")") + 2 :].split(maxsplit=2)


def _state(pid: int) -> str:
    return _fields(pid)[0].decode("ascii")


def _parent(pid: int) -> int:
    return int(_fields(pid)[1])


def _look(pid: int) -> Process | None:
    try:
        state, parent = _fields(pid)[:2]
        command = _read(pid, "cmdline").replace(b"\0", b" ").decode("utf-8", "replace").strip()
        environ = environment(pid)
    except _GONE:
        return None
    if state in b"ZX":
        return None
    ids = [entry.partition(b"=")[2].decode() for entry in environ if entry.startswith(b"MUSTER_LAUNCH_ID=")]
    return Process(pid, int(parent), ids[0] if ids else "", command)
