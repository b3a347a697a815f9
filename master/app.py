"""The composition root: builds the parts of a master, starts them in order and stops them in order.

Order at the start: the folder's lock and its content, the epoch (durable before any agent hears of us), the ports, the
links. At the end: links, ports, store. Tasks run on.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import importlib.metadata
import logging
import os
import resource
import secrets
import signal
import time
from typing import Any

import msgspec

from master.config import Config, make_folders
from master.core.core import Core
from master.core.launching import LaunchSettings
from master.core.task import Change
from master.drivers.choice import Drivers
from master.drivers.report import Desk
from master.durable.disk import OsDisk
from master.durable.legacy import Places
from master.durable.store import Store
from master.engine import Engine
from master.files.service import Files
from master.nodes.fleet import Fleet
from master.nodes.idle_desk import IdleDesk
from master.nodes.leaving import LeavingNodes
from master.nodes.own_folders import OwnFolders
from master.nodes.registry import NodeConfig, load_registry
from master.nodes.registry_watch import RegistryWatch
from master.ports.hub import Hub, PortLimits
from master.tls.entrance import Listener
from master.tls.policy import Tls, listens_outside
from wire import agent as wire
from wire.errors import ConfigError

log = logging.getLogger("muster")

LINEAGE_KEPT = 64
LEAVING = "leaving_nodes.json"
"""In `task_info`: how to get to the nodes that left the registry and still have tasks."""
DRAFTS = "drafts.json"
"""In `task_info`: which drafts of uploads lie in people's folders, so that those nobody finished are removed."""
_LISTEN_CURE = {
    errno.EADDRINUSE: "Stop what uses it (`ss -ltnp` shows it) or choose another port",
    errno.EACCES: "Choose a port of 1024 or more",
}


class Lineage(msgspec.Struct):
    """Which master this is: the piece of state that agents check. `epochs`: [epoch, incarnation], oldest first."""

    cluster: str
    epochs: list[tuple[int, str]] = []

    def next(self) -> None:
        """Begin the epoch of this start."""
        last = self.epochs[-1][0] if self.epochs else 0
        self.epochs = [*self.epochs, (last + 1, secrets.token_hex(8))][-LINEAGE_KEPT:]

    def hello(self) -> wire.Hello:
        """What every agent is told first."""
        epoch, incarnation = self.epochs[-1]
        return wire.Hello(
            op="hello",
            protocol=wire.PROTOCOL,
            cluster=self.cluster,
            epoch=epoch,
            incarnation=incarnation,
            lineage=[list(entry) for entry in self.epochs],
            sampling=wire.Sampling(gpus="auto", folders=[]),
        )


