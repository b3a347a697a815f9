"""The composition root: builds the parts of a master, starts them in order and stops them in order.

Order at the start: the folder's lock and its content, the epoch (durable before any agent hears of us), the ports, the
links. At the end: links, ports, store. Tasks run on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from master.config import conf_changes
from master.config.config import Config
from master.core.attempts.launching import LaunchSettings
from master.core.core import Core
from master.core.executor import Executor
from master.core.people.run_as import RunAs, as_the_agent, as_their_owners
from master.core.tuning import Tuning
from master.desktop.news import News, news_path
from master.drivers.choice import Drivers
from master.drivers.report import ReportServer
from master.durable import failpoint
from master.durable.disk import OsDisk
from master.durable.legacy import Places
from master.durable.store import Image, Permit, Store
from master.durable.witness import witness_path
from master.edited_files.ownership import user_name
from master.engine.engine import Engine
from master.executors.agents import Agents
from master.files.owners import Owners
from master.files.service import Files
from master.helpers.acting import Acting
from master.helpers.making import acting_for
from master.loop.garbage import Garbage
from master.loop.stalls import LoopTimes, StallWatch
from master.nodes.fleet import Fleet
from master.nodes.leaving import LeavingNodes
from master.nodes.registry import NodeConfig, load_registry
from master.nodes.same_account import company_of, keys_in_reach
from master.nodes.samples import Samples
from master.people import desktop_names
from master.people.audit import AuditLog
from master.people.guesses import Guesses
from master.people.passwords import Passwords
from master.people.services import Services
from master.people.task_tokens import TaskTokens
from master.ports.hub import Hub
from master.secrets.inline_secrets import check_conf
from master.secrets.log_rights import group_of
from master.secrets.visible_secrets import check_not_visible
from master.start import account_file, lab_file, premises
from master.start.lineage import begin_epoch
from master.start.listening import listen, port_limits, raise_descriptor_limit
from master.tls.policy import Tls, listens_outside
from master.tls.watch import CertificateWatch
from master.verbs.about import About, ClosedName, TlsInfo
from master.watchers.conf_watcher import PACE, ConfWatcher
from master.watchers.folder_watcher import FolderWatcher
from master.watchers.idle_watcher import IdleWatcher
from master.watchers.own_account import OwnAccount
from master.watchers.own_folders import OwnFolders
from master.watchers.owners_nodes import OwnersNodes
from master.watchers.registry_watcher import RegistryWatcher
from master.watchers.ways_back import WaysBack
from wire.console import url
from wire.errors import ConfigError
from wire.lab import read as read_lab
from wire.message import Message
from wire.version import VERSION

if TYPE_CHECKING:
    from master.files.log_reader import LogReader
    from master.people.directory import Directory

log = logging.getLogger("muster")

AUDIT = "audit"
"""In `task_info`: the folder of the audit log."""
LEAVING = "leaving_nodes.json"
"""In `task_info`: how to get to the nodes that left the registry and still have tasks."""
DRAFTS = "drafts.json"
"""In `task_info`: which drafts of uploads lie in people's folders, so that those nobody finished are removed."""


