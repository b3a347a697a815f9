"""How many questions of users a node is asked at once. To activate an environment, or to look for a folder, runs what a
user wrote, and may take as long as its time limit. An agent has few places for questions, and the master needs some to
look at the shared folders of the node, and to touch files with users' rights.

Owns the turns. A place is taken until the node has answered, also where nobody waits for the answer any more.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from wire.errors import LimitError
from wire.message import Message

T = TypeVar("T")

MOST, MOST_OF_ONE = 8, 2
"""At once on a node: of all users, and of one. Agents have `probes.MAX_PROBES` places."""
TURN_S = 10.0
"""So long a question waits for its turn."""


class Askers:
    """The questions of all users to all nodes. `turn_s`: see the constant."""

    def __init__(self, *, turn_s: float = TURN_S) -> None:
        self._turn_s = turn_s
        self._places: dict[tuple[str, str], asyncio.Semaphore] = {}
        self._users: Counter[tuple[str, str]] = Counter()
        """The questions that wait for a place or have one, by node and asker; "" for all of a node."""
        self._asked: set[asyncio.Future[Any]] = set()

    async def ask(self, node: str, asker: str, question: Callable[[], Awaitable[T]]) -> T:
        """Ask when it is this asker's turn. Raises LimitError where that does not come, and what the question does."""
        keys = ((node, asker), (node, ""))
        for key in keys:
            self._users[key] += 1
        held: list[tuple[str, str]] = []
        try:
            async with asyncio.timeout(self._turn_s):
                for key in keys:  # who has many waits here, and takes nobody's turn meanwhile
                    await self._place(key).acquire()
                    held.append(key)
            asked = asyncio.ensure_future(question())
        except BaseException as error:
            self._leave(keys, held)
            if isinstance(error, TimeoutError):
                raise LimitError(Message("node_asked_much", node=node, most=MOST_OF_ONE)) from None
            raise
        self._asked.add(asked)

        def answered(done: asyncio.Future[T]) -> None:
            self._asked.discard(done)
            self._leave(keys, held)
            if not done.cancelled():
                done.exception()  # perhaps nobody waits for it any more

        asked.add_done_callback(answered)
        return await asyncio.shield(asked)

    def _place(self, key: tuple[str, str]) -> asyncio.Semaphore:
        return self._places.setdefault(key, asyncio.Semaphore(MOST_OF_ONE if key[1] else MOST))

    def _leave(self, keys: tuple[tuple[str, str], ...], held: list[tuple[str, str]]) -> None:
        for key in held:
            self._places[key].release()
        for key in keys:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key]
                self._places.pop(key, None)
