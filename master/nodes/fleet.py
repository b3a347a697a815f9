"""All nodes and the links to them, following the registry while the master runs.

Owns which driver leads to which node, and when a link is made anew: at once where nothing is lost by it, after the
node's last task where its tasks would be left behind on another machine. What a node may get is the core's business.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from master.core.effects import Ack, Effect, Kill, Start
from master.core.inventory import Node, NodeState
from master.core.launching import LaunchSettings, launch_message
from master.core.task import Task, TaskState
from master.engine import Engine
from master.nodes.driver import AwaitedDriver, CannotConnectError, Driver, KeyedDriver, OfferedKey
from master.nodes.folder_watch import FOLDERS, FolderWatch
from master.nodes.leaving import LeavingNodes
from master.nodes.link import Identity, Link, SampleSink
from master.nodes.own_folders import OwnFolders
from master.nodes.questions import OUTPUT_LIMIT
from master.nodes.registry import NodeConfig
from wire import agent as wire
from wire.errors import BadRequestError, MusterError, NotFoundError

log = logging.getLogger("muster.fleet")

WAY = ("driver", "ip", "port", "user_name", "key_file", "host_key", "proxy", "python", "gpu_probe")
"""The keys of a node that say how to get there, and what its agent is told first."""
MACHINE = ("driver", "ip", "port", "user_name")
"""Those of them which, when they change, may lead to another machine, or to another state folder on it."""


class Unusable:
    """In the place of a driver that cannot be made: says why at each try, so that one node's fault stays its own."""

    version = ""

    def __init__(self, why: str) -> None:
        self._why = why

    async def connect(self, _protocol: asyncio.Protocol) -> None:
        """Raises CannotConnectError."""
        raise CannotConnectError(self._why, "long")

    async def close(self) -> None:
        """Nothing was opened."""


class Way(msgspec.Struct):
    """How we get to a node: its entry, the link, and the job that keeps the link up (None: its agent was stopped)."""

    config: NodeConfig
    link: Link
    job: asyncio.Task[None] | None = None
    turn: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)


