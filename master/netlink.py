"""What the kernel knows of addresses and of other processes' sockets, asked for one at a time over netlink.

`/proc/net/tcp` tells the same of sockets, but lists all of them for each question: with thousands of connections that
would be milliseconds for each new one. It is read only where the kernel cannot be asked (`tcp_diag` is a module).
"""

from __future__ import annotations

import ipaddress
import socket
import struct
import sys
from functools import cache, lru_cache
from pathlib import Path

End = tuple[str, int]
"""An address and a port."""

_SOCK_DIAG, _BY_FAMILY = 4, 20
_GETROUTE, _TO, _OUT, _LOCAL = 26, 1, 4, 2
_REQUEST, _ERROR = 1, 2
_ESTABLISHED = 1
_V4 = 4
_CLOTHES = "0" * 16 + ("FFFF0000" if sys.byteorder == "little" else "0000FFFF")
"""Of an IPv4 address that an IPv6 socket speaks to, as the kernel's table prints them."""
_V6_SITE = len("2001:0db8:0000:0000")
_HEADER = struct.Struct("=IHHII")
_ENDS = struct.Struct(">HH16s16s")
_SOCKET = struct.Struct("=4B36x12x12xII")
"""`struct inet_diag_msg`: family, state, …, which socket it is, three numbers, then the uid and the inode."""


def is_here(address: str) -> bool:
    """Whether an address is one of this machine's, loopback or not: who comes from there is a process of it."""
    ip = plain(address)
    if ip.is_loopback:
        return True
    route = struct.pack("=8BI", _family(ip), ip.max_prefixlen, *([0] * 7)) + _attribute(_TO, ip.packed)
    zone = address.partition("%")[2]
    try:
        if zone:
            route += _attribute(_OUT, struct.pack("=I", socket.if_nametoindex(zone)))
        answer = _ask(socket.NETLINK_ROUTE, _GETROUTE, route)
    except OSError:
        return _can_be_bound(ip)
    return answer is not None and answer[7] == _LOCAL


def owner(ours: End, theirs: End) -> int | None:
    """The uid of whoever holds the other end of an established connection within this machine. None: there is no such
    connection any more, or it leads out of our network namespace. One that its owner has closed tells nothing, for
    some kernels call it root's then."""
    return _owner_by_diag(ours, theirs) if _can_be_asked() else _owner_by_table(ours, theirs)


@lru_cache(maxsize=1024)
def plain(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address without its zone, and without IPv6's clothes if it is an IPv4 address."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return mapped or ip


def origin(address: str) -> str:
    """Whoever has this address: a machine has a whole /64 of IPv6, and may come from another one each time."""
    try:
        ip = plain(address)
    except ValueError:
        return address
    return str(ip) if ip.version == _V4 else ip.exploded[:_V6_SITE]


def _owner_by_diag(ours: End, theirs: End) -> int | None:
    ends = _ENDS.pack(theirs[1], ours[1], *(plain(address).packed.ljust(16, b"\0") for address in (theirs[0], ours[0])))
    any_interface, no_cookie = b"\0" * 4, b"\xff" * 8
    family = _family(plain(theirs[0]))
    which = struct.pack("=4BI", family, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF) + ends + any_interface + no_cookie
    answer = _ask(_SOCK_DIAG, _BY_FAMILY, which)
    if answer is None:
        return None
    _, state, _, _, uid, inode = _SOCKET.unpack_from(answer)
    # Where there is no such connection the kernel tells of whoever listens at its end. A program that speaks IPv6 only
    # reaches an IPv4 address with an IPv6 socket, and that is how the kernel calls its ends then.
    told = _ENDS.unpack_from(answer, 4)
    same = told in (_ENDS.unpack(ends), (theirs[1], ours[1], _mapped(theirs[0]), _mapped(ours[0])))
    return uid if state == _ESTABLISHED and same and inode else None


def _mapped(address: str) -> bytes | None:
    ip = plain(address)
    return b"\0" * 10 + b"\xff" * 2 + ip.packed if ip.version == _V4 else None


def _owner_by_table(ours: End, theirs: End) -> int | None:
    is_v4 = plain(theirs[0]).version == _V4
    uid = _line_of("tcp", _hex(ours), _hex(theirs)) if is_v4 else None
    clothes = _CLOTHES if is_v4 else ""
    return uid if uid is not None else _line_of("tcp6", clothes + _hex(ours), clothes + _hex(theirs))


def _line_of(table: str, ours: str, theirs: str) -> int | None:
    wanted = [theirs.encode(), ours.encode(), b"%02X" % _ESTABLISHED]
    path = Path("/proc/net", table)
    if not path.exists():
        return None  # a kernel without IPv6
    with path.open("rb") as lines:
        for line in lines:
            # number, local, remote, state, queues, timer, retransmits, uid, timeout, inode
            words = line.split()
            if words[1:4] == wanted:
                return int(words[7]) if int(words[9]) else None
    return None


def _hex(end: End) -> str:
    # The kernel prints the address as 32-bit words in the machine's own byte order.
    packed = plain(end[0]).packed
    words = [int.from_bytes(packed[i : i + 4], "little") for i in range(0, len(packed), 4)]
    return "".join(f"{word:08X}" for word in words) + f":{end[1]:04X}"


@cache
def _can_be_asked() -> bool:
    """Whether sockets can be asked about at all: found out once, with a connection of our own."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as caller:
        try:
            return _owner_by_diag(server.getsockname(), caller.getsockname()) is not None
        except OSError:
            return False


def _can_be_bound(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    with socket.socket(_family(ip), socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(ip), 0))
        except OSError:
            return False
    return True


def _family(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> socket.AddressFamily:
    return socket.AF_INET if ip.version == _V4 else socket.AF_INET6


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value


def _ask(protocol: int, kind: int, what: bytes) -> bytes | None:
    """The answer to one question; None where the kernel knows of none. Raises OSError if it cannot be asked."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol) as kernel:
        kernel.sendto(_HEADER.pack(_HEADER.size + len(what), kind, _REQUEST, 1, 0) + what, (0, 0))
        answer = kernel.recv(8192)
    told = _HEADER.unpack_from(answer)[1]
    return None if told == _ERROR else answer[_HEADER.size :]
