"""Whether nodes whose tasks run as the master's own account are closed to the tasks of users who are no admins.

Pure. A task with the account of the master can command the queue. While the queue is one person's nothing is wrong with
that. Once a second user existed, such nodes run admins' tasks only, whatever became of the users: the fact is a piece
of the state of its own, and nothing but `open` takes it back, for one node. Which nodes these are the executors say:
one that has said nothing may run tasks as the master.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from master.core.nodes.facts import RunsAs
from master.core.nodes.node import Restriction
from master.core.outcome import Pending
from master.core.people.people import People, User
from wire.errors import ConflictError
from wire.message import Message

PIECE = "own_account"


class Fence(msgspec.Struct, frozen=True, omit_defaults=True):
    """`closed`: a second user existed. `first`: the id of the first admin, 0 while there was none. `opened`: the nodes
    that an admin opened to everybody again, by name."""

    closed: bool = False
    first: int = 0
    opened: frozenset[str] = frozenset()


class OwnAccountNodes:
    """`nodes`: the names of the nodes whose tasks have the master's account (`account`), or may have it. `exempt`: the
    names of users who do not count as a second one, the master's account and the desktop client's; `desktop`: the
    latter."""

    def __init__(self, people: People, pending: Pending) -> None:
        self.fence = Fence()
        self.nodes: set[str] = set()
        self.account = ""
        self.exempt: frozenset[str] = frozenset()
        self.desktop = ""
        self._people = people
        self._pending = pending

    def load(self, pieces: Mapping[str, msgspec.Raw]) -> None:
        """Take over what was written down."""
        if raw := pieces.get(PIECE):
            self.fence = msgspec.json.decode(raw, type=Fence)

    def told(self, node: str, runs_as: RunsAs | None) -> None:
        """Tasks on this node run so; None: its executor has not said it."""
        if runs_as in ("us", None):
            self.nodes.add(node)
        else:
            self.nodes.discard(node)

    def restriction(self, node: str) -> Restriction | None:
        """Return whose tasks this node takes; None: everybody's."""
        if not self.is_closed(node):
            return None
        return Restriction(self.admins() | {self.account}, Message("own_account_node", account=self.account))

    def is_closed(self, node: str) -> bool:
        """Does this node run admins' tasks only?"""
        return node in self.nodes and self.fence.closed and node not in self.fence.opened

    def is_opened(self, node: str) -> bool:
        """Did an admin open this node to everybody again?"""
        return node in self.nodes and node in self.fence.opened

    def admins(self) -> frozenset[str]:
        """The names of the admins whose tasks such nodes run."""
        return frozenset(user.name for user in self._counted() if user.role == "admin")

    def look(self, now: float) -> None:
        """Note what the users that exist say. It never opens a node."""
        users, fence = self._counted(), self.fence
        admins = [user.id for user in users if user.role == "admin"]
        first = fence.first or min(admins, default=0)
        others = [user for user in users if user.id != first or user.role != "admin"]
        closed = fence.closed or bool(others) or bool(self._people.lost - {fence.first})
        opened = frozenset() if fence.opened and self.in_the_way(now) else fence.opened
        self._keep(Fence(closed, first, opened))

    def in_the_way(self, now: float) -> list[str]:
        """The names of the users for whom no node may be opened: they are enabled, not expired, and no admins."""
        users, at = self._people.users.values(), self._people.clock.rights(now)
        return sorted(
            user.name
            for user in users
            if user.role != "admin" and user.is_enabled(at) and not user.is_owner_only and user.name != self.desktop
        )

    def kept_out(self, now: float) -> tuple[list[str], list[str]]:
        """Return the nodes that are closed, and the users whose tasks therefore never run there; both empty where it
        concerns nobody."""
        nodes = sorted(filter(self.is_closed, self.nodes))
        users = [name for name in self.in_the_way(now) if self._people.find(name).role == "user"] if nodes else []
        return (nodes, users) if users else ([], [])

    def open(self, node: str, now: float) -> None:
        """Let a node run everybody's tasks again. Raises ConflictError where it does already, and while a user exists
        who could then command the queue."""
        if not self.is_closed(node):
            raise ConflictError(Message("own_account_not_closed", node=node))
        if names := self.in_the_way(now):
            raise ConflictError(Message("own_account_users", node=node, names=tuple(names)))
        self._keep(msgspec.structs.replace(self.fence, opened=self.fence.opened | {node}))

    def forget_all_but(self, nodes: Iterable[str]) -> None:
        """The registry has these nodes now: another one by the name of one that was removed is closed."""
        self._keep(msgspec.structs.replace(self.fence, opened=self.fence.opened & frozenset(nodes)))

    def _counted(self) -> list[User]:
        users = self._people.users.values()
        return [user for user in users if not user.is_owner_only and user.name not in self.exempt]

    def _keep(self, fence: Fence) -> None:
        if fence != self.fence:
            self.fence = fence
            self._pending.piece(PIECE, msgspec.Raw(msgspec.json.encode(fence)))
