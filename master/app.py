"""The composition root: builds the parts of a master, starts them in order and stops them in order.

Order at the start: the folder's lock and its content, the epoch (durable before any agent hears of us), the ports, the
links. At the end: links, ports, store. Tasks run on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from master.config.config import Config
from master.core.attempts.launching import LaunchSettings
from master.core.core import Core
from master.core.executor import Executor
from master.core.people.run_as import RunAs, as_their_owners
from master.desktop.news import News, news_path
from master.drivers.choice import Drivers
from master.drivers.report import ReportServer
from master.durable import failpoint
from master.durable.store import Permit, Store
from master.edited_files.ownership import user_name
from master.engine.engine import Engine
from master.executors.agents import Agents
from master.files.owners import Owners
from master.files.service import Files
from master.helpers.acting import Acting
from master.helpers.making import acting_for
from master.loop.garbage import Garbage
from master.loop.stalls import StallWatch
from master.nodes.fleet import Fleet
from master.nodes.leaving import LeavingNodes
from master.nodes.link_making import LinkMaker, LinkWatcher
from master.nodes.registry import NodeConfig, load_registry
from master.nodes.same_account import company_of
from master.nodes.samples import Samples
from master.people.audit import AuditLog
from master.people.guesses import Guesses
from master.people.passwords import Passwords
from master.people.services import Services
from master.people.task_tokens import TaskTokens
from master.ports.port_server import PortServer
from master.secrets.inline_secrets import check_conf
from master.secrets.log_rights import group_of
from master.secrets.visible_secrets import check_not_visible
from master.start import account_file, lab_file, loading, premises
from master.start.followed_files import FollowedFiles
from master.start.lineage import Lineage, begin_epoch
from master.start.listening import listen, open_files_left, raise_descriptor_limit, tell_connections
from master.start.served import Served
from master.tls.policy import Tls, listens_outside
from master.tls.watch import CertificateWatch
from master.watchers.consumers import Consumers
from master.watchers.folder_watcher import FolderWatcher
from master.watchers.idle_watcher import IdleWatcher
from master.watchers.own_account import OwnAccount
from master.watchers.own_folders import OwnFolders
from master.watchers.owners_nodes import OwnersNodes
from master.watchers.ways_back import WaysBack
from wire.lab import Lab
from wire.version import VERSION

if TYPE_CHECKING:
    from master.people.directory import Directory

log = logging.getLogger("muster")

AUDIT = "audit"
"""In `task_info`: the folder of the audit log."""
LEAVING = "leaving_nodes.json"
"""In `task_info`: how to get to the nodes that left the registry and still have tasks."""
DRAFTS = "drafts.json"
"""In `task_info`: which drafts of uploads lie in people's folders, so that those nobody finished are removed."""


class _Loaded(msgspec.Struct, frozen=True):
    """The queue and what belongs to it, before anything of the master runs."""

    nodes: tuple[NodeConfig, ...]
    store: Store
    core: Core
    lineage: Lineage
    directory: Directory | None
    services: Services
    task_tokens: TaskTokens
    lab: Lab
    run_as: RunAs


