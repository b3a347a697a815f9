"""Questions to the kernel about addresses and sockets of other processes, one at a time over netlink.

`/proc/net/tcp` tells the same of sockets, but lists all of them for each question: with thousands of connections that
would be milliseconds for each new one. It is read only where the kernel cannot be asked (`tcp_diag` is a module).

The master asks who calls it, clients ask who answers. It is on the path of every command's start, so it imports little.
"""

from __future__ import annotations

import socket
import struct
import sys
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    End: TypeAlias = tuple[str, int]
    """An address and a port."""

NOT_TAKEN, ELSEWHERE = -1, -2
"""In the place of a uid: nobody has accepted the connection yet; its other end is not in our network namespace."""

_SOCK_DIAG, _BY_FAMILY = 4, 20
_GETROUTE, _TO, _OUT, _LOCAL = 26, 1, 4, 2
_REQUEST, _ERROR = 1, 2
_ESTABLISHED, _OPENS = 1, 3
_V4, _V6 = 4, 16
"""Bytes of an address."""
_CLOTHES = "0" * 16 + ("FFFF0000" if sys.byteorder == "little" else "0000FFFF")
"""Of an IPv4 address that an IPv6 socket speaks to, as the kernel's table prints them."""
_MAPPED = b"\0" * 10 + b"\xff" * 2
_HEADER = struct.Struct("=IHHII")
_ENDS = struct.Struct(">HH16s16s")
_SOCKET = struct.Struct("=4B36x12x12xII")
"""`struct inet_diag_msg`: family, state, …, which socket it is, three numbers, then the uid and the inode."""


def is_here(address: str) -> bool:
    """Whether an address is one of this machine's, loopback or not: who comes from there is a process of it. Raises
    ValueError for what is no address."""
    packed = _packed(address)
    if packed == socket.inet_pton(socket.AF_INET6, "::1") or (len(packed) == _V4 and packed[0] == 127):  # noqa: PLR2004
        return True
    route = struct.pack("=8BI", _family(packed), len(packed) * 8, *([0] * 7)) + _attribute(_TO, packed)
    zone = address.partition("%")[2]
    try:
        if zone:
            route += _attribute(_OUT, struct.pack("=I", socket.if_nametoindex(zone)))
        answer = _ask(socket.NETLINK_ROUTE, _GETROUTE, route)
    except OSError:
        return _can_be_bound(packed)
    return answer is not None and answer[7] == _LOCAL


def owner(ours: End, theirs: End) -> int | None:
    """The uid of whoever holds the other end of an established connection within this machine. None: there is no such
    connection any more, or it leads out of our network namespace. One that its owner has closed tells nothing, for
    some kernels call it root's then."""
    found = _owner_by_diag(ours, theirs) if _can_be_asked() else _owner_by_table(ours, theirs)
    return None if found < 0 else found


def other_end(ours: End, theirs: End) -> int:
    """The uid of whoever accepted our connection within this machine: `ours` is our end of it. Else NOT_TAKEN or
    ELSEWHERE. Nothing is tried out before the kernel has answered with the latter."""
    try:
        found = _owner_by_diag(ours, theirs)
    except OSError:
        return _owner_by_table(ours, theirs)
    return found if found != ELSEWHERE or _can_be_asked() else _owner_by_table(ours, theirs)


def _owner_by_diag(ours: End, theirs: End) -> int:
    here, there = _packed(ours[0]), _packed(theirs[0])
    ends = _ENDS.pack(theirs[1], ours[1], *(packed.ljust(_V6, b"\0") for packed in (there, here)))
    any_interface, no_cookie = b"\0" * 4, b"\xff" * 8
    which = struct.pack("=4BI", _family(there), socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF) + ends + any_interface + no_cookie
    answer = _ask(_SOCK_DIAG, _BY_FAMILY, which)
    if answer is None:
        return ELSEWHERE
    _, state, _, _, uid, inode = _SOCKET.unpack_from(answer)
    # Where there is no such connection the kernel tells of whoever listens at its end. A program that speaks IPv6 only
    # reaches an IPv4 address with an IPv6 socket, and that is how the kernel calls its ends then.
    told = _ENDS.unpack_from(answer, 4)
    same = told in (_ENDS.unpack(ends), (theirs[1], ours[1], _mapped(there), _mapped(here)))
    return _meaning(state, uid, inode) if same else ELSEWHERE


def _meaning(state: int, uid: int, inode: int) -> int:
    """Of a socket that nobody has accepted yet the kernel tells no inode, and root's uid or the listener's."""
    if state == _ESTABLISHED:
        return uid if inode else NOT_TAKEN
    return NOT_TAKEN if state == _OPENS else ELSEWHERE


def _mapped(packed: bytes) -> bytes | None:
    return _MAPPED + packed if len(packed) == _V4 else None


def _owner_by_table(ours: End, theirs: End) -> int:
    is_v4 = len(_packed(theirs[0])) == _V4
    uid = _line_of("tcp", _hex(ours), _hex(theirs)) if is_v4 else ELSEWHERE
    clothes = _CLOTHES if is_v4 else ""
    return uid if uid != ELSEWHERE else _line_of("tcp6", clothes + _hex(ours), clothes + _hex(theirs))


def _line_of(table: str, ours: str, theirs: str) -> int:
    wanted = [theirs.encode(), ours.encode()]
    try:
        with open(f"/proc/net/{table}", "rb") as lines:
            for line in lines:
                # number, local, remote, state, queues, timer, retransmits, uid, timeout, inode
                words = line.split()
                if words[1:3] == wanted:
                    return _meaning(int(words[3], 16), int(words[7]), int(words[9]))
    except FileNotFoundError:
        pass  # a kernel without IPv6
    return ELSEWHERE


def _hex(end: End) -> str:
    # The kernel prints the address as 32-bit words in the machine's own byte order.
    packed = _packed(end[0])
    words = [int.from_bytes(packed[i : i + 4], "little") for i in range(0, len(packed), 4)]
    return "".join(f"{word:08X}" for word in words) + f":{end[1]:04X}"


@cache
def _can_be_asked() -> bool:
    """Whether sockets can be asked about at all: found out once, with a connection of our own."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as caller:
        try:
            return _owner_by_diag(server.getsockname(), caller.getsockname()) >= 0
        except OSError:
            return False


def _can_be_bound(packed: bytes) -> bool:
    family = _family(packed)
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((socket.inet_ntop(family, packed), 0))
        except OSError:
            return False
    return True


def _packed(address: str) -> bytes:
    """Without its zone, and without IPv6's clothes if it is an IPv4 address. Raises ValueError."""
    host = address.partition("%")[0]
    try:
        return socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host).removeprefix(_MAPPED)
    except OSError:
        raise ValueError(f"{address!r} is no address") from None


def _family(packed: bytes) -> socket.AddressFamily:
    return socket.AF_INET if len(packed) == _V4 else socket.AF_INET6


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value


def _ask(protocol: int, kind: int, what: bytes) -> bytes | None:
    """The answer to one question; None where the kernel knows of none. Raises OSError if it cannot be asked."""
    if not hasattr(socket, "AF_NETLINK"):
        raise OSError("only Linux can be asked")
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol) as kernel:
        kernel.sendto(_HEADER.pack(_HEADER.size + len(what), kind, _REQUEST, 1, 0) + what, (0, 0))
        answer = kernel.recv(8192)
    told = _HEADER.unpack_from(answer)[1]
    return None if told == _ERROR else answer[_HEADER.size :]
