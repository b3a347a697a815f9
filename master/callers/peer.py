"""Tells who is at the other end of a connection within this machine: the kernel knows the owner of the peer's socket.

So the user who runs the master needs no log-in on the master's own machine, and nobody can pretend to be that user.
"""

from __future__ import annotations

import grp
import os
import pwd
import socket

import msgspec

from master.edited_files.ownership import user_name
from wire.message import Message
from wire.netlink import is_here, owner

NOBODYS = frozenset({65534, 65535})
"""`nobody`; the kernel also shows accounts without a number here as it, such as those of other user namespaces."""
FIRST_PERSON = 1000
"""Accounts with smaller numbers are the system's (`UID_MIN` in login.defs)."""
ROOTS = frozenset(
    {"root", "sudo", "wheel", "admin", "docker", "lxd", "incus", "incus-admin", "libvirt", "disk", "kmem", "shadow"}
)
"""The members of these groups can become root without anybody noticing."""


class Peer(msgspec.Struct, frozen=True):
    """Somebody at the other end. `user` is None while we do not know who. `is_ours`: the kernel says that it is the
    user who runs the master, or root, who may see on this machine all that the master sees. `is_here`: it is a process
    of this machine, by whichever of its addresses it comes, and `uid` whose, if the kernel can tell. `account`: what
    `person` says of it, where somebody asked, and `refused` why it gives no access; `runs_tasks`: tasks of the user of
    this name run as it here."""

    address: str
    user: str | None = None
    is_ours: bool = False
    is_here: bool = False
    uid: int | None = None
    account: str = ""
    refused: Message | None = None
    runs_tasks: bool = False


class Person(msgspec.Struct, frozen=True):
    """The person behind a uid of this machine. `name`: the account, "" if it gives no access; `refused`: the reason for
    that, if the account is known."""

    name: str = ""
    refused: Message | None = None


def identify(sock: socket.socket) -> Peer:
    """The peer of an accepted connection: named if it is on this machine and has our own user id or root's. Raises
    OSError if it is gone again."""
    address, port = sock.getpeername()[:2]
    if not is_here(address):
        return Peer(address)
    uid = owner(sock.getsockname()[:2], (address, port))
    if uid is None or uid not in (0, os.geteuid()):
        return Peer(address, is_here=True, uid=uid)
    return Peer(address, user_name(uid), is_ours=True, is_here=True, uid=uid)


def person(uid: int | None) -> Person:
    """The account with this number, if it is a person's and no way to become root: who is in the group of sudo, docker
    or lxd could speak as anybody. No name for the master's own. It may hang where the directory service does."""
    if uid is None or uid in NOBODYS or uid == os.geteuid():
        return Person()
    try:
        account = pwd.getpwuid(uid)
    except KeyError:
        return Person()
    if uid < FIRST_PERSON:
        return Person(refused=Message("account_of_the_system", account=account.pw_name, first=FIRST_PERSON))
    groups = (_group(number) for number in os.getgrouplist(account.pw_name, account.pw_gid))
    if (group := next((name for name in groups if name in ROOTS), None)) is not None:
        return Person(refused=Message("account_could_be_anybody", account=account.pw_name, group=group))
    return Person(account.pw_name)


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return ""
