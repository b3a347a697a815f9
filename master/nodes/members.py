"""The nodes that have a link, and the jobs that keep the links up, from the first to what is said last.

Owns that no job is left behind. The fleet decides which nodes these are, and when a link is made anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

from master.core.nodes.accounts import OWN
from master.core.nodes.inventory import NodeState
from master.engine.engine import Engine
from master.nodes.account_links import AccountLinks
from master.nodes.link import Link
from master.nodes.link_making import LinkMaker
from master.nodes.registry import NodeConfig
from wire.errors import NodeUnreachableError, NotFoundError
from wire.message import Message

CANCEL_AGAIN_S = 1.0

Ended = Callable[[asyncio.Task[None]], None]


class Member:
    """A node that has a link: its entry, the link, and the links to agents of other accounts there. `turn`: of whoever
    has its agent end. `on_same`: as in `Hooks`; `ended` is called for each finished job of a link."""

    def __init__(
        self, config: NodeConfig, engine: Engine, links: LinkMaker, on_same: Callable[[str], None], ended: Ended
    ) -> None:
        self.config = config
        self.turn = asyncio.Lock()
        self._engine = engine
        self._links = links
        self._on_same = on_same
        self._ended = ended
        self.link = links.to_node(config, on_same)
        self.accounts = AccountLinks(
            config.name, engine, new_link=links.to_account, objection=links.objection, ended=ended
        )
        self._job: asyncio.Task[None] | None = None
        """The job that keeps the link up; None: its agent was stopped."""

    def begin(self) -> None:
        """Keep the link up, unless somebody stopped the agent."""
        name = self.config.name
        note = self._engine.core.notes.get(name)
        if note is None or note.stopped is None:
            self.run()
            return
        why = Message("agent_stopped_start", by=note.stopped, name=name)
        self._engine.event(lambda: self._engine.core.node_state(name, NodeState.UNREACHABLE, why))

    def run(self) -> None:
        """Keep the link up from now on."""
        if self._job is None:
            self._job = asyncio.create_task(self.link.run(), name=f"link to {self.config.name}")
            self._job.add_done_callback(self._ended)

    def wake(self) -> None:
        """Try to connect now."""
        self.link.wake()
        self.accounts.wake()

    def settle_accounts(self) -> None:
        """Bring the links to its accounts in line with what runs there, and its entry."""
        if self._job is not None:  # else somebody stopped its agents
            self.accounts.settle(self.config)

    async def link_of(self, login: str | None) -> Link:
        """The link to the agent of an account. Raises NodeUnreachableError."""
        if login is None:
            raise NodeUnreachableError(Message("no_account_of_yours", node=self.config.name))
        return self.link if login == OWN else await self.accounts.agent(self.config, login)

    def link_now(self, login: str) -> Link | None:
        """The link to the agent of an account, if there is one."""
        return self.link if login == OWN else self.accounts.link(login)

    def given_up(self) -> None:
        """The link is about to be given up: its folders are not the node's any more."""
        self._links.gone(self.link)

    async def leave(self, *, retire: bool) -> None:
        """Give the links up, letting out what is still to be said. `retire`: the agents shall end, too."""
        await asyncio.gather(self.link.leave(retire=retire), self.accounts.leave(retire=retire))
        await self.end_job()
        await self.link.driver.close()

    def renew(self) -> None:
        """After `leave`: a new link in the place of that which was given up."""
        self.link = self._links.to_node(self.config, self._on_same)

    async def end_job(self) -> None:
        """Keep the link up no longer."""
        while self._job is not None:
            self._job.cancel()
            # A link may wait in code that swallows a cancellation; a master that is to stop must not wait for ever.
            if (await asyncio.wait([self._job], timeout=CANCEL_AGAIN_S))[0]:
                self._job = None
        self._links.gone(self.link)


class Members:
    """By name. `on_same(config, other)`: the node of this entry turned out to be the machine of the other one. `failed`
    has the error of the first job that met one."""

    def __init__(self, engine: Engine, links: LinkMaker, on_same: Callable[[NodeConfig, str], None]) -> None:
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._engine = engine
        self._links = links
        self._on_same = on_same
        self._members: dict[str, Member] = {}
        self._farewells: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    @property
    def names(self) -> set[str]:
        """Of all."""
        return set(self._members)

    def get(self, name: str) -> Member | None:
        """The member, if the node is one."""
        return self._members.get(name)

    def of(self, name: str) -> Member:
        """The member. Raises NotFoundError."""
        self._engine.core.node(name)
        member = self._members.get(name)
        if member is None:
            raise NotFoundError(Message("node_left", node=name))
        return member

    def join(self, config: NodeConfig) -> None:
        """Make a link to this node."""
        on_same = partial(self._on_same, config)
        member = Member(config, self._engine, self._links, on_same, self._job_ended)
        self._members[config.name] = member
        member.begin()
        member.settle_accounts()

    def _job_ended(self, job: asyncio.Task[None]) -> None:
        if not job.cancelled() and (error := job.exception()) is not None and not self.failed.done():
            self.failed.set_exception(error)

    def part(self, name: str, *, retire: bool) -> None:
        """Give a link up, letting out what is still to be said."""
        member = self._members.pop(name)
        member.given_up()
        farewell = asyncio.create_task(member.leave(retire=retire), name=f"leaving {name}")
        self._farewells.add(farewell)
        farewell.add_done_callback(self._farewells.discard)

    async def close(self) -> None:
        """Give all links up; the agents stay, for the next master."""
        members = list(self)
        ends = [end for member in members for end in (member.end_job(), member.accounts.close())]
        await asyncio.gather(*ends)
        closings = (member.link.driver.close() for member in members)
        await asyncio.gather(*closings, *self._farewells, return_exceptions=True)
