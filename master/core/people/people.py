"""Users, groups and tokens: who has access, who belongs together, and how users prove who they are.

Pure. Each user, group and token is a piece of the state of its own (`user/7`, `group/3`, `token/9f3a`), so that a
change of one costs what that one is. An id is never given again; a name belongs to its user as long as that user
exists. The form of passwords and tokens is not known here: only hashes are kept.

Until somebody is added the queue is one person's (`is_shared` is false). With the first one all who own tasks become
users who cannot log in, so that what is theirs stays theirs and they can be claimed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import Any, Literal

import msgspec

from master.core.outcome import Pending
from master.core.people.clock import Clock, RightsTime
from master.core.people.quota import NO_QUOTA, Quota
from wire.errors import BadRequestError, ConflictError, NotFoundError
from wire.message import Message

Role = Literal["viewer", "user", "admin"]
"""Each may do what those before it may."""
Scope = Literal["read", "submit", "files", "account", "nodes", "admin", "wall"]
"""The scopes to which a token may be confined. `read`: all that tells and changes nothing, but for files; `account`:
one's own password, log-ins and tokens; `wall`: the overview that everybody may see who passes a screen, and it stands
alone."""
Language = Literal["", "en", "zh"]
Kind = Literal["token", "session"]
"""Made to be kept by a program; made by a log-in."""

USER, GROUP, TOKEN, COUNTER = "user/", "group/", "token/", "people"
"""How the pieces are named."""
NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
SESSIONS_KEPT = 20
"""So many log-ins of one user; the oldest beyond them ends."""
TOKENS_KEPT = 100
DAY_S = 86400.0
SESSION_S = 30 * DAY_S
"""For so long a log-in lasts."""
SCREEN_S = 400 * DAY_S
"""That of a screen on a wall: no browser keeps a cookie for longer."""
LINK_S = 3 * DAY_S
"""How long a link works with which somebody chooses their password."""
WALL_SCOPES: frozenset[Scope] = frozenset({"wall"})
"""Of a screen that hangs where anybody passes: no part of what anybody may, and it goes with nothing else."""


class User(msgspec.Struct, frozen=True, omit_defaults=True):
    """Somebody. `password`: a hash as a PHC string, "" if they have none; `link`: the SHA-256 in hex of a link with
    which they choose one, until `link_until`. `disabled`: who disabled them. `is_owner_only`: nobody added them, they
    owned tasks when the first user was added. Times in seconds since the epoch."""

    id: int
    name: str
    role: Role = "user"
    display: str = ""
    mail: str = ""
    language: Language = ""
    at: float = 0.0
    by: str = ""
    expires_at: float | None = None
    disabled: str | None = None
    is_owner_only: bool = False
    quota: Quota = NO_QUOTA
    password: str = ""
    link: str = ""
    link_until: float = 0.0

    def is_enabled(self, now: RightsTime) -> bool:
        """Tell whether they have access."""
        return self.disabled is None and (self.expires_at is None or now < self.expires_at)


class Group(msgspec.Struct, frozen=True, omit_defaults=True):
    """Users who belong together, by id. `mentors` see, cancel, hold and move the tasks of the members; they need not be
    members."""

    id: int
    name: str
    members: frozenset[int] = frozenset()
    mentors: frozenset[int] = frozenset()
    quota: Quota = NO_QUOTA


class Token(msgspec.Struct, frozen=True, omit_defaults=True):
    """A token or a session of a user. Of the secret only the SHA-256 in hex is kept. `scopes`: None, all that the role
    of the user has. `used_on`: the day of its last use, in days since the epoch. `idle_s`: it ends when it was not used
    for so long; `seen_at`: when it was last, which is noted now and then. `parent`: the id of the token that it was
    made of, with which it ends."""

    id: str
    user: int
    sha256: str
    kind: Kind = "token"
    label: str = ""
    scopes: frozenset[Scope] | None = None
    at: float = 0.0
    by: str = ""
    origin: str = ""
    expires_at: float | None = None
    used_on: int = 0
    idle_s: float | None = None
    seen_at: float = 0.0
    parent: str = ""

    @property
    def ends_at(self) -> float:
        """From when on it opens nothing, unless it is used before."""
        idle = inf if self.idle_s is None else max(self.at, self.seen_at) + self.idle_s
        return min(idle, inf if self.expires_at is None else self.expires_at)

    def opens(self, now: RightsTime) -> bool:
        """Has it not expired?"""
        return now < self.ends_at


class Counter(msgspec.Struct, omit_defaults=True):
    """`next_id`: of users and groups; `is_shared`: somebody was added."""

    next_id: int = 1
    is_shared: bool = False


class People:
    """`users`, `groups` by id, `tokens` by id. Callers that change them have checked the permission. `version` grows
    with every change that may matter to who may do what, and the `listeners` are called then. `lost`: the ids of users
    of whom tokens tell, and no other record does. `clock`: by which their rights end."""

    def __init__(self, pending: Pending) -> None:
        self.clock = Clock(pending)
        self.users: dict[int, User] = {}
        self.groups: dict[int, Group] = {}
        self.tokens: dict[str, Token] = {}
        self.version = 0
        self.listeners: list[Callable[[], None]] = []
        self.lost: frozenset[int] = frozenset()
        self._names: dict[str, int] = {}
        self._orphans: list[str] = []
        self._counter = Counter()
        self._pending = pending

    def load(self, pieces: Mapping[str, msgspec.Raw]) -> None:
        """Take over what was written down. A piece that says `null` is of one who is gone."""
        self.clock.load(pieces)
        if raw := pieces.get(COUNTER):
            self._counter = msgspec.json.decode(raw, type=Counter)
        for user in sorted(_decoded(pieces, USER, User), key=lambda one: one.id):
            self.users[user.id] = user
            self._names[user.name] = user.id
        for group in _decoded(pieces, GROUP, Group):
            self.groups[group.id] = group
        for token in _decoded(pieces, TOKEN, Token):
            self.tokens[token.id] = token
        self._be_consistent()

    def _be_consistent(self) -> None:
        """Records may be lost. A user or a token that is there says that the queue is shared, and an id that anything
        names is never given again. Of two users of one name the older was removed, and only that is lost. A token, or a
        membership, of a user who is not there is none."""
        named = {token.user for token in self.tokens.values()}
        in_groups = {number for group in self.groups.values() for number in group.members | group.mentors}
        highest = max((*self.users, *self.groups, *named, *in_groups), default=0)
        counter = Counter(
            max(self._counter.next_id, highest + 1), self._counter.is_shared or bool(self.users) or bool(named)
        )
        former = [user for user in self.users.values() if self._names[user.name] != user.id]
        for user in former:
            del self.users[user.id]
        self.lost = frozenset(named - self.users.keys())
        self._orphans = [token.id for token in self.tokens.values() if token.user in self.lost]
        for token_id in self._orphans:
            del self.tokens[token_id]
        if in_groups - self.users.keys():
            there = frozenset(self.users)
            for group in list(self.groups.values()):
                ids = {"members": group.members & there, "mentors": group.mentors & there}
                self.groups[group.id] = msgspec.structs.replace(group, **ids)
        if counter != self._counter:
            self._counter = counter
            self._keep_counter()
        for user in former:
            self._gone(f"{USER}{user.id}")

    # -- looking ----------------------------------------------------------------------------------------------

    @property
    def is_shared(self) -> bool:
        """Was anybody ever added? Until then the queue is one person's."""
        return self._counter.is_shared

    def named(self, name: str) -> User | None:
        """The user of this name."""
        number = self._names.get(name)
        return None if number is None else self.users[number]

    def find(self, name: str) -> User:
        """The user of this name, or NotFoundError."""
        user = self.named(name)
        if user is None:
            raise NotFoundError(Message("no_user", name=name))
        return user

    def group(self, name: str) -> Group:
        """The group of this name, or NotFoundError."""
        for group in self.groups.values():
            if group.name == name:
                return group
        raise NotFoundError(Message("no_group", name=name))

    def groups_of(self, user: User) -> frozenset[str]:
        """Return the names of the groups of which the user is a member or a mentor."""
        return frozenset(one.name for one in self.groups.values() if user.id in one.members or user.id in one.mentors)

    def mentored_by(self, user: User) -> frozenset[str]:
        """Return the names of the users whose mentor this user is."""
        members = (one.members for one in self.groups.values() if user.id in one.mentors)
        return frozenset(self.users[number].name for number in frozenset().union(*members) - {user.id})

    def tokens_of(self, user: User) -> list[Token]:
        """Return the tokens and sessions of the user, the oldest first."""
        return sorted((one for one in self.tokens.values() if one.user == user.id), key=lambda one: (one.at, one.id))

    # -- users ------------------------------------------------------------------------------------------------

    def add(self, name: str, owners: Iterable[str] = (), **fields: Any) -> User:
        """A new user. One who only owned tasks so far becomes one who was added. `owners`: of the tasks that there are,
        who become users with the first one. Raises BadRequestError, ConflictError."""
        check_name(name)
        known = self.named(name)
        if known is not None and not known.is_owner_only:
            raise ConflictError(Message("user_is_there", name=name))
        if not self.is_shared:
            self._begin_to_share(owners)
            known = self.named(name)
        if known is not None:
            return self._keep_user(msgspec.structs.replace(known, is_owner_only=False, **fields))
        return self._keep_user(User(self._new_id(), name, **fields))

    def _begin_to_share(self, owners: Iterable[str]) -> None:
        self._counter.is_shared = True
        for owner in sorted(set(owners)):
            self._keep_user(User(self._new_id(), owner, is_owner_only=True))
        self._keep_counter()

    def edit(self, name: str, **fields: Any) -> User:
        """Change these fields of a user. Raises NotFoundError."""
        return self._keep_user(msgspec.structs.replace(self.find(name), **fields))

    def remove(self, name: str) -> User:
        """Remove the user, with their tokens and sessions. Their id is not given again. Raises NotFoundError."""
        user = self.find(name)
        self.end_tokens(user)
        for group in list(self.groups.values()):
            if user.id in group.members | group.mentors:
                less = {"members": group.members - {user.id}, "mentors": group.mentors - {user.id}}
                self._keep_group(msgspec.structs.replace(group, **less))
        del self.users[user.id], self._names[user.name]
        self._gone(f"{USER}{user.id}")
        return user

    # -- groups -----------------------------------------------------------------------------------------------

    def add_group(self, name: str) -> Group:
        """A new group of nobody. Raises BadRequestError, ConflictError."""
        check_name(name)
        if any(one.name == name for one in self.groups.values()):
            raise ConflictError(Message("group_is_there", name=name))
        return self._keep_group(Group(self._new_id(), name))

    def edit_group(
        self, name: str, members: Iterable[User], mentors: Iterable[User], quota: Quota | None = None
    ) -> Group:
        """Set the members and the mentors of a group, and, if it is to change, the quota of its members' tasks, from
        now on. Raises NotFoundError."""
        group = self.group(name)
        ids = {"members": frozenset(one.id for one in members), "mentors": frozenset(one.id for one in mentors)}
        return self._keep_group(msgspec.structs.replace(group, quota=group.quota if quota is None else quota, **ids))

    def remove_group(self, name: str) -> Group:
        """It is no more; its users stay. Raises NotFoundError."""
        group = self.group(name)
        del self.groups[group.id]
        self._pending.plan_needed = True
        self._gone(f"{GROUP}{group.id}")
        return group

    # -- tokens -----------------------------------------------------------------------------------------------

    def add_token(self, token: Token) -> None:
        """Accept this token from now on. Of a user's log-ins the oldest ends where they become too many. Raises
        ConflictError for too many tokens."""
        user = self.users[token.user]
        self.end_expired(self.clock.rights(token.at))  # no list shows them, so nobody could make room by ending them
        alike = [one for one in self.tokens_of(user) if one.kind == token.kind]
        if token.kind == "token" and len(alike) >= TOKENS_KEPT:
            raise ConflictError(Message("too_many_tokens", name=user.name, most=TOKENS_KEPT))
        for old in alike[: max(0, len(alike) - SESSIONS_KEPT + 1)] if token.kind == "session" else ():
            self.end_token(old.id)
        self.tokens[token.id] = token
        self.clock.ends(token.ends_at)
        # Nobody who is there already may do less for it, or more: `version` stays.
        self._pending.piece(f"{TOKEN}{token.id}", msgspec.Raw(msgspec.json.encode(token)))

    def use_token(self, token: Token, day: int, seen_at: float | None = None) -> None:
        """It was used that day (days since the epoch), and if it ends when it is not, then."""
        seen_at = token.seen_at if seen_at is None or token.idle_s is None else seen_at
        if (token.used_on, token.seen_at) != (day, seen_at):
            self._keep_token(msgspec.structs.replace(token, used_on=day, seen_at=seen_at))

    def end_token(self, token_id: str) -> Token | None:
        """It opens nothing any more, nor does what was made of it; the token, if there was one."""
        token = self.tokens.pop(token_id, None)
        if token is not None:
            self._gone(f"{TOKEN}{token_id}")
            for made in [one.id for one in self.tokens.values() if one.parent == token_id]:
                self.end_token(made)
        return token

    def end_tokens(self, user: User, kinds: frozenset[Kind] | None = None, *, but: str = "") -> int:
        """End the user's tokens and sessions, or those of these kinds, `but` that one; return how many ended."""
        doomed = [one.id for one in self.tokens_of(user) if (kinds is None or one.kind in kinds) and one.id != but]
        for token_id in doomed:
            self.end_token(token_id)
        return len(doomed)

    def end_expired(self, now: RightsTime) -> int:
        """Forget tokens, log-ins and links that open nothing any more since their time is over; how many there were. So
        no clock that is set back, or accepted, revives them."""
        if now < self.clock.next_end:
            return 0
        doomed = [one.id for one in self.tokens.values() if not one.opens(now)]
        for token_id in doomed:
            self.end_token(token_id)
        links = [user.name for user in self.users.values() if user.link and user.link_until <= now]
        for name in links:
            self.edit(name, link="", link_until=0.0)
        return len(doomed) + len(links)

    def end_of_expired_users(self, now: RightsTime) -> int:
        """Forget also those of users whose own time is over; how many there were."""
        expired = [user for user in self.users.values() if user.expires_at is not None and user.expires_at <= now]
        count = sum(self.end_tokens(user) for user in expired)
        for user in expired:
            if user.link:
                self.edit(user.name, link="", link_until=0.0)
                count += 1
        return count

    def ends_after(self, now: RightsTime) -> float:
        """When the next token, link or user ends (seconds since the epoch); infinite: none does."""
        users = self.users.values()
        ends = (
            min((one.ends_at for one in self.tokens.values()), default=inf),
            min((user.link_until for user in users if user.link), default=inf),
            min((end for user in users if (end := user.expires_at) is not None and end > now), default=inf),
        )
        return min(ends)

    def made_no_later(self, now: float) -> None:
        """The clock was ahead and is right now: log-ins and links that were made meanwhile last no longer than if they
        were made now. Other tokens end when somebody said."""
        for token in list(self.tokens.values()):
            end = token.expires_at
            if token.kind == "session" and end is not None:
                end = min(end, now + (SCREEN_S if token.scopes == WALL_SCOPES else SESSION_S))
            day = min(token.used_on, int(now // DAY_S))
            fields = {"at": min(token.at, now), "seen_at": min(token.seen_at, now), "expires_at": end, "used_on": day}
            self._keep_token(msgspec.structs.replace(token, **fields))
        for user in list(self.users.values()):
            if user.link_until > now + LINK_S:
                self.edit(user.name, link_until=now + LINK_S)

    def end_all(self) -> None:
        """End all access but passwords: access that was ended may have come back with a backup."""
        for token_id in list(self.tokens):
            self.end_token(token_id)
        while self._orphans:
            self._gone(f"{TOKEN}{self._orphans.pop()}")
        for user in list(self.users.values()):
            if user.link:
                self.edit(user.name, link="", link_until=0.0)

    def look_again(self) -> None:
        """Something changed, though not here, that may matter to who may do what."""
        self.version += 1
        for listener in self.listeners:
            listener()

    # -- writing ----------------------------------------------------------------------------------------------

    def _new_id(self) -> int:
        number = self._counter.next_id
        self._counter.next_id += 1
        self._keep_counter()
        return number

    def _keep_token(self, token: Token) -> None:
        if token != self.tokens[token.id]:
            self.tokens[token.id] = token
            self._pending.piece(f"{TOKEN}{token.id}", msgspec.Raw(msgspec.json.encode(token)))

    def _keep_counter(self) -> None:
        self._keep(COUNTER, self._counter)

    def _keep_user(self, user: User) -> User:
        before = self.users.get(user.id)
        if before is not None and before.quota != user.quota:
            self._pending.plan_needed = True
        ends = (None, None) if before is None else (before.expires_at, before.disabled)
        if ends != (user.expires_at, user.disabled):
            self._pending.plan_needed = True  # their tasks may begin, or not
        self.clock.ends(user.expires_at)
        self.clock.ends(user.link_until if user.link else None)
        self.users[user.id] = user
        self._names[user.name] = user.id
        self._keep(f"{USER}{user.id}", user)
        return user

    def _keep_group(self, group: Group) -> Group:
        self._pending.plan_needed = True  # its quota may be others' matter now
        self.groups[group.id] = group
        self._keep(f"{GROUP}{group.id}", group)
        return group

    def _keep(self, piece: str, value: msgspec.Struct) -> None:
        self._write(piece, msgspec.json.encode(value))

    def _gone(self, piece: str) -> None:
        self._write(piece, b"null")

    def _write(self, piece: str, value: bytes) -> None:
        self._pending.piece(piece, msgspec.Raw(value))
        self.look_again()


def check_name(name: str) -> None:
    """Raise BadRequestError unless this can be the name of a user or group."""
    if not NAME.fullmatch(name):
        raise BadRequestError(Message("bad_user_name", name=name))


def _decoded(pieces: Mapping[str, msgspec.Raw], prefix: str, kind: type[Any]) -> Iterator[Any]:
    for name, raw in pieces.items():
        if name.startswith(prefix) and bytes(raw) != b"null":
            yield msgspec.json.decode(raw, type=kind)