class Master:
    """One master, from its configuration to its end."""

    engine: Engine
    fleet: Fleet
    reports: ReportServer
    acting: Acting
    directory: Directory | None = None
    services = Services()
    task_tokens = TaskTokens(b"")
    run_as: RunAs = staticmethod(as_the_agent)

    def __init__(self, config: Config, permit: Permit | None = None, stalls: StallWatch | None = None) -> None:
        self.config = config
        self._stalls = stalls
        self._garbage = Garbage(self._turns)
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
            needed=premises.needed(config),
            owners=Owners(config.files),
        )
        self.acting = Acting(self.files, self.log_folder)
        self.audit = AuditLog(config.task_info / AUDIT)
        self.passwords = Passwords()
        self.guesses = Guesses(config.limits)
        self._started_at = time.time()
        self._stopping = asyncio.Event()
        self._core: Core | None = None
        self._told_in_reach: Message | None = None
        self._conf_fault: str | None = None
        self._conf_at_start: list[str] = []
        self.lab = read_lab(str(config.path))
        self._launching = LaunchSettings(
            conda=self.conda,
            task_env=dict(config.task_env),
            grace_s=config.scheduler.grace_s,
            roots=tuple(dict.fromkeys((self.root, self.log_folder))),
            log_folder=self.log_folder,
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
            conf_fault=self._conf_fault,
            conf_at_start=self._conf_at_start,
            tls=TlsInfo.of(self.reports.tls.told(datetime.now(UTC)), self._key_in_reach()),
            console=None if config.web is None else url(config.web, config.bind),
            desktop_closed=list(map(ClosedName.of, self._closed_names())),
        )

    @cached_property
    def logs(self) -> LogReader:
        """Reads logs for all clients. It is loaded with the verbs that do, which a start does not wait for."""
        from master.files.log_reader import LogReader  # noqa: PLC0415  (see above)

        return LogReader(self.engine)

    def loop_times(self) -> LoopTimes | None:
        """How long the turns of the loop take, where that is measured."""
        return None if self._stalls is None else self._stalls.told()

    def _launch_settings(self) -> LaunchSettings:
        """Return the settings of attempts that are launched now."""
        if self._core is None:
            return self._launching
        scheduler = self._core.settings.scheduler
        return msgspec.structs.replace(self._launching, grace_s=scheduler.grace_s, log_bytes=scheduler.log_bytes)

    def _turns(self) -> int:
        return 0 if self._stalls is None else self._stalls.turns

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
        self.directory = self._directory()
        premises.prepare(self.config)
        raise_descriptor_limit()
        store = Store(
            self.config.task_info,
            OsDisk(),
            old_places=Places(self.root, self.log_folder),
            permit=self._permit,
            witness=witness_path(self.config.server_log),
        )
        image = self._take_up(store)
        self.audit.stay()
        self._begin_secrets()  # those of a master that runs there are its own
        self._say_beside_conf()
        failpoint.reach("start.loaded")
        _tell_losses(store)
        core = Core(
            tuple(node.spec() for node in nodes), _launch_id, self.config.settings, licences=self.config.licences
        )
        core.load(image.tasks, image.answered, image.next_id, image.state)
        self._know(core, nodes)
        _tell_settings(core.tuning, self.config)
        self._garbage.begin()
        lineage = begin_epoch(store, image.state)
        failpoint.reach("start.numbered")
        engine = self.engine = Engine(core, store)
        await _end_what_was_put_back(engine, store, self.task_tokens)
        tls = self._tls()
        drivers = Drivers(self.config, lineage.cluster, core, tls)
        self.reports = drivers.reports
        hub = self._hub(engine, tls, drivers.reports)
        news = hub.desktop.news = self._news(engine)
        samples = Samples(hub.sample, IdleWatcher(engine, lambda: core.settings.scheduler.idle_after_s).sample)
        ways_back = WaysBack(engine, self.config, tls, self.task_tokens)
        self.fleet = Fleet(
            engine,
            lineage,
            samples,
            make_driver=drivers.make,
            folders=self.config.shared_folders,
            watchers=(
                FolderWatcher(engine, OwnFolders(self.config.shared_folders)),
                OwnAccount(
                    engine,
                    self.config.desktop_client.user,
                    is_allowed=self.config.desktop_client.local_nodes == "allow",
                ),
                OwnersNodes(engine, lambda node: self.acting.has_agent(node)),  # noqa: PLW0108  (it is made below)
                ways_back,
            ),
            leaving=LeavingNodes(self.config.task_info / LEAVING),
            objection=lambda facts: company_of(facts, self.config.desktop_client),
            run_as_allowed=self.config.run_as_allowed,
            accounts=self.config.accounts,
            turns=self._stalls,
        )
        self.acting = acting_for(
            core, self.files, self.log_folder, config=self.config, account_of=self.run_as, ask=self.fleet.probe
        )
        executor: Executor = Agents(
            engine, self._launch_settings, self.fleet.send, ways_back.give, self.run_as, ask=self.fleet.probe
        )
        engine.executor_of = lambda _node: executor
        try:
            news.say(f"服务端已启动（版本 {VERSION}）")
            await self._serve(engine, hub, nodes)
            news.say("服务端已停止，运行中的任务继续运行")
        finally:
            self._garbage.stop()
            self.passwords.close()
            if self.directory is not None:
                self.directory.close()
            executor.close()
            self.acting.close()
            self.audit.flush()  # whatever becomes of the rest
            await engine.close()
            news.close()
            self.audit.close()

    def _take_up(self, store: Store) -> Image:
        """Load the queue, and let the lab's hooks read what becomes of it."""
        image = store.open()
        store.serve([f"hooks.{event}" for event in self.config.hooks.commands])
        return image

    def _directory(self) -> Directory | None:
        """That of the lab, if it has one. Raises ConfigError."""
        if self.config.ldap is None:
            return None
        from master.people.directory import Directory  # noqa: PLC0415  (most labs have none, and all wait for a start)

        return Directory.of(self.config)

    def _begin_secrets(self) -> None:
        self.services = _services(self.config.task_info)
        self.task_tokens = TaskTokens.begin(self.config.task_info)

    def _say_beside_conf(self) -> None:
        account_file.note(self.config.path)
        self.lab = lab_file.settle(self.config.path)
        lab_file.note_in(self.config.task_info, self.lab)

    def _news(self, engine: Engine) -> News:
        return News(engine, Path(self.news_log), group_of(self.config), hides=self.config.privacy == "own")

    @asynccontextmanager
    async def _hooks(self, engine: Engine) -> AsyncIterator[None]:
        """Run the lab's commands at events, until the body ends."""
        if not self.config.hooks.commands:
            yield
            return
        from master.watchers.hooks import Hooks  # noqa: PLC0415  (as for a directory)

        hooks = Hooks(engine, self.config.hooks.commands)
        try:
            yield
        finally:
            await hooks.close()

    def _hub(self, engine: Engine, tls: Tls, reports: ReportServer) -> Hub:
        limits, desktop = port_limits(self.config), self.config.desktop_client
        return Hub(engine, self, limits, desktop, tls=tls, reports=reports, loop=self._stalls)

    def _tls(self) -> Tls:
        """Return the certificate of the ports. It is read now, so that errors are reported before the first connection,
        if other machines can connect or the lab brought one."""
        tls = Tls.of(self.config)
        if tls.is_on and (tls.mode == "brought" or listens_outside(self.config.bind)):
            log.info("other machines must speak TLS; the authority to pin is %s", tls.fingerprint())
        return tls

    async def _serve(self, engine: Engine, hub: Hub, nodes: tuple[NodeConfig, ...]) -> None:
        servers = await listen(hub, self.config)
        failpoint.reach("start.listening")
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        self._apply(nodes)
        if self.config.desktop_client.local_nodes == "allow":
            log.warning(
                "desktop_client.local_nodes is `allow`: until there are users, who needs no password may run tasks "
                "as the master"
            )
        watch = RegistryWatcher(self.config.registry, loop, self._take_over, self.fleet.refuse)
        conf_watch = ConfWatcher(self.config.path, loop, self._conf_changed, self._refuse_conf, pace=PACE)
        certificates = CertificateWatch(self.reports.tls)
        engine.event(lambda: None)  # what loading settled is committed and planned
        engine.watch()
        log.info("serving on %s, ports %s", self.config.bind, self.config.ports.all)
        failpoint.reach("start.serving")
        if self._stalls is not None:
            self._stalls.start_over()  # nobody waited for the start
        self.fleet.failed.add_done_callback(lambda _failed: self.stop())
        loading = asyncio.ensure_future(hub.door.load_verbs())
        async with self._hooks(engine):
            await self._stopping.wait()
        log.info("stopping; tasks run on")
        loading.cancel()
        watch.close()
        conf_watch.close()
        certificates.close()
        for server in servers:
            server.close()
        hub.close()
        await self.fleet.close()
        if self.fleet.failed.done():
            self.fleet.failed.result()

    def _check(self, nodes: tuple[NodeConfig, ...]) -> None:
        premises.check(self.config, nodes, users=self._is_shared())

    def _know(self, core: Core, nodes: tuple[NodeConfig, ...]) -> None:
        """The people that there are. Raises ConfigError for what must not be beside them."""
        self._core = core
        self.run_as = self.accounts(core)
        core.keep_apart(self.run_as)
        check_not_visible(self.config, nodes, users=self._is_shared())
        for why in self._closed_names():
            log.warning("%s", why)

    def _closed_names(self) -> list[Message]:
        """Return why names of conf.json are closed to desktop clients."""
        return [] if self._core is None else desktop_names.closed(self.config.desktop_client, self._core.people)

    def _is_shared(self) -> bool:
        return self._core is not None and self._core.people.is_shared

    def _conf_changed(self, new: Config) -> None:
        """conf.json was read, at the start or because it was changed."""
        try:
            check_conf(new)
            premises.check(new, tuple(self.fleet.configs.values()), users=self._is_shared())
        except ConfigError as error:
            self._refuse_conf(str(error))
            return
        if self._conf_fault is not None:
            log.warning("%s is taken over again", new.path)
        now, later = conf_changes.changed_now(self.config, new), conf_changes.at_start(self.config, new)
        if later and later != self._conf_at_start:
            log.warning("%s was changed: %s: takes effect at the next start", new.path, ", ".join(later))
        self._conf_fault, self._conf_at_start = None, later
        self.config = conf_changes.taken_over(self.config, new)
        if now:
            tuning = self.engine.core.tuning
            self.engine.event(lambda: tuning.take(self.config.settings))
            log.info("%s was changed: it says another value of %s", new.path, ", ".join(now))
            _tell_outranked(tuning, self.config, now)

    def _refuse_conf(self, fault: str) -> None:
        """conf.json is broken: the last good values stay in force."""
        if fault != self._conf_fault:
            log.error("conf.json is not taken over, and its last good values hold: %s", fault)
            self._conf_fault = fault

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
        before, self._told_in_reach = self._told_in_reach, self._key_in_reach()
        if self._told_in_reach is not None and self._told_in_reach != before:
            log.warning("%s", self._told_in_reach)

    def _key_in_reach(self) -> Message | None:
        """That tasks of some nodes can read the key of the ports' certificate."""
        if not self.reports.tls.is_on or not listens_outside(self.config.bind):
            return None  # where nobody comes from elsewhere, nobody knows the master by its key
        return keys_in_reach(self.fleet.configs.values(), self.config.desktop_client, self._as_owners())

    def _as_owners(self) -> frozenset[str]:
        """The nodes where users' tasks run as their owners: only once there are users. After a start the notes tell
        before the agents do."""
        core = self._core
        if core is None or not core.people.is_shared:
            return frozenset()
        return frozenset(
            name
            for name, node in core.inventory.nodes.items()
            if (node.facts is not None and node.facts.can_run_as)
            or (node.facts is None and name in core.notes and core.notes[name].as_owners)
        )


