"""The listener at a port of this machine, by name, for messages about a port that is taken or not trusted.

It is a hint for people: it says nothing of who has the other end of a connection (`wire.other_end` does).
"""

from __future__ import annotations

import os
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTENS = "0A"
_LOCAL, _STATE, _UID, _INODE = 1, 3, 7, 9
_MAPPED = b"\0" * 10 + b"\xff\xff"


class Listening:
    """A socket that listens, at an address and port: its account, and the number of the socket."""

    def __init__(self, uid: int, inode: int) -> None:
        self.uid = uid
        self.inode = inode

    def told(self) -> str:
        """`process 4711 (python3) of li (uid 1003)`; others' processes are seen by root alone."""
        for pid in _pids():
            if _has_socket(pid, self.inode):
                return f"process {pid} ({_command(pid)}) of {name_of(self.uid)}"
        return f"a process of {name_of(self.uid)}"


def name_of(uid: int) -> str:
    """An account, for people: its name, if it has one, and its number."""
    import pwd

    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def listening(host: str, port: int) -> list[Listening]:
    """Those that hold a port at an address of this machine, or at all of them. `host`: an address; another name, or
    none, means all."""
    wanted = _packed(host)
    return [
        one
        for address, one in _entries(port)
        if wanted is None or not any(wanted) or not any(address) or address == wanted
    ]


def holder(host: str, port: int) -> str:
    """Return the holder of a port as text; empty if the kernel does not tell."""
    found = listening(host, port)
    return found[0].told() if found else ""


def _entries(port: int) -> Iterator[tuple[bytes, Listening]]:
    mark = f":{port:04X} "
    for table in _TABLES:
        try:
            with open(table, encoding="ascii") as file:
                lines = [line.split() for line in file if mark in line]
        except OSError:
            continue  # a kernel without IPv6
        for words in lines:
            if words[_STATE] == _LISTENS and words[_LOCAL].endswith(mark.strip()):
                yield _address(words[_LOCAL]), Listening(int(words[_UID]), int(words[_INODE]))


def _address(text: str) -> bytes:
    """Of the kernel's table, which prints words of four bytes as the machine has them."""
    raw = bytes.fromhex(text.partition(":")[0])
    if sys.byteorder == "little":
        raw = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    return raw.removeprefix(_MAPPED)


def _packed(host: str) -> bytes | None:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.inet_pton(family, host.partition("%")[0]).removeprefix(_MAPPED)
    except OSError:
        return None


def _pids() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdecimal()]


def _has_socket(pid: str, inode: int) -> bool:
    wanted = f"socket:[{inode}]"
    try:
        open_files = list(os.scandir(f"/proc/{pid}/fd"))
    except OSError:
        return False  # another account's, or it ended
    for one in open_files:
        try:
            if os.readlink(one.path) == wanted:
                return True
        except OSError:
            continue  # it was closed
    return False


def _command(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "?"
