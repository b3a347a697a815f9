"""Callers and their rights: role, scopes, and the tasks that they own.

Each connection makes a `Caller` from how it was opened, or from a token that was sent over it, and makes it anew when
users, groups or tokens have changed. The table of verbs says what a verb requires; here the two are compared, and a
refusal gets its message. Everything that is not allowed is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from os import geteuid
from typing import Literal

import msgspec

from master.callers.addresses import origin
from master.callers.peer import Peer
from master.callers.subordinates import subordinate_of
from master.config.conf_file import Privacy
from master.core.people.people import WALL_SCOPES, Kind, People, Role, Scope, Token, User
from master.core.tasks.task import Task
from master.files.owners import Who
from master.people.desktop_names import is_admins
from master.people.services import Service
from master.views.sight import EVERYTHING, Sight
from wire.errors import ForbiddenError, UnauthenticatedError
from wire.message import Message

Least = Role | Literal["anyone"]
"""The least role that may call a verb. Anyone: also a caller who has not logged in."""
Whose = Literal["none", "any", "group", "own"]
"""The tasks that a verb may be used on: it names no task; anybody's; the caller's own and those of members of groups
that the caller mentors; the caller's own. Admins may use it on all."""
Via = Literal["unknown", "owner", "local", "desktop", "token", "session", "task", "service"]
"""How a caller was identified: not at all; by the kernel as the user who runs the master, or root; by the kernel as
another user of its machine; by the desktop client; by a token of one of the kinds; by the token of a task; as a program
around the master, which is no user's."""

_RANK: dict[Least, int] = {"anyone": -1, "viewer": 0, "user": 1, "admin": 2}
ALL_SCOPES: frozenset[Scope] = frozenset({"read", "submit", "files", "account", "nodes", "admin"})
USER_SCOPES: frozenset[Scope] = frozenset({"read", "submit", "files", "account"})
SCOPES_OF: dict[Role, frozenset[Scope]] = {
    "viewer": frozenset({"read", "files", "account"}),
    "user": USER_SCOPES,
    "admin": ALL_SCOPES,
}
"""The scopes of each role."""
DESKTOP_SCOPES: frozenset[Scope] = frozenset({"read", "submit", "files"})
DESKTOP_NOUNS = frozenset({"task", "log", "env", "file", "subscribe"})
"""Anybody at a PC of the lab can use the desktop client, and it has no log-in."""
SERVICE_NOUNS = {"metrics": frozenset({"task", "server", "subscribe"}), "web": frozenset({"server", "subscribe"})}
"""The console tells live sessions what all see, and whatever else it asks for it asks for in somebody's name."""
TASK_SCOPES: frozenset[Scope] = frozenset({"read", "submit"})
"""Of the token that a task gets."""
_VIA: dict[Kind, Via] = {"token": "token", "session": "session"}