class Master:
    """One master, from its configuration to its end."""

    fleet: Fleet
    desk: Desk

    def __init__(self, config: Config) -> None:
        self.config = config
        self.root = str(config.root)
        self.conda = str(config.conda)
        self.log_folder = str(config.train_logs)
        self.server_log = str(config.server_log)
        self.files = Files(
            config.root,
            config.visible_folders,
            book=config.task_info / DRAFTS,
            upload_bytes=config.limits.upload_bytes,
        )
        self._version = importlib.metadata.version("muster")
        self._started_at = time.time()
        self._stopping = asyncio.Event()
        self._settings = LaunchSettings(
            conda=self.conda, task_env=dict(config.task_env), grace_s=config.scheduler.grace_s
        )

    # -- what verbs use ---------------------------------------------------------------------------------------

    def info(self) -> dict[str, Any]:
        """The part of `server.info` that is known here."""
        return {
            "version": self._version,
            "pid": os.getpid(),
            "started_at": self._started_at,
            "conf": str(self.config.path),
            "task_info": str(self.config.task_info),
            "root": self.root,
            "visible_folders": [str(self.config.root / name) for name in self.config.visible_folders],
            "bind": self.config.bind,
            "ports": self.config.ports.all,
            "registry_fault": self.fleet.registry_fault,
            "tls": self.desk.tls.told(),
        }

    def stop(self) -> None:
        """End soon; tasks run on."""
        self._stopping.set()

    # -- life -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Start, serve until `stop` or a signal, end. Raises MusterError if it cannot start."""
        nodes = load_registry(self.config.registry)
        make_folders(self.config)
        _raise_descriptor_limit()
        store = Store(self.config.task_info, OsDisk(), old_places=Places(self.root, self.log_folder))
        image = store.open()
        for note in store.notes:
            log.info("%s", note)
        core = Core(tuple(node.spec() for node in nodes), _launch_id, waiting_limit=self.config.limits.waiting_tasks)
        core.load(image.tasks, image.answered, image.next_id, image.state)
        # What was loaded lives long: looking through it at each collection would only cost.
        gc.collect()
        gc.freeze()
        lineage = _begin_epoch(store, image.state)
        engine = Engine(core, store, keep_history=self.config.scheduler.keep_history)
        tls = self._tls()
        drivers = Drivers(self.config, lineage.cluster, core, tls)
        self.desk = drivers.desk
        hub = Hub(engine, self, self._limits(), self.config.desktop_client, tls=tls, desk=drivers.desk)
        idle_after_s = self.config.scheduler.idle_after_s
        samples = IdleDesk(engine, hub, idle_after_s) if idle_after_s else hub
        self.fleet = Fleet(
            engine,
            lineage,
            samples,
            self._settings,
            make_driver=drivers.make,
            folders=OwnFolders(self.config.shared_folders),
            leaving=LeavingNodes(self.config.task_info / LEAVING),
        )
        try:
            await self._serve(engine, hub, nodes)
        finally:
            await engine.close()

    def _tls(self) -> Tls:
        """Where others can come in, a certificate that cannot be used should be told before anybody does."""
        tls = Tls.of(self.config)
        if tls.is_on and listens_outside(self.config.bind):
            log.info("other machines must speak TLS; the authority to pin is %s", tls.fingerprint())
        return tls

    async def _serve(self, engine: Engine, hub: Hub, nodes: tuple[NodeConfig, ...]) -> None:
        servers = await self._listen(hub)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        self.fleet.apply(nodes)
        watch = RegistryWatch(self.config.registry, loop, self.fleet.apply, self.fleet.refuse)
        engine.event(lambda: None)  # what loading settled is committed and planned
        log.info("serving on %s, ports %s", self.config.bind, self.config.ports.all)
        self.fleet.failed.add_done_callback(lambda _failed: self.stop())
        await self._stopping.wait()
        log.info("stopping; tasks run on")
        watch.close()
        for server in servers:
            server.close()
        hub.close()
        await self.fleet.close()
        if self.fleet.failed.done():
            self.fleet.failed.result()

    async def _listen(self, hub: Hub) -> list[Listener]:
        servers: list[Listener] = []
        for name, port in self.config.ports.all.items():
            try:
                servers.append(await hub.listen(name, self.config.bind, port, self.config.ports.listen))
            except OSError as error:
                for server in servers:
                    server.close()
                # The errors of name look-ups are not among the system's: theirs are negative and bring their own text.
                why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
                raise ConfigError(
                    f"{self.config.path}: socket_info.{name}: cannot listen on {self.config.bind}:{port}: {why}. "
                    f"{_LISTEN_CURE.get(error.errno or 0, 'Is `bind` an address of this machine?')}"
                ) from None
        return servers

    def _limits(self) -> PortLimits:
        limits = self.config.limits
        return PortLimits(
            frame=limits.frame_bytes,
            frame_unidentified=limits.frame_bytes_unidentified,
            outbox=limits.outbox_bytes,
            handshake_s=limits.handshake_s,
            unidentified=limits.connections_unidentified,
        )


def _launch_id(task_id: int, attempt: int) -> str:
    return f"{task_id}.{attempt}.{secrets.token_hex(4)}"


def _begin_epoch(store: Store, state: dict[str, msgspec.Raw]) -> Lineage:
    """Number this start, durably. No agent is contacted before."""
    piece = state.get("lineage")
    lineage = msgspec.json.decode(piece, type=Lineage) if piece else Lineage(secrets.token_hex(6))
    lineage.next()
    store.append(Change(state={"lineage": msgspec.Raw(msgspec.json.encode(lineage))}))
    store.commit()
    return lineage


def _raise_descriptor_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main(config: Config) -> None:
    """Run a master until it is stopped. Raises MusterError if it cannot start."""
    asyncio.run(Master(config).run())
