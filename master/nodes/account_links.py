"""The links to the agents of accounts on one node, besides that of the node's own agent.

Owns when there is one: from the first attempt that is to start, or may be alive, over an account, until there was
nothing of the account for a while; then its agent, left alone, ends by itself. The core owns what its tasks mean.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import msgspec

from master.core.nodes.accounts import OWN
from master.core.nodes.facts import Facts, NodeState
from master.core.nodes.inventory import Node
from master.core.tasks.attempt import part_on
from master.engine.engine import Engine
from master.nodes.agent_context import Hooks
from master.nodes.link import Link
from master.nodes.registry import NodeConfig
from master.nodes.same_account import runs_as_us
from wire.errors import NodeUnreachableError
from wire.message import Message

log = logging.getLogger("muster.fleet")

IDLE_S = 600.0
"""A link to an account of which nothing has been there for so long is given up."""
BEGINS_S = 15.0
"""A question over an account waits so long for its agent to begin."""
CANCEL_AGAIN_S = 1.0


class _Kept(msgspec.Struct):
    """A link, the way that it goes, and the job that keeps it up. `gives_up`: when it is to be given up."""

    way: NodeConfig
    link: Link
    job: asyncio.Task[None]
    gives_up: asyncio.TimerHandle | None = None


class AccountLinks:
    """Of one node. `new_link(config, login, hooks)` makes a link to that account; `objection(facts)`: why an agent with
    these facts may get no tasks; `ended` is called for each finished job of a link."""

    def __init__(
        self,
        name: str,
        engine: Engine,
        *,
        new_link: Callable[[NodeConfig, str, Hooks], Link],
        objection: Callable[[Facts], Message | None],
        ended: Callable[[asyncio.Task[None]], None],
    ) -> None:
        self._name = name
        self._engine = engine
        self._new_link = new_link
        self._objection = objection
        self._ended = ended
        self._links: dict[str, _Kept] = {}
        self._farewells: set[asyncio.Task[None]] = set()

    def link(self, login: str) -> Link | None:
        """The link to the agent of this account, if there is one."""
        kept = self._links.get(login)
        return None if kept is None else kept.link

    async def agent(self, config: NodeConfig, login: str) -> Link:
        """The link to the agent of this account, which is begun if there is none. Raises NodeUnreachableError."""
        core = self._engine.core
        self._engine.event(partial(core.want_account, self._name, login))
        self.settle(config)
        link, agent = self.link(login), core.node(self._name).accounts.agents[login]
        if link is not None and agent.why is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(BEGINS_S):
                    await link.tried.wait()
        if link is None or not link.is_up:
            begins = Message("account_begins", account=login)
            why = begins if agent.why is None else Message("account_away", account=login, why=agent.why)
            raise NodeUnreachableError(why)
        return link

    def wake(self) -> None:
        """Try again now, where it is waited for."""
        for kept in self._links.values():
            kept.link.wake()

    @property
    def logins(self) -> list[str]:
        """The accounts to whose agents there are links."""
        return list(self._links)

    def settle(self, config: NodeConfig) -> None:
        """Bring the links in line with what runs on the node, what is to run there, and its entry."""
        node = self._engine.core.inventory.nodes.get(self._name)
        if node is None:
            return
        busy = self._busy(node)
        for login in sorted({*node.accounts.agents, *busy}):
            self._keep(config, login, is_busy=login in busy)
        for login in [login for login in self._links if login not in node.accounts.agents and login not in busy]:
            self.part(login)

    def _busy(self, node: Node) -> set[str]:
        """The accounts of which something may be alive there."""
        tasks = self._engine.core.tasks
        parts = (part_on(tasks[task_id].allocation, node.name) for task_id in node.active)
        there = {login for _, login in node.orphaned | node.unknown}
        left = {part.login for part in parts if part is not None} | there
        return left - {OWN}

    def _keep(self, config: NodeConfig, login: str, *, is_busy: bool) -> None:
        way, kept = _way(config, login), self._links.get(login)
        if kept is not None and way is not None and kept.way != way:
            self.part(login)
            kept = None
        if kept is None and way is None and not is_busy:
            self._forget(login)
        elif kept is None and way is None:
            why = Message("account_not_named", account=login, node=self._name)
            self._engine.event(partial(self._engine.core.account_state, self._name, login, NodeState.UNREACHABLE, why))
        elif kept is None and way is not None:
            kept = self._begin(way, login)
        if kept is not None:
            self._wait_for_nothing(login, kept, is_busy=is_busy)

    def _begin(self, way: NodeConfig, login: str) -> _Kept:
        link = self._new_link(way, login, Hooks(objection=self._refused))
        job = asyncio.create_task(link.run(), name=f"link to {link.label}")
        job.add_done_callback(self._ended)
        kept = self._links[login] = _Kept(way, link, job)
        self._engine.event(partial(self._engine.core.want_account, self._name, login))
        return kept

    def _refused(self, facts: Facts) -> Message | None:
        elsewhere = self._engine.core.account_elsewhere(self._name, facts)
        if elsewhere is not None:
            return elsewhere
        if facts.uid == 0 or runs_as_us(facts):
            return Message("account_is_ours", account=facts.account)
        why = self._objection(facts)
        return None if why is None else Message("agent_refused", said=why)

    def _wait_for_nothing(self, login: str, kept: _Kept, *, is_busy: bool) -> None:
        if is_busy and kept.gives_up is not None:
            kept.gives_up.cancel()
            kept.gives_up = None
        elif not is_busy and kept.gives_up is None:
            kept.gives_up = asyncio.get_running_loop().call_later(IDLE_S, self._forget, login)

    def _forget(self, login: str) -> None:
        """Nothing of it is there; once it is forgotten the link goes, too (`settle`)."""
        self._engine.event(partial(self._engine.core.forget_account, self._name, login))

    def part(self, login: str, *, retire: bool = False) -> None:
        """Give a link up, letting out what is still to be said. `retire`: the agent shall end, too."""
        kept = self._links.pop(login)
        node = self._engine.core.inventory.nodes.get(self._name)
        if node is not None and login in node.accounts.agents:  # else it was forgotten, and stays so
            self._engine.event(partial(self._engine.core.account_state, self._name, login, NodeState.CONNECTING))
        farewell = asyncio.create_task(self._leave(kept, retire=retire), name=f"leaving {kept.link.label}")
        self._farewells.add(farewell)
        farewell.add_done_callback(self._farewells.discard)

    async def leave(self, *, retire: bool) -> None:
        """Give all links up; what runs runs on."""
        for login in self.logins:
            self.part(login, retire=retire)
        await asyncio.gather(*self._farewells)

    async def _leave(self, kept: _Kept, *, retire: bool) -> None:
        await kept.link.leave(retire=retire)
        await _end(kept)

    async def close(self) -> None:
        """Give all links up at once; the agents stay, for the next master."""
        links, self._links = self._links, {}
        await asyncio.gather(*(_end(kept) for kept in links.values()), *self._farewells)


async def _end(kept: _Kept) -> None:
    if kept.gives_up is not None:
        kept.gives_up.cancel()
    while not kept.job.done():
        kept.job.cancel()
        # A link may wait in code that swallows a cancellation; a master that is to stop must not wait for ever.
        await asyncio.wait([kept.job], timeout=CANCEL_AGAIN_S)
    await kept.link.driver.close()


def _way(config: NodeConfig, login: str) -> NodeConfig | None:
    """The node's entry, but over this account; None where it names no such one."""
    for account in (config.accounts or {}).values():
        if account.user_name == login:
            return msgspec.structs.replace(config, user_name=login, key_file=account.key_file, accounts=None)
    return None
