"""All verbs, by the name they have on the wire, in the client and in the tests.

Their lines stand in `tables/`, one file a noun. It is loaded when one of its verbs is first asked for, and soon after a
master serves (`load_all`): a client that waits for a master to serve again need not wait for the modules that search
logs and make certificates. A line says, in this order: the parameters, the result, the function, the least role that
may call it, the scope that a caller needs who is confined to some, and whose task it may be used on (`group`: also by a
mentor of its owner). A screen on a wall may call the verbs with `on_wall`. A verb that is not in these tables cannot be
called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from importlib import import_module

from master.verbs.base import Verb

NOUNS = (
    "subscribe",
    "server",
    "clock",
    "task",
    "alloc",
    "auth",
    "user",
    "group",
    "project",
    "token",
    "setting",
    "log",
    "file",
    "env",
    "node",
    "agent",
    "conf",
    "audit",
)
"""The nouns that verbs begin with, in the order in which they are listed; each has a file in `tables/`."""


CALM_S = 5.0
"""So long after the start only what is asked for is loaded: meanwhile clients come back, and nodes are connected to."""
PAUSE_S = 0.05
"""Between two nouns that are loaded before anybody asks for them: an iteration of the loop each, and time for waiting
callers."""


class Table(Mapping[str, Verb]):
    """The verbs by their names. To look one up loads the verbs of its noun, to go through all of them those of all.

    `audited`: of the verbs that are loaded, and none else was ever called, those whose every call is written into the
    audit log.
    """

    def __init__(self) -> None:
        self._of: dict[str, dict[str, Verb]] = {}
        self.audited: set[str] = set()

    def of(self, noun: str) -> dict[str, Verb]:
        """The verbs of one noun."""
        known = self._of.get(noun)
        if known is None:
            known = self._of[noun] = import_module(f"master.verbs.tables.{noun}").VERBS
            self.audited.update(name for name, verb in known.items() if verb.is_audited)
        return known

    async def load_all(self) -> None:
        """Load what is not loaded yet, a noun at a time, so that no call has to wait for it later."""
        await asyncio.sleep(CALM_S)
        for noun in NOUNS:
            await asyncio.sleep(PAUSE_S)
            self.of(noun)

    def __getitem__(self, name: str) -> Verb:
        noun = name.partition(".")[0]
        if noun not in NOUNS:
            raise KeyError(name)
        return self.of(noun)[name]

    def __iter__(self) -> Iterator[str]:
        for noun in NOUNS:
            yield from self.of(noun)

    def __len__(self) -> int:
        return sum(len(self.of(noun)) for noun in NOUNS)


VERBS = Table()
