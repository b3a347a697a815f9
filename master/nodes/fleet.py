"""All nodes and the links to them, following the registry while the master runs.

Owns which driver leads to which node, and when a link is made anew: at once if nothing is lost by it, and after the
node's last task if its tasks would be left behind on another machine. The core decides what a node may get.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Protocol

import msgspec

from master.config.ssh_accounts import SshAccount
from master.core.nodes.accounts import OWN
from master.core.nodes.inventory import Facts, Node, NodeState
from master.core.nodes.notes import SICK
from master.core.outcome import Move
from master.core.people.run_as import WouldBeRootError, account_on
from master.engine.engine import Engine
from master.nodes.account_links import NO_SAMPLES, AccountLinks, CheckedKey
from master.nodes.agent_context import Hooks, Identity, SampleSink
from master.nodes.connection import LoopTurns
from master.nodes.driver import AwaitedDriver, CannotConnectError, Driver, KeyedDriver, OfferedKey
from master.nodes.leaving import LeavingNodes
from master.nodes.link import Link
from master.nodes.questions import OUTPUT_LIMIT
from master.nodes.registry import NodeConfig
from wire import agent as wire
from wire.errors import BadRequestError, MusterError, NodeUnreachableError, NotFoundError
from wire.message import Message

log = logging.getLogger("muster.fleet")

REACHED_BY = ("driver", "ip", "port", "user_name", "key_file", "host_key", "proxy", "python", "gpu_probe")
"""The keys of a node that say how to reach it, and what its agent receives first."""
MACHINE_KEYS = ("driver", "ip", "port", "user_name")
"""Those of them which, when they change, may lead to another machine, or to another state folder on it."""
CANCEL_AGAIN_S = 1.0
COMPANY = "company"
"""The kind of the cordon of a node whose agent turned out to be one that must get no tasks here."""


class Unusable:
    """In the place of a driver that cannot be made: says why at each try, so that one node's fault stays its own."""

    version = ""

    def __init__(self, why: Message | str) -> None:
        self._why = why

    async def connect(self, _protocol: asyncio.Protocol) -> None:
        """Raises CannotConnectError."""
        raise CannotConnectError(self._why, "long")

    async def close(self) -> None:
        """Nothing was opened."""


class Member(msgspec.Struct):
    """A node that has a link: its entry, the link, the links to agents of other accounts there, and the job that keeps
    it up (None: its agent was stopped)."""

    config: NodeConfig
    link: Link
    accounts: AccountLinks
    job: asyncio.Task[None] | None = None
    turn: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)


class LinkWatcher(Protocol):
    """An object that is called when the state of a link changes."""

    def link_made(self, link: Link, config: NodeConfig) -> None:
        """This is the link to a node from now on; it is not up yet."""

    def link_up(self, link: Link, config: NodeConfig) -> None:
        """The agent has said what it has, and the node is about to be online."""

    def link_gone(self, link: Link) -> None:
        """The link is given up; it may have been before."""


