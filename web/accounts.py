"""Which account of this machine has the other end of a connection, by the kernel's word.

All of them come from one address, and each has all of 127.0.0.0/8 to come from: so those who have not logged in yet
are told apart by account, as the master tells apart who calls it, and none of them takes the others' share.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from wire.console import is_address
from wire.netlink import owner

if TYPE_CHECKING:
    from wire.netlink import End


def account_of(ours: End | None, theirs: End | None) -> int | None:
    """The uid; None for another machine, and where the kernel cannot tell. `ours`, `theirs`: the ends of an accepted
    connection."""
    if ours is None or theirs is None or not (theirs[0] == ours[0] or is_loopback(theirs[0])):
        return None
    try:
        return owner(ours[:2], theirs[:2])
    except (OSError, ValueError):
        return None


def counted_as(ours: End | None, theirs: End | None) -> str:
    """With whose connections one is counted: the account's, else the address's."""
    uid = account_of(ours, theirs)
    if uid is not None:
        return f"account {uid}"
    return str(theirs[0]) if theirs is not None else ""


def is_loopback(address: str) -> bool:
    """Does only this machine come from it?"""
    if not is_address(address):
        return False
    ip = ipaddress.ip_address(address)
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return (mapped or ip).is_loopback