def _tell_settings(tuning: Tuning, config: Config) -> None:
    """Log the settings that were set at run time and differ from conf.json, and those that do not apply, and why."""
    _tell_outranked(tuning, config, list(tuning.said))
    for name, why in tuning.refused.items():
        log.warning("%s was set to what this version does not take, so the default holds: %s", name, why)


def _tell_outranked(tuning: Tuning, config: Config, names: list[str]) -> None:
    """Which of these settings are not as conf.json has them, because somebody set them at run time."""
    for name in names:
        said = tuning.said.get(name)
        if said is not None and name in config.said and said.value != tuning.default(name):
            log.warning(
                "%s is %s, which %s set with `muster set`; what %s says does not hold (`muster set --default %s` lets "
                "it hold again)",
                *(name, said.value, said.by, config.path, name),
            )


def _services(task_info: Path) -> Services:
    """Without a place for their secrets the queue runs on, and the programs learn that the master does not know
    them."""
    try:
        return Services.begin(task_info)
    except OSError as error:
        log.warning("the programs around the master cannot connect: %s", error)
        return Services()


def _tell_losses(store: Store) -> None:
    for loss in store.damage:
        log.warning("not seen by anybody yet: %s", loss.what)


def _launch_id(task_id: int, attempt: int) -> str:
    return f"{task_id}.{attempt}.{secrets.token_hex(4)}"


async def _end_what_was_put_back(engine: Engine, store: Store, task_tokens: TaskTokens) -> None:
    """A backup, and a folder of which records are lost, holds tokens, log-ins and links that were ended since, and
    attempts that are over. Raises StoreUnavailableError."""
    if not store.access_is_to_end:
        return
    what = "is older than what was written there" if store.is_older_copy else "was damaged"
    task_tokens.renew()
    engine.event(engine.core.end_access)
    await engine.settled()
    if store.is_older_copy:
        store.take_as_it_is()
    told = "%s %s: all log-ins, tokens and links have ended, for some may have been revoked since; people log in again"
    log.warning(told, store.folder, what)


def main(config: Config, permit: Permit) -> None:
    """Run a master until it is stopped. Raises MusterError if it cannot start."""
    stalls, loop = StallWatch.loop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        try:
            runner.run(Master(config, permit, stalls).run())
        finally:
            stalls.stop()