class Caller(msgspec.Struct, frozen=True):
    """Somebody at a connection. `user` is None while we do not know who.

    `scopes`: the permissions; `nouns`: the only first parts of verbs that the caller may use (None: all). `all_tasks`:
    the caller may change all tasks, as an admin may. `counted_as`: the key of the rates of `limits`. `user_id`: the
    user's id, 0 for none; `token`: the id of the token or log-in; `is_kept`: it has all scopes and no end of its own,
    or is a log-in. `until`: the end of access (seconds since the epoch). `groups`: the names of the caller's groups;
    `mentored`: the users whom the caller mentors. `whence`: the key for counting failed log-ins: the address, on this
    machine the account. `is_root`: the caller is root, beside a master that is not. `task`: the task that calls, 0 for
    none. `is_relayed`: the console calls for a user, who may still log in.
    `barred`: why the caller has no access, where we know who it is: a user who cannot log in, a Unix account that is no
    user's; `user` is None then. `must_log_in`: the caller may be an admin, or a task that an admin submitted with a
    token which may do less: a log-in shows which.
    """

    address: str
    user: str | None = None
    role: Role = "viewer"
    scopes: frozenset[Scope] = frozenset()
    via: Via = "unknown"
    nouns: frozenset[str] | None = None
    all_tasks: bool = False
    counted_as: str = ""
    user_id: int = 0
    token: str = ""
    until: float = inf
    groups: frozenset[str] = frozenset()
    mentored: frozenset[str] = frozenset()
    is_kept: bool = True
    whence: str = ""
    is_root: bool = False
    task: int = 0
    is_relayed: bool = False
    barred: Message | None = None
    must_log_in: bool = False

    @property
    def is_ours(self) -> bool:
        """Tell whether the caller may see all files of the master on this machine."""
        return self.via == "owner"

    @property
    def waits_for_nodes(self) -> bool:
        """May a task of theirs ask for more GPUs than any node has, and wait for one that has so many? The desktop
        client's may: the master that it was made for kept them waiting."""
        return self.via == "desktop"

    def request_key(self, request_id: str) -> str:
        """The key under which an answer is remembered. Nobody gets another user's answer by guessing its id."""
        return request_id if self.is_ours or not self.user_id else f"{self.user_id}\n{request_id}"

    @property
    def is_wall(self) -> bool:
        """Is it a screen on a wall?"""
        return self.scopes == WALL_SCOPES

    @property
    def owns_all(self) -> bool:
        """Tell whether the caller may change every task."""
        return self.all_tasks or self.role == "admin"

    @property
    def speaks_as_admin(self) -> bool:
        """Does what this one asks for count as an admin's? A token of an admin's with fewer scopes is worth no more
        than these."""
        return self.role == "admin" and "admin" in self.scopes

    def owns(self, task: Task) -> bool:
        """Tell whether the caller may change the task."""
        return self.owns_all or task.owner == self.user

    def looks_after(self, task: Task) -> bool:
        """Tell whether the caller owns the task, or mentors its owner."""
        return self.owns(task) or task.owner in self.mentored


def who(caller: Caller) -> Who:
    """The caller, as far as files go."""
    return Who(caller.user or "", caller.groups, sees_all=caller.role == "admin")


Identify = Callable[[People, float], Caller]
"""A function that returns the caller now, from the people that exist, and the time. The caller has no `user` if they
have lost access."""


def by_kernel(peer: Peer, *, local_users: bool = False, local_admin: Literal["owner", "root"] = "owner") -> Identify:
    """Identify a JSON-RPC caller who has sent no token: the user who runs the master is its admin, on its own machine
    and without a log-in. `local_users`: the machine's other accounts are the users of the same name. `local_admin`:
    `root` if several people share the master's account, which then has no admin rights."""
    account = peer.account if local_users else ""
    whence = whence_of(peer)

    def identify(people: People, now: float) -> Caller:
        nobody = Caller(
            peer.address, counted_as=whence, whence=whence, barred=peer.refused if people.is_shared else None
        )
        if peer.is_ours and (local_admin == "owner" or peer.uid == 0):
            user = people.named(peer.user or "")
            number = 0 if user is None else user.id
            return Caller(
                peer.address,
                peer.user,
                "admin",
                ALL_SCOPES,
                "owner",
                counted_as=peer.user or "",
                user_id=number,
                whence=whence,
                is_root=peer.uid == 0 and geteuid() != 0,
            )
        user = people.named(account) if account else None
        if user is None or user.is_owner_only:
            if not account or not people.is_shared:
                return nobody
            return msgspec.structs.replace(nobody, barred=Message("account_not_added", account=account))
        if (why := why_barred(people, user, now)) is not None:
            return msgspec.structs.replace(nobody, barred=why)
        caller = _as_user(people, user, peer.address, "local", whence=whence)
        return _as_task_of(caller) if peer.runs_tasks and user.role == "admin" else caller

    return identify


def _as_task_of(admin: Caller) -> Caller:
    """Return what a process of an admin's account may do without a log-in where tasks run as this account, whatever
    token they were submitted with: as much as the token of a task."""
    return msgspec.structs.replace(
        admin, role="user", scopes=TASK_SCOPES, mentored=frozenset(), is_kept=False, must_log_in=True
    )


def whence_of(peer: Peer) -> str:
    """Return the key under which failed log-ins and connections are counted together. Any account of this machine can
    connect from all of 127.0.0.0/8, and shares it with the others, so the kernel says which account it is. An account
    and its subordinate uids count as one."""
    if not peer.is_here:
        return origin(peer.address)
    return "here" if peer.uid is None else _account_here(peer.uid)


