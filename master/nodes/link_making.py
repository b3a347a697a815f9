"""Makes links: the driver of each, the measurements that its agent shall take, and the watchers that hear of it.

Owns also that an agent that must get no tasks here closes its node. The fleet decides when a link is made.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from master.config.ssh_accounts import key_fault
from master.core.nodes.inventory import Facts
from master.engine.engine import Engine
from master.nodes.agent_context import Hooks, Identity, SampleSink
from master.nodes.connection import LoopTurns
from master.nodes.driver import CannotConnectError, Driver
from master.nodes.link import Link
from master.nodes.pacing import Pace
from master.nodes.registry import NodeConfig
from master.nodes.same_account import runs_as
from wire import agent as wire
from wire.errors import MusterError
from wire.message import Message

log = logging.getLogger("muster.fleet")

COMPANY = "company"
"""The kind of the cordon of a node whose agent turned out to be one that must get no tasks here."""
NO_SAMPLES = wire.Sampling(gpus="none", folders=[])


class Unusable:
    """In the place of a driver that cannot be made: says why at each try, so that one node's fault stays its own."""

    version = ""

    def __init__(self, why: Message) -> None:
        self._why = why

    async def connect(self, _protocol: asyncio.Protocol) -> None:
        """Raises CannotConnectError."""
        raise CannotConnectError(self._why, "long")

    async def close(self) -> None:
        """Nothing was opened."""


class CheckedKey:
    """A driver that tries nothing with a key in which somebody else has a hand."""

    def __init__(self, driver: Driver, key_file: str) -> None:
        self.version = driver.version
        self._driver = driver
        self._key_file = key_file

    async def connect(self, protocol: asyncio.Protocol) -> None:
        """As `Driver`."""
        fault = await asyncio.to_thread(key_fault, self._key_file)
        if fault is not None:
            raise CannotConnectError(fault, "long")
        await self._driver.connect(protocol)

    async def close(self) -> None:
        """As `Driver`."""
        await self._driver.close()


class LinkWatcher(Protocol):
    """An object that is called when the state of a link changes."""

    def link_made(self, link: Link, config: NodeConfig) -> None:
        """This is the link to a node from now on; it is not up yet."""

    def link_up(self, link: Link, config: NodeConfig) -> None:
        """The agent has said what it has, and the node is about to be online."""

    def link_gone(self, link: Link) -> None:
        """The link is given up; it may have been before."""


class LinkMaker:
    """`make_driver(config)` says how to get to a node; samples tell of `folders`, besides; `objection(facts)`: why an
    agent that says so of itself may get no tasks, None if it may; `turns`: as in `AgentContext`."""

    def __init__(
        self,
        engine: Engine,
        identity: Identity,
        samples: SampleSink,
        *,
        make_driver: Callable[[NodeConfig], Driver],
        folders: Sequence[str] = (),
        watchers: Sequence[LinkWatcher] = (),
        objection: Callable[[Facts], Message | None] = lambda _facts: None,
        turns: LoopTurns | None = None,
    ) -> None:
        self.objection = objection
        self._engine = engine
        self._identity = identity
        self._samples = samples
        self._make_driver = make_driver
        self._folders = tuple(folders)
        self._watchers = tuple(watchers)
        self._turns = turns
        self._paces: defaultdict[str, Pace] = defaultdict(Pace)
        """By account, on whichever node: its agent there is a process of a user, who may have many nodes."""

    def to_node(self, config: NodeConfig, on_same: Callable[[str], None]) -> Link:
        """A link to the node's own agent. `on_same`: as in `Hooks`."""
        link = Link(
            config.name,
            self._driver(config),
            self._engine,
            self._identity,
            self._samples,
            sampling=wire.Sampling(gpus=config.gpu_probe, folders=list(self._folders)),
            hooks=lambda link: Hooks(
                runs_as=partial(runs_as, is_ours=config.traits.has_our_account),
                on_welcome=partial(self._check_company, config.name),
                on_inventory=partial(self._link_up, link, config),
                on_same=on_same,
            ),
            turns=self._turns,
        )
        for watcher in self._watchers:
            watcher.link_made(link, config)
        return link

    def to_account(self, way: NodeConfig, login: str, hooks: Hooks) -> Link:
        """A link to the agent of an account of the node."""
        return Link(
            way.name,
            CheckedKey(self._driver(way), way.key_file or ""),
            self._engine,
            self._identity,
            self._samples,
            login=login,
            sampling=NO_SAMPLES,
            hooks=lambda _link: hooks,
            pace=self._paces[login],
            turns=self._turns,
        )

    def gone(self, link: Link) -> None:
        """A link to a node's own agent is given up; it may have been before."""
        for watcher in self._watchers:
            watcher.link_gone(link)

    def _driver(self, config: NodeConfig) -> Driver:
        try:
            return self._make_driver(config)
        except MusterError as error:
            why = error.args[0]
            return Unusable(why if isinstance(why, Message) else Message("link_said", said=str(error)))

    def _link_up(self, link: Link, config: NodeConfig) -> None:
        for watcher in self._watchers:
            watcher.link_up(link, config)

    def _check_company(self, name: str, facts: Facts) -> None:
        why = self.objection(facts)
        set_cordon(self._engine, name, COMPANY, None if why is None else Message("agent_refused", said=why))
        if why is not None:
            log.warning("node %s gets no tasks: %s", name, why)


def set_cordon(engine: Engine, name: str, kind: str, reason: Message | None) -> None:
    """Close a node that is still there for new tasks, or, without a reason, open it again; nothing if that is so."""
    node = engine.core.inventory.nodes.get(name)
    if node is not None and (kind in node.cordons or reason is not None):
        engine.event(lambda: engine.core.cordon(name, kind, reason))
