"""The composition root: builds the parts of a master, starts them in order and stops them in order.

Order at the start: the folder's lock and its content, the epoch (durable before any agent hears of us), the ports, the
links. At the end: links, ports, store. Tasks run on.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import resource
import secrets
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from master import failpoint
from master.config import Config, make_folders
from master.core.core import Core
from master.core.launching import LaunchSettings
from master.core.run_as import RunAs, as_the_agent, as_their_owners
from master.core.task import Change
from master.desktop.news import News, news_path
from master.drivers.choice import Drivers
from master.drivers.report import ReportServer
from master.durable.disk import OsDisk
from master.durable.legacy import Places
from master.durable.salvage import START_OVER
from master.durable.store import Permit, Store
from master.durable.witness import witness_path
from master.engine import Engine
from master.executors.agents import Agents
from master.executors.executor import Executor
from master.files.beneath import overlapping
from master.files.log_reader import LogReader
from master.files.needed import Needed
from master.files.owners import Owners
from master.files.service import Files
from master.inline_secrets import check_conf, check_registry
from master.log_rights import give_folder_to_group, group_of
from master.nodes.fleet import Fleet
from master.nodes.leaving import LeavingNodes
from master.nodes.registry import NodeConfig, load_registry
from master.nodes.same_account import check_company, company_of, keys_in_reach
from master.ownership import close_to_others, user_name
from master.people.audit import AuditLog
from master.people.directory import Directory
from master.people.guesses import Guesses
from master.people.passwords import Passwords
from master.people.services import Services
from master.ports.arrival import Speaks
from master.ports.hub import Hub, PortLimits
from master.ports.places import PlaceLimits
from master.privacy import check_private
from master.tls.entrance import Listener
from master.tls.policy import Tls, listens_outside
from master.tls.watch import CertificateWatch
from master.verbs.about import About, TlsInfo
from master.visible_secrets import check_not_visible
from master.watchers.folder_watcher import FolderWatcher
from master.watchers.idle_watcher import IdleWatcher
from master.watchers.own_account import OwnAccount
from master.watchers.own_folders import OwnFolders
from master.watchers.registry_watcher import RegistryWatcher
from wire import agent as wire
from wire.errors import ConfigError
from wire.message import Message
from wire.version import VERSION

log = logging.getLogger("muster")

LINEAGE_KEPT = 64
EPOCHS_SKIPPED = 10_000
"""More starts than can have been in what was lost of a journal."""
DESCRIPTORS_KEPT = 512
"""So many open files, or half of all where there are few, are for the journal, logs, uploads and nodes."""
AUDIT = "audit"
"""In `task_info`: the folder of the audit log."""
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

    def start_over(self) -> None:
        """Begin an epoch after some that nobody knows any more: far beyond them, and without ancestors, so that agents
        which obeyed one of them obey this."""
        last = self.epochs[-1][0] if self.epochs else 0
        self.epochs = [(last + EPOCHS_SKIPPED, secrets.token_hex(8))]

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
    reports: ReportServer
    logs: LogReader
    directory: Directory | None = None
    services = Services()
    run_as: RunAs = staticmethod(as_the_agent)

    def __init__(self, config: Config, permit: Permit | None = None) -> None:
        self.config = config
        self._permit = permit or Permit()
        self.root = str(config.root)
        self.conda = str(config.conda)
        self.log_folder = str(config.train_logs)
        self.server_log = str(config.server_log)
        self.news_log = str(news_path(config.server_log))
        self.files = Files(
            config.root,
            config.visible_folders,
            book=config.task_info / DRAFTS,
            upload_bytes=config.limits.upload_bytes,
            needed=_needed(config),
            owners=Owners(config.files),
        )
        self.audit = AuditLog(config.task_info / AUDIT)
        self.passwords = Passwords()
        self.guesses = Guesses(config.limits)
        self._started_at = time.time()
        self._stopping = asyncio.Event()
        self._core: Core | None = None
        self._in_reach: Message | None = None
        self._settings = LaunchSettings(
            conda=self.conda,
            task_env=dict(config.task_env),
            grace_s=config.scheduler.grace_s,
            roots=tuple(dict.fromkeys((self.root, self.log_folder))),
            log_folder=self.log_folder,
            log_bytes=config.scheduler.log_bytes,
            run_as_allowed=config.run_as_allowed,
        )

    # -- what verbs use ---------------------------------------------------------------------------------------

    def about(self) -> About:
        """The part of `server.info` that is known here."""
        config, desktop = self.config, self.config.desktop_client.ports
        return About(
            version=VERSION,
            pid=os.getpid(),
            started_at=self._started_at,
            conf=str(config.path),
            task_info=str(config.task_info),
            root=self.root,
            visible_folders=[str(config.root / name) for name in config.visible_folders],
            bind=config.bind,
            ports=config.ports.all,
            desktop_ports=None if desktop is None else desktop.all,
            registry_fault=self.fleet.registry_fault,
            tls=TlsInfo.of(self.reports.tls.told(datetime.now(UTC)), self._in_reach),
        )

    def stop(self) -> None:
        """End soon; tasks run on."""
        self._stopping.set()

    def accounts(self, core: Core) -> RunAs:
        """Which account the owner of a task has on the nodes."""
        return as_their_owners(core.people, user_name(os.geteuid()))

    # -- life -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Start, serve until `stop` or a signal, end. Raises MusterError if it cannot start."""
        nodes = load_registry(self.config.registry)
        check_conf(self.config)
        self._check(nodes)
        self.directory = Directory.of(self.config)
        make_folders(self.config)
        give_folder_to_group(self.config)
        check_private(self.config)
        self._close_task_info()
        _raise_descriptor_limit()
        store = Store(
            self.config.task_info,
            OsDisk(),
            old_places=Places(self.root, self.log_folder),
            permit=self._permit,
            witness=witness_path(self.config.server_log),
        )
        image = store.open()
        self.services = _services(self.config.task_info)  # those of a master that runs there are its own
        failpoint.reach("start.loaded")
        for loss in store.damage:
            log.warning("not seen by anybody yet: %s", loss.what)
        core = Core(tuple(node.spec() for node in nodes), _launch_id, waiting_limit=self.config.limits.waiting_tasks)
        core.load(image.tasks, image.answered, image.next_id, image.state)
        self._know(core, nodes)
        # What was loaded stays, and is no garbage: looking through it, now or at each collection, would only cost.
        gc.freeze()
        gc.enable()
        lineage = _begin_epoch(store, image.state)
        failpoint.reach("start.numbered")
        engine = Engine(core, store, keep_history=self.config.scheduler.keep_history)
        await _end_what_was_put_back(engine, store)
        tls = self._tls()
        drivers = Drivers(self.config, lineage.cluster, core, tls)
        self.reports = drivers.reports
        self.logs = LogReader(engine)
        hub = Hub(engine, self, self._limits(), self.config.desktop_client, tls=tls, reports=drivers.reports)
        news = News(engine, Path(self.news_log), group_of(self.config), hides=self.config.privacy == "own")
        hub.desktop.news = news
        idle_after_s = self.config.scheduler.idle_after_s
        samples = IdleWatcher(engine, hub, idle_after_s) if idle_after_s else hub
        self.fleet = Fleet(
            engine,
            lineage,
            samples,
            make_driver=drivers.make,
            folders=self.config.shared_folders,
            watchers=(
                FolderWatcher(engine, OwnFolders(self.config.shared_folders)),
                OwnAccount(engine, self.config.desktop_client.user),
            ),
            leaving=LeavingNodes(self.config.task_info / LEAVING),
            objection=lambda facts: company_of(facts, self.config.desktop_client),
            run_as_allowed=self.config.run_as_allowed,
        )
        executor: Executor = Agents(engine, self._settings, self.fleet.send, self.run_as)
        engine.perform = executor.perform
        try:
            news.say(f"服务端已启动（版本 {VERSION}）")
            await self._serve(engine, hub, nodes)
            news.say("服务端已停止，运行中的任务继续运行")
        finally:
            self.passwords.close()
            if self.directory is not None:
                self.directory.close()
            executor.close()
            self.audit.flush()  # whatever becomes of the rest
            await engine.close()
            news.close()
            self.audit.close()

    def _tls(self) -> Tls:
        """Where others can come in, or a certificate was brought, one that cannot be used should be told before anybody
        comes."""
        tls = Tls.of(self.config)
        if tls.is_on and (tls.mode == "brought" or listens_outside(self.config.bind)):
            log.info("other machines must speak TLS; the authority to pin is %s", tls.fingerprint())
        return tls

    async def _serve(self, engine: Engine, hub: Hub, nodes: tuple[NodeConfig, ...]) -> None:
        servers = await self._listen(hub)
        failpoint.reach("start.listening")
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        self._apply(nodes)
        if self.config.desktop_client.local_nodes == "allow":
            log.warning("desktop_client.local_nodes is `allow`: who needs no password may run tasks as the master")
        watch = RegistryWatcher(self.config.registry, loop, self._take_over, self.fleet.refuse)
        certificates = CertificateWatch(self.reports.tls)
        engine.event(lambda: None)  # what loading settled is committed and planned
        engine.watch()
        log.info("serving on %s, ports %s", self.config.bind, self.config.ports.all)
        failpoint.reach("start.serving")
        self.fleet.failed.add_done_callback(lambda _failed: self.stop())
        await self._stopping.wait()
        log.info("stopping; tasks run on")
        watch.close()
        certificates.close()
        for server in servers:
            server.close()
        hub.close()
        await self.fleet.close()
        if self.fleet.failed.done():
            self.fleet.failed.result()

    def _check(self, nodes: tuple[NodeConfig, ...]) -> None:
        """Raises ConfigError for a registry that is right in itself and must not be used here."""
        check_company(nodes, self.config.desktop_client, self.config.path)
        check_not_visible(self.config, nodes, users=self._is_shared())
        _check_owned(self.config)
        check_registry(nodes, self.config.registry)

    def _know(self, core: Core, nodes: tuple[NodeConfig, ...]) -> None:
        """The people that there are. Raises ConfigError for what must not be beside them."""
        self._core = core
        self.run_as = self.accounts(core)
        check_not_visible(self.config, nodes, users=self._is_shared())

    def _is_shared(self) -> bool:
        return self._core is not None and self._core.people.is_shared

    def _close_task_info(self) -> None:
        """Earlier versions left it open to all."""
        folder, others = self.config.task_info, (self.config.path, self.config.root, self.config.train_logs)
        if any(path.is_relative_to(folder) for path in others):
            log.warning("%s holds other things than the queues: everybody may read what he could before", folder)
            return
        for failed in close_to_others(folder):
            log.warning("it stays open to others: %s", failed)

    def _take_over(self, nodes: tuple[NodeConfig, ...]) -> None:
        """The registry was changed by hand."""
        try:
            self._check(nodes)
        except ConfigError as error:
            self.fleet.refuse(str(error))
        else:
            self._apply(nodes)

    def _apply(self, nodes: tuple[NodeConfig, ...]) -> None:
        self.fleet.apply(nodes)
        # Where nobody comes from elsewhere, nobody knows the master by its key.
        is_shown = self.reports.tls.is_on and listens_outside(self.config.bind)
        before = self._in_reach
        self._in_reach = keys_in_reach(nodes, self.config.desktop_client) if is_shown else None
        if self._in_reach is not None and self._in_reach != before:
            log.warning("%s", self._in_reach)

    async def _listen(self, hub: Hub) -> list[Listener]:
        servers: list[Listener] = []
        # Those that answer come last: who got an answer finds the push ports open, too.
        for section, name, port, speaks in sorted(self._doors(), key=lambda door: door[1] == "data_port"):
            try:
                servers.append(await hub.listen(name, self.config.bind, port, self.config.ports.listen, speaks))
            except OSError as error:
                for server in servers:
                    server.close()
                # The errors of name look-ups are not among the system's: theirs are negative and bring their own text.
                why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
                raise ConfigError(
                    f"{self.config.path}: {section}.{name}: cannot listen on {self.config.bind}:{port}: {why}. "
                    f"{_LISTEN_CURE.get(error.errno or 0, 'Is `bind` an address of this machine?')}"
                ) from None
        return servers

    def _doors(self) -> Iterator[tuple[str, str, int, Speaks]]:
        """Section and key of conf.json, port, and what is spoken there."""
        own = self.config.desktop_client.ports
        for name, port in self.config.ports.all.items():
            yield "socket_info", name, port, "both" if own is None else "ours"
        for name, port in own.all.items() if own is not None else ():
            yield "desktop_client.ports", name, port, "desktop"

    def _limits(self) -> PortLimits:
        limits = self.config.limits
        places = PlaceLimits(
            most=_most_connections(limits.connections),
            silent=limits.connections_unidentified,
            known=limits.connections_per_address,
            held=limits.held_bytes,
        )
        return PortLimits(
            frame=limits.frame_bytes,
            frame_unidentified=limits.frame_bytes_unidentified,
            outbox=limits.outbox_bytes,
            handshake_s=limits.handshake_s,
            places=places,
        )


