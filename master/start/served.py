"""The parts of a running master that verbs use (`master.verbs.surroundings`), together once all of them are there."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from master.config.config import Config
from master.core.people.run_as import RunAs
from master.drivers.report import ReportServer
from master.engine.engine import Engine
from master.files.service import Files
from master.helpers.acting import Acting
from master.loop.stalls import LoopTimes, StallWatch
from master.nodes.fleet import Fleet
from master.people.audit import AuditLog
from master.people.guesses import Guesses
from master.people.passwords import Passwords
from master.people.services import Services
from master.people.task_tokens import TaskTokens
from master.start.followed_files import FollowedFiles
from master.verbs.about import About, ClosedName, TlsInfo
from wire.console import url
from wire.lab import Lab
from wire.message import Message
from wire.version import VERSION

if TYPE_CHECKING:
    from master.files.log_reader import LogReader
    from master.people.directory import Directory


class Served(msgspec.Struct, frozen=True, dict=True):
    """`started_at`: seconds since the epoch; `stop` ends the master soon, and tasks run on; `stalls`: the measurements
    of the loop, None if nobody measures; `failing_hooks`: what is wrong with hooks."""

    followed: FollowedFiles
    engine: Engine
    fleet: Fleet
    reports: ReportServer
    files: Files
    acting: Acting
    audit: AuditLog
    passwords: Passwords
    guesses: Guesses
    directory: Directory | None
    services: Services
    task_tokens: TaskTokens
    run_as: RunAs
    lab: Lab
    news_log: str
    started_at: float
    stop: Callable[[], None]
    stalls: StallWatch | None
    failing_hooks: Callable[[], list[Message]]

    @property
    def config(self) -> Config:
        """conf.json, with the changes that took effect."""
        return self.followed.config

    @cached_property
    def root(self) -> str:
        """The folder with all visible folders. A running master keeps its folders (`conf_changes`)."""
        return str(self.config.root)

    @cached_property
    def conda(self) -> str:
        """The lab's conda."""
        return str(self.config.conda)

    @cached_property
    def log_folder(self) -> str:
        """The folder of the tasks' logs."""
        return str(self.config.train_logs)

    @cached_property
    def server_log(self) -> str:
        """The master's own log."""
        return str(self.config.server_log)

    @cached_property
    def logs(self) -> LogReader:
        """Reads logs for all clients. It is loaded with the verbs that do, which a start does not wait for."""
        from master.files.log_reader import LogReader  # noqa: PLC0415  (see above)

        return LogReader(self.engine)

    def loop_times(self) -> LoopTimes | None:
        """How long the turns of the loop take, where that is measured."""
        return None if self.stalls is None else self.stalls.told()

    def about(self) -> About:
        """The part of `server.info` that is known here."""
        config, desktop = self.config, self.config.desktop_client.ports
        return About(
            version=VERSION,
            pid=os.getpid(),
            started_at=self.started_at,
            conf=str(config.path),
            task_info=str(config.task_info),
            root=self.root,
            visible_folders=[str(config.root / name) for name in config.visible_folders],
            bind=config.bind,
            ports=config.ports.all,
            desktop_ports=None if desktop is None else desktop.all,
            registry_fault=_sentence(self.fleet.registry_fault),
            conf_fault=_sentence(self.followed.conf_fault),
            conf_at_start=self.followed.conf_at_start,
            tls=TlsInfo.of(self.reports.tls.told(datetime.now(UTC)), self.followed.key_in_reach()),
            console=None if config.web is None else url(config.web, config.bind),
            desktop_closed=list(map(ClosedName.of, self.followed.closed_names())),
        )


def _sentence(fault: Message | None) -> str | None:
    return None if fault is None else str(fault)
