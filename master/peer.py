"""Who is at the other end of a connection within this machine: the kernel knows the user that owns the peer's socket.

So the user who runs the master needs no log-in on the master's own machine, and nobody can pretend to be that user.
"""

from __future__ import annotations

import ipaddress
import os
import pwd
import socket
from pathlib import Path

import msgspec


class Peer(msgspec.Struct, frozen=True):
    """Somebody at the other end. `user` is None while we do not know who. `is_ours`: the kernel says that it is the
    user who runs the master, or root, who may see on this machine all that the master sees."""

    address: str
    user: str | None = None
    is_ours: bool = False


def identify(sock: socket.socket) -> Peer:
    """The peer of an accepted connection: named if it is on this machine and has our own user id or root's."""
    address, port = sock.getpeername()[:2]
    # Who calls the address that `bind` names comes from that address himself, and nobody on another machine does.
    if not ipaddress.ip_address(address).is_loopback and address != sock.getsockname()[0]:
        return Peer(address)
    uid = _owner(sock.getsockname()[:2], (address, port))
    if uid is None or uid not in (0, os.geteuid()):
        return Peer(address)
    return Peer(address, user_name(uid), is_ours=True)


def user_name(uid: int) -> str:
    """The name of a user id; the number as text if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _owner(ours: tuple[str, int], theirs: tuple[str, int]) -> int | None:
    version = ipaddress.ip_address(theirs[0]).version
    wanted = (f"{_hex(theirs)} {_hex(ours)} ").encode()
    with Path("/proc/net/tcp" if version == 4 else "/proc/net/tcp6").open("rb") as table:  # noqa: PLR2004
        for line in table:
            at = line.find(wanted)
            if at >= 0:
                # local, remote, state, queues, timer, retransmits, uid, timeout, inode. A socket that its owner has
                # closed already has no inode, and some kernels call it root's then: nobody answers for it.
                uid, _, inode = line[at:].split()[6:9]
                return int(uid) if int(inode) else None
    return None


def _hex(end: tuple[str, int]) -> str:
    # The kernel prints the address as 32-bit words in the machine's own byte order.
    packed = ipaddress.ip_address(end[0]).packed
    words = [int.from_bytes(packed[i : i + 4], "little") for i in range(0, len(packed), 4)]
    return "".join(f"{word:08X}" for word in words) + f":{end[1]:04X}"