class Fleet:
    """The links. `make_driver(config)` says how to get to a node; samples tell of `folders`, besides;
    `objection(facts)`: why an agent that says so of itself may get no tasks, None if it may;
    `run_as_allowed`: as in `LaunchSettings`; `accounts`: those that users have on all nodes that are reached by SSH;
    `turns`: as in `Link`."""

    def __init__(
        self,
        engine: Engine,
        identity: Identity,
        samples: SampleSink,
        *,
        make_driver: Callable[[NodeConfig], Driver],
        folders: Sequence[str] = (),
        watchers: Sequence[LinkWatcher] = (),
        leaving: LeavingNodes | None = None,
        objection: Callable[[Facts], str | None] = lambda _facts: None,
        run_as_allowed: Sequence[str | int] = (),
        accounts: Mapping[str, SshAccount] = MappingProxyType({}),
        turns: LoopTurns | None = None,
    ) -> None:
        self.configs: dict[str, NodeConfig] = {}
        self.registry_fault: str | None = None
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._engine = engine
        self._identity = identity
        self.samples = samples
        self.make_driver = make_driver
        self._folders = tuple(folders)
        self._watchers = tuple(watchers)
        self._leaving = leaving
        self._objection = objection
        self._run_as_allowed = tuple(run_as_allowed)
        self._accounts = accounts
        self._turns = turns
        self._members: dict[str, Member] = {}
        self._farewells: set[asyncio.Task[None]] = set()
        self._sick: set[str] = set()
        self._gone: set[str] = set()
        """The members that are not in the registry any more."""
        engine.observers.append(self)

    # -- the registry -----------------------------------------------------------------------------------------

    def apply(self, nodes: tuple[NodeConfig, ...]) -> None:
        """The registry says this now."""
        if self.registry_fault is not None:
            log.info("the registry can be read again")
            self.registry_fault = None
        nodes = tuple(node.with_accounts(self._accounts) for node in nodes)
        self.configs = {node.name: node for node in nodes}
        self._gone = self._members.keys() - self.configs.keys()
        self._engine.event(lambda: self._engine.core.set_nodes(tuple(node.spec() for node in nodes)))
        for name in {*self.configs, *self._members}:
            self._settle(name)
        for name, config in (self._leaving.entries if self._leaving else {}).items():
            if name in self._engine.core.inventory.nodes and name not in self._members:
                self._join(config)
        self._note_leaving()

    def refuse(self, fault: str) -> None:
        """The registry is broken: the last good one stays in force."""
        if fault != self.registry_fault:
            log.error("the registry is not taken over: %s", fault)
            self.registry_fault = fault

    def published(self, _moves: Sequence[Move], nodes: set[str]) -> None:
        """Something changed on these nodes: perhaps a link that waited for it can be made anew, or given up."""
        for name in nodes:
            self._settle(name)
            self._log_sick(name)
        if nodes:
            self._note_leaving()

    def _log_sick(self, name: str) -> None:
        """Nodes that start nothing, and those that somebody returned: once each."""
        node = self._engine.core.inventory.nodes.get(name)
        why = node.cordons.get(SICK) if node is not None else None
        if why is not None and name not in self._sick:
            self._sick.add(name)
            log.warning("node %s: %s", name, why)
        elif why is None and name in self._sick:
            self._sick.discard(name)
            log.info("node %s: takes tasks again, as somebody says", name)

    def _settle(self, name: str) -> None:
        """Bring the link to a node in line with the registry, if that is possible now."""
        node = self._engine.core.inventory.nodes.get(name)
        config, member = self.configs.get(name), self._members.get(name)
        if node is None:
            if member is not None:
                self._part(name, retire=True)
        elif config is not None and member is None:
            self._join(config)
        elif config is not None and member is not None and (config != member.config or "changing" in node.cordons):
            self._follow(node, config, member)
        if node is not None and (member := self._members.get(name)) is not None:
            self._settle_accounts(member)

    def _settle_accounts(self, member: Member) -> None:
        if member.job is not None:  # else somebody stopped its agents
            member.accounts.settle(member.config)

    def _note_leaving(self) -> None:
        """Remember how to get to the nodes that left while tasks ran there, for the next master."""
        if self._leaving is not None:
            self._leaving.keep({name: self._members[name].config for name in sorted(self._gone)})

    def _follow(self, node: Node, config: NodeConfig, member: Member) -> None:
        changed = [key for key in REACHED_BY if getattr(config, key) != getattr(member.config, key)]
        leads_elsewhere = any(key in MACHINE_KEYS for key in changed)
        if leads_elsewhere and node.active and node.state is NodeState.ONLINE:
            self._cordon(node.name, "changing", Message("changing", keys=tuple(changed)))
            return
        if leads_elsewhere:
            self._engine.event(lambda: self._engine.core.forget_facts(node.name))
        self._cordon(node.name, "changing", None)
        if "gpu_probe" in changed:  # what was seen in the other way, or could not be, says nothing now
            self._engine.event(lambda: self._engine.core.gpus_unseen(node.name))
        if changed:
            self._part(node.name, retire=False)
            self._join(config)
        else:
            member.config = config

    def _cordon(self, name: str, kind: str, reason: Message | None) -> None:
        node = self._engine.core.inventory.nodes.get(name)
        if node is not None and (kind in node.cordons or reason is not None):
            self._engine.event(lambda: self._engine.core.cordon(name, kind, reason))

    def _join(self, config: NodeConfig) -> None:
        accounts = AccountLinks(
            config.name, self._engine, new_link=self._account_link, objection=self._objection, ended=self._job_ended
        )
        member = self._members[config.name] = Member(config, self._new_link(config), accounts)
        if config.name not in self.configs:
            self._gone.add(config.name)
        self._run_unless_stopped(member)
        self._settle_accounts(member)

    def _account_link(self, way: NodeConfig, login: str, hooks: Hooks) -> Link:
        return Link(
            way.name,
            CheckedKey(self._driver(way), way.key_file or ""),
            self._engine,
            self._identity,
            self.samples,
            login=login,
            sampling=NO_SAMPLES,
            hooks=lambda _link: hooks,
            turns=self._turns,
        )

    def _run_unless_stopped(self, member: Member) -> None:
        name = member.config.name
        note = self._engine.core.notes.get(name)
        if note is None or note.stopped is None:
            self._run(member)
            return
        why = Message("agent_stopped_start", by=note.stopped, name=name)
        self._engine.event(lambda: self._engine.core.node_state(name, NodeState.UNREACHABLE, why))

    def _new_link(self, config: NodeConfig) -> Link:
        link = Link(
            config.name,
            self._driver(config),
            self._engine,
            self._identity,
            self.samples,
            sampling=wire.Sampling(gpus=config.gpu_probe, folders=list(self._folders)),
            hooks=lambda link: Hooks(
                on_welcome=partial(self._check_company, config.name),
                on_inventory=partial(self._link_up, link, config),
                on_same=partial(self._follow_renamed, config),
            ),
            turns=self._turns,
        )
        for watcher in self._watchers:
            watcher.link_made(link, config)
        return link

    def _link_up(self, link: Link, config: NodeConfig) -> None:
        for watcher in self._watchers:
            watcher.link_up(link, config)

    def _link_gone(self, link: Link) -> None:
        for watcher in self._watchers:
            watcher.link_gone(link)

    def _check_company(self, name: str, facts: Facts) -> None:
        why = self._objection(facts)
        self._cordon(name, COMPANY, None if why is None else Message("agent_refused", said=why))
        if why is not None:
            log.warning("node %s gets no tasks: %s", name, why)

    def _follow_renamed(self, config: NodeConfig, before: str) -> None:
        """This entry leads to the machine of another one. If that is not in the registry any more, and nobody has told
        us how to get there, this is the way to its tasks."""
        if before not in self.configs and before not in self._members and before in self._engine.core.inventory.nodes:
            log.info("node %s was renamed to %s: its tasks are followed there", before, config.name)
            self._join(msgspec.structs.replace(config, name=before))
            self._note_leaving()

    def _driver(self, config: NodeConfig) -> Driver:
        try:
            return self.make_driver(config)
        except MusterError as error:
            why = error.args[0]
            return Unusable(why if isinstance(why, Message) else str(error))

    def _run(self, member: Member) -> None:
        if member.job is None:
            member.job = asyncio.create_task(member.link.run(), name=f"link to {member.config.name}")
            member.job.add_done_callback(self._job_ended)

    def _job_ended(self, job: asyncio.Task[None]) -> None:
        if not job.cancelled() and (error := job.exception()) is not None and not self.failed.done():
            self.failed.set_exception(error)

    def _part(self, name: str, *, retire: bool) -> None:
        """Give a link up, letting out what is still to be said. Its folders are not the node's any more."""
        member = self._members.pop(name)
        self._gone.discard(name)
        self._link_gone(member.link)
        farewell = asyncio.create_task(self._leave(member, retire=retire), name=f"leaving {name}")
        self._farewells.add(farewell)
        farewell.add_done_callback(self._farewells.discard)

    async def _leave(self, member: Member, *, retire: bool) -> None:
        await asyncio.gather(member.link.leave(retire=retire), member.accounts.leave(retire=retire))
        await self._end_jobs(member)
        await member.link.driver.close()

    async def _end_jobs(self, member: Member) -> None:
        while member.job is not None:
            member.job.cancel()
            # A link may wait in code that swallows a cancellation; a master that is to stop must not wait for ever.
            if (await asyncio.wait([member.job], timeout=CANCEL_AGAIN_S))[0]:
                member.job = None
        self._link_gone(member.link)

    async def close(self) -> None:
        """Give all links up; the agents stay, for the next master."""
        if self in self._engine.observers:
            self._engine.observers.remove(self)
        members = list(self._members.values())
        ends = [end for member in members for end in (self._end_jobs(member), member.accounts.close())]
        await asyncio.gather(*ends)
        await asyncio.gather(
            *(member.link.driver.close() for member in members), *self._farewells, return_exceptions=True
        )

    # -- messages ---------------------------------------------------------------------------------------------

    def send(self, name: str, message: wire.Launch | wire.Kill | wire.Pause | wire.Ack, login: str = OWN) -> None:
        """Take a message to a node, to the agent of this account there, if there is a link to it now."""
        member = self._members.get(name)
        link = None if member is None else member.link if login == OWN else member.accounts.link(login)
        if link is not None:
            link.send(message)

    # -- what verbs ask ---------------------------------------------------------------------------------------

    async def probe(
        self,
        node: str,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        timeout_s: float = 10.0,
        output_limit: int = OUTPUT_LIMIT,
        run_as: str | None = None,
    ) -> wire.Probed:
        """Run a short command on a node (see `Questions.ask`); `run_as`: as this account, where the agent can become
        others. Raises NotFoundError, NodeUnreachableError."""
        login = self._engine.core.node(node).accounts.of_account(run_as)
        link = await self._link_of(node, login)
        return await link.questions.ask(
            argv,
            cwd=cwd,
            env=env,
            stdin=stdin,
            timeout_s=timeout_s,
            output_limit=output_limit,
            run_as=self._as_account(node, run_as) if login == OWN else None,
        )

    async def _link_of(self, node: str, login: str | None) -> Link:
        """The link to the agent of an account. Raises NotFoundError, NodeUnreachableError."""
        member = self._member(node)
        if login is None:
            raise NodeUnreachableError(Message("no_account_of_yours", node=node))
        return member.link if login == OWN else await member.accounts.agent(member.config, login)

    def _as_account(self, node: str, account: str | None) -> wire.RunAs | None:
        try:
            found = account_on(node, self._engine.core.node(node).facts, account)
        except WouldBeRootError as error:
            raise NodeUnreachableError(error.why) from None
        return None if found is None else wire.RunAs(run_as=found, run_as_allowed=list(self._run_as_allowed))

    def version(self, name: str) -> str:
        """The agent that this master brings to the node."""
        return self._member(name).link.driver.version

    def wake(self, name: str) -> None:
        """Try to connect now."""
        member = self._member(name)
        member.link.wake()
        member.accounts.wake()

    async def stop_agent(self, name: str, by: str) -> None:
        """Let a node's agent end and stay away; its tasks run on, and nothing new is started. Durable."""
        member = self._member(name)
        self._engine.event(lambda: self._engine.core.set_stopped(name, by))
        await self._retire(member)

    def start_agent(self, name: str) -> None:
        """Undo `stop_agent`; of a node whose agent was not stopped, try to connect now."""
        member = self._member(name)
        self._allow(name)
        if not member.turn.locked():  # else whoever lets it retire just now sees that it may run
            self._run(member)
            member.link.wake()
            member.accounts.wake()

    async def restart_agent(self, name: str) -> None:
        """End the agent and start it anew, also one that was stopped; its tasks run on."""
        member = self._member(name)
        self._allow(name)
        await self._retire(member)

    def _allow(self, name: str) -> None:
        if name in self._engine.core.notes:
            self._engine.event(lambda: self._engine.core.set_stopped(name, None))

    async def _retire(self, member: Member) -> None:
        """Have the agent end; then, unless somebody stopped it, the next one is started."""
        async with member.turn:
            await self._leave(member, retire=True)
            member.link = self._new_link(member.config)
        if self._members.get(member.config.name) is member:
            self._run_unless_stopped(member)

    def tokens_changed(self, name: str) -> None:
        """The tokens of a node whose agent dials in are others now: one that came in with an old one is put out."""
        driver = self._member(name).link.driver
        if isinstance(driver, AwaitedDriver):
            driver.look_at_token()

    async def host_key(self, name: str) -> OfferedKey:
        """The key that the machine shows now. Raises BadRequestError where there is none, NodeUnreachableError."""
        return await _keyed(self._member(name)).offered_key()

    async def known_key(self, name: str) -> str | None:
        """The fingerprint that we expect, None if we know none."""
        return await asyncio.to_thread(_keyed(self._member(name)).known_key)

    async def pin(self, name: str, key: OfferedKey) -> None:
        """Expect this key from now on, and try again, also for other nodes on that machine. Raises OSError where it
        cannot be written down."""
        member = self._member(name)
        await asyncio.to_thread(_keyed(member).pin, key)
        for other in self._members.values():
            if (other.config.ip, other.config.port) == (member.config.ip, member.config.port):
                other.link.wake()
                other.accounts.wake()

    def _member(self, name: str) -> Member:
        self._engine.core.node(name)
        member = self._members.get(name)
        if member is None:
            raise NotFoundError(Message("node_left", node=name))
        return member


def _keyed(member: Member) -> KeyedDriver:
    driver = member.link.driver
    if not isinstance(driver, KeyedDriver):
        raise BadRequestError(Message("driver_without_key", node=member.config.name, driver=member.config.driver))
    return driver
