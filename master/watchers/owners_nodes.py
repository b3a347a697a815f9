"""Remembers on which nodes tasks run as their owners, which of these are the master's own machine, and as which account
tasks run there otherwise: so what follows from it holds from the first call after a start on, before any agent has said
again who it is.

That an agent says so is not enough: any node could say that it is the master's machine. It has to show it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal

from master.engine.engine import Engine
from master.nodes.link import Link
from master.nodes.registry import NodeConfig
from master.nodes.same_account import is_this_machine, runs_as_us
from wire.errors import MusterError


class OwnersNodes:
    """Tells the core, which keeps it. `shows`: whether the agent of a node, which says that it is root on the master's
    machine, shows that it is."""

    def __init__(self, engine: Engine, shows: Callable[[str], Awaitable[bool]]) -> None:
        self._engine = engine
        self._shows = shows
        self._asking: dict[str, asyncio.Task[None]] = {}

    def link_made(self, link: Link, config: NodeConfig) -> None:
        """As `LinkWatcher`: nothing is known anew."""

    def link_up(self, link: Link, config: NodeConfig) -> None:  # noqa: ARG002
        """As `LinkWatcher`: the agent has said who it is, and where."""
        name = link.node
        facts = self._engine.core.node(name).facts
        self._stop_asking(name)
        if facts is None or not facts.can_run_as:
            self._note(name, "", facts.account if facts is not None and is_this_machine(facts) else "")
        elif runs_as_us(facts):
            self._asking[name] = asyncio.get_running_loop().create_task(self._ask(name))
        else:
            self._note(name, "there")

    def link_gone(self, link: Link) -> None:
        """As `LinkWatcher`: what is known stays so until another one says something else."""
        self._stop_asking(link.node)

    def _stop_asking(self, name: str) -> None:
        asking = self._asking.pop(name, None)
        if asking is not None:
            asking.cancel()

    async def _ask(self, name: str) -> None:
        try:
            is_here = await self._shows(name)
        except MusterError:
            is_here = False
        if self._engine.core.inventory.nodes.get(name) is not None:
            self._note(name, "here" if is_here else "there")

    def _note(self, name: str, where: Literal["", "there", "here"], account: str = "") -> None:
        self._engine.event(lambda: self._engine.core.set_as_owners(name, where, account))