def _account_here(uid: int) -> str:
    return f"account {subordinate_of(uid) or uid} here"


def why_barred(people: People, user: User, now: float) -> Message | None:
    """Return why this user cannot log in, None if they can. Only callers who proved to be this user may be told."""
    if user.disabled is not None:
        return Message("user_disabled", name=user.name)
    if user.is_enabled(people.clock.rights(now)):
        return None
    return Message("user_expired", name=user.name, at=user.expires_at)


def by_token(token_id: str, address: str, whence: str = "", *, is_relayed: bool = False, user_id: int = 0) -> Identify:
    """Identify the user of a token that was checked before, as long as the token exists. `user_id`: that of the token's
    user, who is still known when the token is gone, as after `user.disable`; 0 if they shall not be known then."""

    def identify(people: People, now: float) -> Caller:
        token = people.tokens.get(token_id)
        user = people.users.get(user_id if token is None else token.user)
        why = None if user is None else why_barred(people, user, now)
        if token is None or user is None or why is not None or not token.opens(people.clock.rights(now)):
            return Caller(address, counted_as=whence or origin(address), whence=whence, barred=why)
        return _as_user(people, user, address, _VIA[token.kind], token, whence=whence, is_relayed=is_relayed)

    return identify


def by_service(name: Service, address: str) -> Identify:
    """A program around the master, which looks on and tells others."""
    caller = Caller(address, name, "viewer", frozenset({"read"}), "service", SERVICE_NOUNS[name], counted_as=name)
    return lambda _people, _now: caller


def by_relay(address: str, uid: int | None = None) -> Identify:
    """Identify a caller of the console, at this address, who has not logged in yet. `uid`: that of the caller's account
    on this machine, since all its accounts have the same address."""
    whence = "" if uid is None else _account_here(uid)
    caller = Caller(address, counted_as=whence or origin(address), whence=whence, is_relayed=True)
    return lambda _people, _now: caller


def by_task(launch_id: str, holder: Callable[[str], Task | None], address: str, whence: str = "") -> Identify:
    """Identify a task by the token of its attempt, for as long as `holder` returns the task. It may do what any user
    may do with their own tasks, in its owner's name, but has none of the owner's rights as an admin or a mentor."""

    def identify(people: People, now: float) -> Caller:
        task = holder(launch_id)
        user = None if task is None else people.named(task.owner)
        if task is None or (user is not None and not user.is_enabled(people.clock.rights(now))):
            return Caller(address, counted_as=whence or origin(address), whence=whence)
        return Caller(
            address,
            task.owner,
            "viewer" if user is not None and user.role == "viewer" else "user",
            TASK_SCOPES,
            "task",
            counted_as=task.owner,
            user_id=0 if user is None else user.id,
            until=_until(user),
            is_kept=False,
            whence=whence,
            task=task.id,
        )

    return identify


def by_desktop_client(address: str, name: str) -> Identify:
    """Identify a user of the desktop client: never an admin, nor under the name of one. In the system that it was made
    for, everybody changed everything, and its tables offer that for every row: so until there are users, all tasks are
    its own."""

    def identify(people: People, now: float) -> Caller:
        user = people.named(name)
        # Once there are users a name alone gives no access: a removed user leaves nothing that could be disabled.
        is_nobody = people.is_shared if user is None else not user.is_enabled(people.clock.rights(now))
        if is_nobody or is_admins(name, people):
            return Caller(address, counted_as=origin(address))
        return Caller(
            address,
            name,
            "viewer" if user is not None and user.role == "viewer" else "user",
            DESKTOP_SCOPES,
            "desktop",
            DESKTOP_NOUNS,
            all_tasks=not people.is_shared,
            counted_as=f"{name} at {origin(address)}",
            user_id=0 if user is None else user.id,
            until=_until(user),
            groups=frozenset() if user is None else people.groups_of(user),
            mentored=frozenset() if user is None else people.mentored_by(user),
        )

    return identify