class Master:
    """One master, from its configuration to its end. `engine`, `fleet` and `served` are there once it is built."""

    engine: Engine
    fleet: Fleet
    served: Served

    def __init__(self, config: Config, permit: Permit | None = None, stalls: StallWatch | None = None) -> None:
        self.config = config
        self._permit = permit or Permit()
        self._stalls = stalls
        self._consumers = Consumers(loading.consumers_of(config))
        self._garbage = Garbage(self._turns)
        self._audit = AuditLog(config.task_info / AUDIT)
        self._started_at = time.time()
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """End soon; tasks run on."""
        self._stopping.set()

    def accounts(self, core: Core) -> RunAs:
        """Which account the owner of a task has on the nodes."""
        return as_their_owners(core.people, user_name(os.geteuid()))

    async def run(self) -> None:
        """Start, serve until `stop` or a signal, end. Raises MusterError if it cannot start."""
        loaded = self._load()
        engine = self.engine = Engine(loaded.core, loaded.store)
        await loading.end_what_was_put_back(engine, loaded.store, loaded.task_tokens)
        served, port_server, executor = self._build(loaded, engine)
        news = port_server.desktop.news = News(
            engine, Path(served.news_log), group_of(self.config), hides=self.config.privacy == "own"
        )
        try:
            news.say(f"服务端已启动（版本 {VERSION}）")
            await self._serve(served, port_server, loaded.nodes)
            news.say("服务端已停止，运行中的任务继续运行")
        finally:
            self._garbage.stop()
            served.passwords.close()
            if served.directory is not None:
                served.directory.close()
            executor.close()
            served.acting.close()
            self._audit.flush()  # whatever becomes of the rest
            await engine.close()
            news.close()
            self._audit.close()

    def _load(self) -> _Loaded:
        """Check what a start needs, take up the queue, and begin the epoch. Raises MusterError."""
        config = self.config
        nodes = load_registry(config.registry)
        check_conf(config)
        premises.check(config, nodes, users=False)
        directory = _directory(config)
        premises.prepare(config)
        raise_descriptor_limit()
        store, image = loading.open_store(config, self._permit, self._consumers.names)
        self._audit.stay()
        services, task_tokens = _secrets(config)  # those of a master that runs there are its own
        lab = _identify_beside_conf(config)
        failpoint.reach("start.loaded")
        loading.tell_losses(store)
        core = loading.core_of(config, nodes, image)
        run_as = self.accounts(core)
        core.keep_apart(run_as)
        check_not_visible(config, nodes, users=core.people.is_shared)
        loading.tell_settings(core.tuning, config)
        self._garbage.begin()
        lineage = begin_epoch(store, image.state)
        failpoint.reach("start.numbered")
        return _Loaded(nodes, store, core, lineage, directory, services, task_tokens, lab, run_as)

    def _build(self, loaded: _Loaded, engine: Engine) -> tuple[Served, PortServer, Executor]:
        """Build the parts around the queue, from the nodes to the ports. Nothing of them runs yet."""
        config, core, run_as = self.config, loaded.core, loaded.run_as
        most = open_files_left()
        tell_connections(core.tuning, most)
        tls, files = _tls(config), _files(config, core)
        drivers = Drivers(config, loaded.lineage.cluster, core, tls)
        samples = Samples(IdleWatcher(engine, lambda: core.settings.scheduler.idle_after_s).sample)
        ways_back = WaysBack(engine, config, tls, loaded.task_tokens)
        acting: Acting
        owners = OwnersNodes(engine, lambda node: acting.has_agent(node))  # noqa: PLW0108  (it is made below)
        links = self._links(engine, loaded.lineage, samples, drivers, (owners, ways_back))
        fleet = self.fleet = Fleet(
            engine,
            links,
            leaving=LeavingNodes(config.task_info / LEAVING),
            run_as_allowed=config.run_as_allowed,
            accounts=config.accounts,
        )
        acting = acting_for(core, files, str(config.train_logs), config=config, account_of=run_as, ask=fleet.probe)
        executor: Executor = Agents(
            engine, lambda: launch_settings(config, core), fleet.send, ways_back.give, run_as, ask=fleet.probe
        )
        engine.executor_of = lambda _node: executor
        served = self.served = self._served(loaded, engine, drivers.reports, files, acting)
        port_server = PortServer(
            *(engine, served, most, config.desktop_client),
            tls=tls,
            reports=drivers.reports,
            loop=self._stalls,
        )
        samples.listen(port_server.sample)
        return served, port_server, executor

    def _links(
        self, engine: Engine, lineage: Lineage, samples: Samples, drivers: Drivers, watchers: tuple[LinkWatcher, ...]
    ) -> LinkMaker:
        """Build what makes links to nodes. `watchers`: those that the caller uses as well."""
        config = self.config
        is_allowed = config.desktop_client.local_nodes == "allow"
        return LinkMaker(
            engine,
            lineage,
            samples,
            make_driver=drivers.make,
            folders=config.shared_folders,
            watchers=(
                FolderWatcher(engine, OwnFolders(config.shared_folders)),
                OwnAccount(engine, config.desktop_client.user, is_allowed=is_allowed),
                *watchers,
            ),
            objection=lambda facts: company_of(facts, config.desktop_client),
            turns=self._stalls,
        )

    def _served(self, loaded: _Loaded, engine: Engine, reports: ReportServer, files: Files, acting: Acting) -> Served:
        """Build the parts that verbs use."""
        config = self.config
        return Served(
            followed=FollowedFiles(config, engine, self.fleet, reports.tls),
            engine=engine,
            fleet=self.fleet,
            reports=reports,
            files=files,
            acting=acting,
            audit=self._audit,
            passwords=Passwords(),
            guesses=Guesses(lambda: engine.core.settings.limits),
            directory=loaded.directory,
            services=loaded.services,
            task_tokens=loaded.task_tokens,
            run_as=loaded.run_as,
            lab=loaded.lab,
            news_log=str(news_path(config.server_log)),
            started_at=self._started_at,
            stop=self.stop,
            stalls=self._stalls,
            failing_hooks=self._consumers.troubles,
        )

    async def _serve(self, served: Served, port_server: PortServer, nodes: tuple[NodeConfig, ...]) -> None:
        config, engine, fleet, followed = self.config, served.engine, served.fleet, served.followed
        servers = await listen(port_server, config)
        failpoint.reach("start.listening")
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        for why in followed.closed_names():
            log.warning("%s", why)
        followed.apply(nodes)
        if config.desktop_client.local_nodes == "allow":
            log.warning(
                "desktop_client.local_nodes is `allow`: until there are users, who needs no password may run tasks "
                "as the master"
            )
        stop_following = followed.watch(loop)
        certificates = CertificateWatch(served.reports.tls)
        engine.event(lambda: None)  # what loading settled is committed and planned
        engine.watch()
        log.info("serving on %s, ports %s", config.bind, config.ports.all)
        failpoint.reach("start.serving")
        if self._stalls is not None:
            self._stalls.start_over()  # nobody waited for the start
        fleet.failed.add_done_callback(lambda _failed: self.stop())
        loading_verbs = asyncio.ensure_future(port_server.dispatcher.load_verbs())
        async with self._consumers.running(engine):
            await self._stopping.wait()
        log.info("stopping; tasks run on")
        loading_verbs.cancel()
        stop_following()
        certificates.close()
        for server in servers:
            server.close()
        port_server.close()
        await fleet.close()
        if fleet.failed.done():
            fleet.failed.result()

    def _turns(self) -> int:
        return 0 if self._stalls is None else self._stalls.turns