def _check_owned(config: Config) -> None:
    """What belongs to somebody must have one name only. Raises ConfigError."""
    found = overlapping(config.root, config.visible_folders) if config.files else None
    if found is not None:
        raise ConfigError(
            f"{config.path}: files: {config.root / found[0]} really is, or lies in, {config.root / found[1]}, so what "
            "`files` says of one could be got round by the other: name one of them in visible_folders"
        )


def _needed(config: Config) -> tuple[Needed, ...]:
    """What nobody may take away through the file verbs, should it lie where people may delete."""
    environments = Message("holds_environments")
    return (
        Needed(str(config.train_logs), Message("holds_logs")),
        Needed(f"{config.conda}/envs", environments),
        Needed(str(config.conda), environments),
        Needed(str(config.task_info), Message("holds_queues")),
        *(
            Needed(str(path), Message("holds_own_files"))
            for path in (config.path, config.registry, config.psw, config.server_log)
        ),
    )


def _services(task_info: Path) -> Services:
    """Without a place for their secrets the queue goes on, and they are told that they are not known."""
    try:
        return Services.begin(task_info)
    except OSError as error:
        log.warning("the programs around the master cannot come in: %s", error)
        return Services()


def _launch_id(task_id: int, attempt: int) -> str:
    return f"{task_id}.{attempt}.{secrets.token_hex(4)}"