class Fleet:
    """The links. `make_driver(config)` says how to get to a node; `folders` are those that every node must see."""

    def __init__(
        self,
        engine: Engine,
        identity: Identity,
        samples: SampleSink,
        settings: LaunchSettings,
        *,
        make_driver: Callable[[NodeConfig], Driver],
        folders: OwnFolders | None = None,
        leaving: LeavingNodes | None = None,
    ) -> None:
        self.configs: dict[str, NodeConfig] = {}
        self.registry_fault: str | None = None
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._engine = engine
        self._identity = identity
        self._samples = samples
        self._settings = settings
        self._make_driver = make_driver
        self._folders = folders or OwnFolders(())
        self._watch = FolderWatch(self._folders, self._cordon)
        self._leaving = leaving
        self._ways: dict[str, Way] = {}
        self._farewells: set[asyncio.Task[None]] = set()
        engine.perform = self.perform
        engine.observers.append(self)

    # -- the registry -----------------------------------------------------------------------------------------

    def apply(self, nodes: tuple[NodeConfig, ...]) -> None:
        """The registry says this now."""
        if self.registry_fault is not None:
            log.info("the registry can be read again")
            self.registry_fault = None
        self.configs = {node.name: node for node in nodes}
        self._engine.event(lambda: self._engine.core.set_nodes(tuple(node.spec() for node in nodes)))
        for name in {*self.configs, *self._ways}:
            self._settle(name)
        for name, config in (self._leaving.entries if self._leaving else {}).items():
            if name in self._engine.core.inventory.nodes and name not in self._ways:
                self._join(config)
        self._note_leaving()

    def refuse(self, fault: str) -> None:
        """The registry is broken: the last good one stays in force."""
        if fault != self.registry_fault:
            log.error("the registry is not taken over: %s", fault)
            self.registry_fault = fault

    def published(self, _tasks: list[Task], _gone: list[int], nodes: set[str]) -> None:
        """Something changed on these nodes: perhaps a link that waited for it can be made anew, or given up."""
        for name in nodes:
            self._settle(name)
        if nodes:
            self._note_leaving()

    def let_out(self) -> None:
        """Nothing is kept back here."""

    def _settle(self, name: str) -> None:
        """Bring the link to a node in line with the registry, if that is possible now."""
        node = self._engine.core.inventory.nodes.get(name)
        config, way = self.configs.get(name), self._ways.get(name)
        if node is None:
            if way is not None:
                self._part(name, retire=True)
        elif config is not None and way is None:
            self._join(config)
        elif config is not None and way is not None and (config != way.config or "changing" in node.cordons):
            self._follow(node, config, way)

    def _note_leaving(self) -> None:
        """Remember how to get to the nodes that left while tasks ran there, for the next master."""
        if self._leaving is not None:
            # This comes with each change of any node: what is in the registry is left out without looking at each.
            gone = {name: self._ways[name].config for name in sorted(self._ways.keys() - self.configs.keys())}
            self._leaving.keep(gone)

    def _follow(self, node: Node, config: NodeConfig, way: Way) -> None:
        changed = [key for key in WAY if getattr(config, key) != getattr(way.config, key)]
        leads_elsewhere = any(key in MACHINE for key in changed)
        if leads_elsewhere and node.active and node.state is NodeState.ONLINE:
            text = f"its {' and '.join(changed)} changed in the registry: no new tasks before its last one ended"
            self._cordon(node.name, "changing", text)
            return
        if leads_elsewhere:
            self._engine.event(lambda: self._engine.core.forget_facts(node.name))
        self._cordon(node.name, "changing", None)
        if changed:
            self._part(node.name, retire=False)
            self._join(config)
        else:
            way.config = config

    def _cordon(self, name: str, kind: str, reason: str | None) -> None:
        node = self._engine.core.inventory.nodes.get(name)
        if node is not None and (kind in node.cordons or reason is not None):
            self._engine.event(lambda: self._engine.core.cordon(name, kind, reason))

    def _join(self, config: NodeConfig) -> None:
        way = self._ways[config.name] = Way(config, self._new_link(config))
        self._run_unless_stopped(way)

    def _run_unless_stopped(self, way: Way) -> None:
        name = way.config.name
        note = self._engine.core.notes.get(name)
        if note is None or note.stopped is None:
            self._run(way)
            return
        why = f"its agent was stopped by {note.stopped}: `muster agents start {shlex.quote(name)}`"
        self._engine.event(lambda: self._engine.core.node_state(name, NodeState.UNREACHABLE, why))

    def _new_link(self, config: NodeConfig) -> Link:
        link = Link(config.name, self._driver(config), self._engine, self._identity, self._samples)
        link.sampling = wire.Sampling(gpus=config.gpu_probe, folders=list(self._folders.wanted))
        if config.driver == "local":  # the master's own folders are its own; whatever was said of another machine's
            self._cordon(config.name, FOLDERS, None)
        else:
            link.on_inventory = partial(self._watch.begin, link)
        return link

    def _driver(self, config: NodeConfig) -> Driver:
        try:
            return self._make_driver(config)
        except MusterError as error:
            return Unusable(str(error))

    def _run(self, way: Way) -> None:
        if way.job is None:
            way.job = asyncio.create_task(way.link.run(), name=f"link to {way.config.name}")
            way.job.add_done_callback(self._job_ended)

    def _job_ended(self, job: asyncio.Task[None]) -> None:
        if not job.cancelled() and (error := job.exception()) is not None and not self.failed.done():
            self.failed.set_exception(error)

    def _part(self, name: str, *, retire: bool) -> None:
        """Give a link up, letting out what is still to be said. Its folders are not the node's any more."""
        way = self._ways.pop(name)
        self._watch.end(way.link)
        farewell = asyncio.create_task(self._leave(way, retire=retire), name=f"leaving {name}")
        self._farewells.add(farewell)
        farewell.add_done_callback(self._farewells.discard)

    async def _leave(self, way: Way, *, retire: bool) -> None:
        await way.link.leave(retire=retire)
        await self._end_jobs(way)
        await way.link.driver.close()

    async def _end_jobs(self, way: Way) -> None:
        if way.job is not None:
            way.job.cancel()
            await asyncio.gather(way.job, return_exceptions=True)
            way.job = None
        self._watch.end(way.link)

    async def close(self) -> None:
        """Give all links up; the agents stay, for the next master."""
        if self in self._engine.observers:
            self._engine.observers.remove(self)
        ways = list(self._ways.values())
        await asyncio.gather(*(self._end_jobs(way) for way in ways))
        await asyncio.gather(*(way.link.driver.close() for way in ways), *self._farewells, return_exceptions=True)

    # -- effects ----------------------------------------------------------------------------------------------

    def perform(self, effects: list[Effect]) -> None:
        """Tell the agents. What cannot be sent now is set right by the inventory after the next handshake."""
        for effect in effects:
            way = self._ways.get(effect.node)
            if way is None:
                continue
            if isinstance(effect, Kill):
                grace_s = self._settings.grace_s
                way.link.send(wire.Kill(op="kill", launch_id=effect.launch_id, grace_s=grace_s))
            elif isinstance(effect, Ack):
                way.link.send(wire.Ack(op="ack", launch_ids=[effect.launch_id]))
            elif _is_due(effect):
                node = self._engine.core.inventory.nodes.get(effect.node)
                names = node.watch.names() if node is not None else {}
                way.link.send(launch_message(effect.task, self._settings, names))

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
    ) -> wire.Probed:
        """Run a short command on a node (see `Questions.ask`). Raises NotFoundError, NodeUnreachableError."""
        questions = self._way(node).link.questions
        return await questions.ask(argv, cwd=cwd, env=env, stdin=stdin, timeout_s=timeout_s, output_limit=output_limit)

    def version(self, name: str) -> str:
        """The agent that this master brings to the node."""
        return self._way(name).link.driver.version

    def wake(self, name: str) -> None:
        """Try to connect now."""
        self._way(name).link.wake()

    async def stop_agent(self, name: str, by: str) -> None:
        """Let a node's agent end and stay away; its tasks run on, and nothing new is started. Durable."""
        way = self._way(name)
        self._engine.event(lambda: self._engine.core.set_stopped(name, by))
        await self._retire(way)

    def start_agent(self, name: str) -> None:
        """Undo `stop_agent`; of a node whose agent was not stopped, try to connect now."""
        way = self._way(name)
        self._allow(name)
        if not way.turn.locked():  # else whoever lets it retire just now sees that it may run
            self._run(way)
            way.link.wake()

    async def restart_agent(self, name: str) -> None:
        """End the agent and start it anew, also one that was stopped; its tasks run on."""
        way = self._way(name)
        self._allow(name)
        await self._retire(way)

    def _allow(self, name: str) -> None:
        if name in self._engine.core.notes:
            self._engine.event(lambda: self._engine.core.set_stopped(name, None))

    async def _retire(self, way: Way) -> None:
        """Have the agent end; then, unless somebody stopped it, the next one is started."""
        async with way.turn:
            await self._leave(way, retire=True)
            way.link = self._new_link(way.config)
        if self._ways.get(way.config.name) is way:
            self._run_unless_stopped(way)

    def tokens_changed(self, name: str) -> None:
        """The tokens of a node whose agent dials in are others now: one that came in with an old one is put out."""
        driver = self._way(name).link.driver
        if isinstance(driver, AwaitedDriver):
            driver.look_at_token()

    async def host_key(self, name: str) -> OfferedKey:
        """The key that the machine shows now. Raises BadRequestError where there is none, NodeUnreachableError."""
        return await _keyed(self._way(name)).offered_key()

    async def known_key(self, name: str) -> str | None:
        """The fingerprint that we expect, None if we know none."""
        return await asyncio.to_thread(_keyed(self._way(name)).known_key)

    async def pin(self, name: str, key: OfferedKey) -> None:
        """Expect this key from now on, and try again, also for other nodes on that machine. Raises OSError where it
        cannot be written down."""
        way = self._way(name)
        await asyncio.to_thread(_keyed(way).pin, key)
        for other in self._ways.values():
            if (other.config.ip, other.config.port) == (way.config.ip, way.config.port):
                other.link.wake()

    def _way(self, name: str) -> Way:
        self._engine.core.node(name)
        way = self._ways.get(name)
        if way is None:
            raise NotFoundError(
                f"node {name} is not in the registry any more; its tasks keep their GPUs until they end"
            )
        return way


def _keyed(way: Way) -> KeyedDriver:
    driver = way.link.driver
    if not isinstance(driver, KeyedDriver):
        raise BadRequestError(
            f"node {way.config.name} has the driver `{way.config.driver}`: it has no host key to trust"
        )
    return driver


def _is_due(effect: Start) -> bool:
    """Is the attempt still to be started? While the disk refused writes, its task may have come to its end."""
    task = effect.task
    return task.state is TaskState.STARTING and task.launch is not None and task.launch.node == effect.node