def _directory(config: Config) -> Directory | None:
    """That of the lab, if it has one. Raises ConfigError."""
    if config.ldap is None:
        return None
    from master.people.directory import Directory  # noqa: PLC0415  (most labs have none, and all wait for a start)

    return Directory.of(config)


def _secrets(config: Config) -> tuple[Services, TaskTokens]:
    """Without a place for their secrets the queue runs on, and the programs learn that the master does not know
    them."""
    try:
        services = Services.begin(config.task_info)
    except OSError as error:
        log.warning("the programs around the master cannot connect: %s", error)
        services = Services()
    return services, TaskTokens.begin(config.task_info)


def _identify_beside_conf(config: Config) -> Lab:
    """Write beside conf.json which account and which lab this is."""
    account_file.note(config.path)
    lab = lab_file.settle(config.path)
    lab_file.note_in(config.task_info, lab)
    return lab


def _tls(config: Config) -> Tls:
    """Return the certificate of the ports. It is read now, so that errors are reported before the first connection,
    if other machines can connect or the lab brought one."""
    tls = Tls.of(config)
    if tls.is_on and (tls.mode == "brought" or listens_outside(config.bind)):
        log.info("other machines must speak TLS; the authority to pin is %s", tls.fingerprint())
    return tls


def _files(config: Config, core: Core) -> Files:
    return Files(
        config.root,
        config.visible_folders,
        book=config.task_info / DRAFTS,
        upload_bytes=lambda: core.settings.limits.upload_bytes,
        needed=premises.needed(config),
        owners=Owners(config.files),
    )


def launch_settings(config: Config, core: Core) -> LaunchSettings:
    """Return the settings of attempts that are launched now."""
    scheduler, root, logs = core.settings.scheduler, str(config.root), str(config.train_logs)
    return LaunchSettings(
        conda=str(config.conda),
        task_env=dict(config.task_env),
        grace_s=scheduler.grace_s,
        roots=tuple(dict.fromkeys((root, logs))),
        log_folder=logs,
        log_bytes=scheduler.log_bytes,
        run_as_allowed=config.run_as_allowed,
    )


def main(config: Config, permit: Permit) -> None:
    """Run a master until it is stopped. Raises MusterError if it cannot start."""
    stalls, loop = StallWatch.loop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        try:
            runner.run(Master(config, permit, stalls).run())
        finally:
            stalls.stop()