async def _end_what_was_put_back(engine: Engine, store: Store) -> None:
    """A backup holds tokens, log-ins and links that were ended since it was taken. Raises StoreUnavailableError."""
    if not store.is_older_copy:
        return
    engine.event(engine.core.people.end_all)
    await engine.settled()
    store.take_as_it_is()
    log.warning(
        "%s was put back from a backup: all log-ins, tokens and links have ended, for some may have been revoked "
        "since; people log in again",
        store.folder,
    )


def _begin_epoch(store: Store, state: dict[str, msgspec.Raw]) -> Lineage:
    """Number this start, durably. No agent is contacted before."""
    piece = state.get("lineage")
    lineage = msgspec.json.decode(piece, type=Lineage) if piece else Lineage(secrets.token_hex(6))
    pieces: dict[str, msgspec.Raw] = {}
    is_over = bytes(state.get(START_OVER, b"null")) == b"true"
    if is_over:
        lineage.start_over()
        pieces[START_OVER] = msgspec.Raw(b"null")
    else:
        lineage.next()
    pieces["lineage"] = msgspec.Raw(msgspec.json.encode(lineage))
    store.append(Change(state=pieces))
    store.commit()
    # Under another cluster's name agents would be left behind, with what runs there; so would they by an epoch that is
    # begun a second time.
    store.anchor(pieces, anew=is_over)
    for note in store.notes:
        log.info("%s", note)
    return lineage


def _most_connections(wanted: int) -> int:
    """As many connections as there may be, so that enough descriptors are left for the master's own files and links."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = descriptors - min(DESCRIPTORS_KEPT, descriptors // 2)
    if most >= wanted:
        return wanted
    log.warning(
        "of limits.connections, %d, only %d are in force: the process may have %d files open (`ulimit -Hn`, or "
        "LimitNOFILE= in the unit)",
        wanted,
        most,
        descriptors,
    )
    return most


def _raise_descriptor_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main(config: Config, permit: Permit) -> None:
    """Run a master until it is stopped. Raises MusterError if it cannot start."""
    asyncio.run(Master(config, permit).run())