def _as_user(
    people: People,
    user: User,
    address: str,
    via: Via,
    token: Token | None = None,
    *,
    whence: str = "",
    is_relayed: bool = False,
) -> Caller:
    scopes = SCOPES_OF[user.role]
    until = _until(user)
    is_wall = token is not None and token.scopes == WALL_SCOPES
    if token is not None and token.scopes is not None:
        scopes = WALL_SCOPES if is_wall else scopes & token.scopes
    if token is not None:
        until = min(until, token.ends_at)
    return Caller(
        address,
        user.name,
        "viewer" if is_wall else user.role,
        scopes,
        via,
        counted_as=user.name,
        user_id=user.id,
        token="" if token is None else token.id,
        until=until,
        groups=frozenset() if is_wall else people.groups_of(user),
        mentored=frozenset() if is_wall else people.mentored_by(user),
        is_kept=token is None or _is_log_in(token) or (token.scopes is None and token.expires_at is None),
        whence=whence,
        is_relayed=is_relayed,
    )


def _is_log_in(token: Token) -> bool:
    """Tell whether it was made with a password. A log-in made from a token has only the rights of the token."""
    return token.kind == "session" and not token.parent


def _until(user: User | None) -> float:
    return inf if user is None or user.expires_at is None else user.expires_at


def sight_of(caller: Caller, people: People, privacy: Privacy) -> Sight:
    """Return what the caller sees of others' tasks."""
    if not people.is_shared:
        return EVERYTHING
    if caller.is_wall:
        return Sight(is_own=privacy == "own", is_wall=True)
    return Sight(caller.user, caller.mentored, is_admin=caller.owns_all, is_own=privacy == "own")


def check_known(caller: Caller, people: People) -> None:
    """Raise UnauthenticatedError if we do not know who it is."""
    if caller.user is None:
        unknown = Message("log_in_first") if people.is_shared else Message("no_log_ins")
        raise UnauthenticatedError(caller.barred or unknown)


def check_still(
    identify: Identify, people: People, verb: str, role: Least, scope: Scope, *, on_wall: bool = False
) -> Caller:
    """Return the caller now, for a call that had to wait: people may have changed since. Raises what `check_known` and
    `check_call` do."""
    caller = identify(people, time.time())
    check_known(caller, people)
    check_call(caller, verb, role, scope, on_wall=on_wall)
    return caller


def check_call(caller: Caller, verb: str, role: Least, scope: Scope, *, on_wall: bool = False) -> None:
    """Raise ForbiddenError unless the caller may call the verb at all, which needs this role and this scope; `on_wall`:
    or is a screen on a wall."""
    if caller.must_log_in and (_RANK[caller.role] < _RANK[role] or scope not in caller.scopes):
        raise ForbiddenError(Message("admin_logs_in", verb=verb, user=caller.user))
    if _RANK[caller.role] < _RANK[role]:
        raise ForbiddenError(Message("needs_role", verb=verb, role=role, user=caller.user, has=caller.role))
    if scope not in caller.scopes and not (on_wall and caller.is_wall):
        scopes = tuple(sorted(caller.scopes))
        raise ForbiddenError(Message("needs_scope", verb=verb, scope=scope, user=caller.user, scopes=scopes))
    if caller.nouns is not None and verb.partition(".")[0] not in caller.nouns:
        raise ForbiddenError(Message("not_your_verb", verb=verb, user=caller.user, nouns=tuple(sorted(caller.nouns))))


def check_token_given(caller: Caller, token: str) -> None:
    """Raise ForbiddenError where a task would get a token, if it gets one, to do what the caller may not."""
    if token and not caller.scopes >= TASK_SCOPES:
        raise ForbiddenError(Message("token_for_more", scopes=tuple(sorted(caller.scopes))))


def check_owner(caller: Caller, verb: str, whose: Whose, task: Task) -> None:
    """Raise ForbiddenError unless the verb, which is for such tasks, may be used on this one."""
    if whose == "group" and not caller.looks_after(task):
        raise ForbiddenError(Message("not_in_your_care", id=task.id, owner=task.owner, verb=verb))
    if whose != "group" and not caller.owns(task):
        raise ForbiddenError(Message("not_your_task", id=task.id, owner=task.owner, verb=verb))
