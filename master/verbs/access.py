"""Who calls, and what such a one may do: his role, what he is confined to, whose tasks are his.

A `Caller` is made once by each connection, by how it came in. What a verb asks for stands in the table of verbs; here
the two are compared, and a refusal gets its words. Nothing that is not allowed is possible.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from master.core.task import Task
from master.netlink import origin
from master.peer import Peer
from wire.errors import ForbiddenError, UnauthenticatedError
from wire.message import Message

Role = Literal["viewer", "user", "admin"]
"""Each may do what those before it may."""
Scope = Literal["read", "submit", "files", "nodes", "admin"]
"""What a caller may be confined to. `read`: all that tells and changes nothing, but for files."""
Whose = Literal["none", "any", "own"]
"""Whose task a verb may be used on: it names none; anybody's; the caller's own, where the caller is no admin."""
Via = Literal["unknown", "owner", "local", "desktop"]
"""How somebody came in: nobody knows who it is; by the kernel's word the user who runs the master, or root; by the same
word another user of its machine; with the desktop client."""

_RANK: dict[Role, int] = {"viewer": 0, "user": 1, "admin": 2}
ALL_SCOPES: frozenset[Scope] = frozenset({"read", "submit", "files", "nodes", "admin"})
USER_SCOPES: frozenset[Scope] = frozenset({"read", "submit", "files"})
DESKTOP_NOUNS = frozenset({"task", "log", "env", "file", "subscribe"})
"""Whoever sits at any PC of the lab comes in with the desktop client, and there is no log-in."""


class Caller(msgspec.Struct, frozen=True):
    """Somebody at a connection. `user` is None while we do not know who.

    `scopes`: what he is confined to; `nouns`: the first parts of the names of the verbs that he is confined to besides
    (None: all). `all_tasks`: everybody's tasks are his, as they are an admin's. `counted_as`: as whom the rates of
    `limits` count him.
    """

    address: str
    user: str | None = None
    role: Role = "viewer"
    scopes: frozenset[Scope] = frozenset()
    via: Via = "unknown"
    nouns: frozenset[str] | None = None
    all_tasks: bool = False
    counted_as: str = ""

    @property
    def is_ours(self) -> bool:
        """May he see on this machine all that the master sees?"""
        return self.via == "owner"

    @property
    def owns_all(self) -> bool:
        """Is every task his to change?"""
        return self.all_tasks or self.role == "admin"

    def owns(self, task: Task) -> bool:
        """Is the task his to change?"""
        return self.owns_all or task.owner == self.user


def by_kernel(peer: Peer) -> Caller:
    """Who speaks JSON-RPC: the user who runs the master is its admin, on its own machine and without a log-in."""
    if peer.user is None:
        return Caller(peer.address)
    if peer.is_ours:
        return Caller(peer.address, peer.user, "admin", ALL_SCOPES, "owner", counted_as=peer.user)
    return Caller(peer.address, peer.user, "user", USER_SCOPES, "local", counted_as=peer.user)


def by_desktop_client(address: str, user: str) -> Caller:
    """Who comes in with the desktop client: never an admin. In the system that it was made for everybody changed
    everything, and its tables offer it for every row: so until there are users, all tasks are its own."""
    return Caller(
        address,
        user,
        "user",
        USER_SCOPES,
        "desktop",
        DESKTOP_NOUNS,
        all_tasks=True,
        counted_as=f"{user} at {origin(address)}",
    )


def check_known(caller: Caller) -> None:
    """Raise UnauthenticatedError if we do not know who it is."""
    if caller.user is None:
        raise UnauthenticatedError(Message("no_log_ins"))


def check_call(caller: Caller, verb: str, role: Role, scope: Scope) -> None:
    """Raise ForbiddenError unless the caller may call the verb at all, which needs this role and this scope."""
    if _RANK[caller.role] < _RANK[role]:
        raise ForbiddenError(Message("needs_role", verb=verb, role=role, user=caller.user, has=caller.role))
    if scope not in caller.scopes:
        scopes = tuple(sorted(caller.scopes))
        raise ForbiddenError(Message("needs_scope", verb=verb, scope=scope, user=caller.user, scopes=scopes))
    if caller.nouns is not None and verb.partition(".")[0] not in caller.nouns:
        raise ForbiddenError(Message("not_your_verb", verb=verb, user=caller.user, nouns=tuple(sorted(caller.nouns))))


def check_owner(caller: Caller, verb: str, task: Task) -> None:
    """Raise ForbiddenError if the verb is for the owner of a task only, and the task is another's."""
    if not caller.owns(task):
        raise ForbiddenError(Message("not_your_task", id=task.id, owner=task.owner, verb=verb))
