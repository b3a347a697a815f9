"""Who has the other end of a connection within this machine, by the kernel's word.

Within a machine nothing is encrypted, and any of its accounts may take the master's port while that is down. So no
password and no token is sent before the kernel has said that the port is held by the account that it was held by at
the log-in, by root, or by whoever asks.
"""

from __future__ import annotations

import os
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ACCOUNT = "MUSTER_MASTER_UID"
_TABLES = {socket.AF_INET: ("/proc/net/tcp", "/proc/net/tcp6"), socket.AF_INET6: ("/proc/net/tcp6",)}
_ESTABLISHED, _LISTENS = "01", "0A"
_LOCAL, _REMOTE, _STATE, _UID, _INODE = 1, 2, 3, 7, 9
_CLOTHES = b"\0" * 10 + b"\xff\xff"
"""Of an IPv4 address in an IPv6 one."""


def holders(sock: socket.socket) -> set[int]:
    """The uids of whoever listens at the other end, and of whoever took the connection there. Empty where the kernel
    tells nothing."""
    there, here = _end(sock.getpeername()), _end(sock.getsockname())
    found = set()
    for local, remote, state, uid, is_taken in _entries(sock.family, there[1]):
        listens = state == _LISTENS and local[1] == there[1] and (local[0] == there[0] or not any(local[0]))
        # One that nobody has taken yet is called root's, whoever listens.
        if listens or (state == _ESTABLISHED and is_taken and (local, remote) == (there, here)):
            found.add(uid)
    return found - {_nobody()}


def strangers(sock: socket.socket, account: int) -> set[int]:
    """Those of them who are neither root nor we ourselves nor this account."""
    return holders(sock) - {0, os.geteuid(), account}


def account_of(sock: socket.socket) -> int | None:
    """Who holds the port, if it is one account and neither root's nor ours."""
    found = holders(sock) - {0, os.geteuid()}
    return found.pop() if len(found) == 1 else None


def said() -> int | None:
    """What MUSTER_MASTER_UID says, as a task on the master's machine has it."""
    text = os.environ.get(ACCOUNT, "")
    return int(text) if text.isascii() and text.isdigit() else None


def _entries(family: int, port: int) -> Iterator[tuple[tuple[bytes, int], tuple[bytes, int], str, int, bool]]:
    mark = f":{port:04X} "
    for table in _TABLES.get(socket.AddressFamily(family), ()):
        try:
            with open(table, encoding="ascii") as file:
                lines = [line.split() for line in file if mark in line]
        except OSError:
            continue
        for words in lines:
            yield (
                _printed(words[_LOCAL]),
                _printed(words[_REMOTE]),
                words[_STATE],
                int(words[_UID]),
                words[_INODE] != "0",
            )


def _end(name: tuple[str, int]) -> tuple[bytes, int]:
    host = name[0].partition("%")[0]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.inet_pton(family, host).removeprefix(_CLOTHES), name[1]


def _printed(text: str) -> tuple[bytes, int]:
    """An address and port of the table, which prints words of four bytes as the machine has them."""
    address, _, port = text.partition(":")
    raw = bytes.fromhex(address)
    if sys.byteorder == "little":
        raw = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    return raw.removeprefix(_CLOTHES), int(port, 16)


def _nobody() -> int:
    """As whom the kernel shows those who are not known where we are, in a container, say."""
    try:
        with open("/proc/sys/kernel/overflowuid", encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 65534
