"""Follows conf.json and the registry of a running master: takes over good changes; broken files change nothing."""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop
from collections.abc import Callable

from master.config import conf_changes
from master.config.config import Config
from master.engine.engine import Engine
from master.nodes.fleet import Fleet
from master.nodes.registry import NodeConfig
from master.nodes.same_account import keys_in_reach
from master.people import desktop_names
from master.secrets.inline_secrets import check_conf
from master.start import premises
from master.start.loading import tell_outranked
from master.tls.policy import Tls, listens_outside
from master.watchers.conf_watcher import PACE, ConfWatcher
from master.watchers.registry_watcher import RegistryWatcher
from wire.errors import ConfigError
from wire.message import Message

log = logging.getLogger("muster")


class FollowedFiles:
    """`config`: conf.json, with the changes that took effect. `conf_fault`: what is wrong with the file now; None:
    nothing. `conf_at_start`: the changed keys that take effect at the next start."""

    def __init__(self, config: Config, engine: Engine, fleet: Fleet, tls: Tls) -> None:
        self.config = config
        self.conf_fault: Message | None = None
        self.conf_at_start: list[str] = []
        self._engine = engine
        self._fleet = fleet
        self._tls = tls
        self._told_in_reach: Message | None = None

    def watch(self, loop: AbstractEventLoop) -> Callable[[], None]:
        """Follow both files until the returned function is called."""
        registry = RegistryWatcher(self.config.registry, loop, self.registry_changed, self._fleet.refuse)
        conf = ConfWatcher(self.config.path, loop, self.conf_changed, self.refuse_conf, pace=PACE)

        def close() -> None:
            registry.close()
            conf.close()

        return close

    def closed_names(self) -> list[Message]:
        """Return why names of conf.json are closed to desktop clients."""
        return desktop_names.closed(self.config.desktop_client, self._engine.core.people)

    def conf_changed(self, new: Config) -> None:
        """conf.json was read, at the start or because it was changed."""
        try:
            check_conf(new)
            premises.check(new, tuple(self._fleet.configs.values()), users=self._is_shared())
        except ConfigError as error:
            self.refuse_conf(error.args[0])
            return
        if self.conf_fault is not None:
            log.warning("%s is taken over again", new.path)
        now, later = conf_changes.changed_now(self.config, new), conf_changes.at_start(self.config, new)
        if later and later != self.conf_at_start:
            log.warning("%s was changed: %s: takes effect at the next start", new.path, ", ".join(later))
        self.conf_fault, self.conf_at_start = None, later
        self.config = conf_changes.taken_over(self.config, new)
        if now:
            tuning = self._engine.core.tuning
            self._engine.event(lambda: tuning.take(self.config.settings))
            log.info("%s was changed: it says another value of %s", new.path, ", ".join(now))
            tell_outranked(tuning, self.config, now)

    def refuse_conf(self, fault: Message) -> None:
        """conf.json is broken: the last good values stay in force."""
        if fault != self.conf_fault:
            log.error("conf.json is not taken over, and its last good values hold: %s", fault)
            self.conf_fault = fault

    def registry_changed(self, nodes: tuple[NodeConfig, ...]) -> None:
        """The registry was changed by hand."""
        try:
            premises.check(self.config, nodes, users=self._is_shared())
        except ConfigError as error:
            self._fleet.refuse(error.args[0])
        else:
            self.apply(nodes)

    def apply(self, nodes: tuple[NodeConfig, ...]) -> None:
        """The registry says this now."""
        self._fleet.apply(nodes)
        before, self._told_in_reach = self._told_in_reach, self.key_in_reach()
        if self._told_in_reach is not None and self._told_in_reach != before:
            log.warning("%s", self._told_in_reach)

    def key_in_reach(self) -> Message | None:
        """That tasks of some nodes can read the key of the ports' certificate."""
        if not self._tls.is_on or not listens_outside(self.config.bind):
            return None  # where nobody comes from elsewhere, nobody knows the master by its key
        return keys_in_reach(self._fleet.configs.values(), self.config.desktop_client, self._as_owners())

    def _as_owners(self) -> frozenset[str]:
        """The nodes where users' tasks run as their owners: only once there are users. After a start the notes tell
        before the agents do."""
        core = self._engine.core
        if not core.people.is_shared:
            return frozenset()
        return frozenset(
            name
            for name, node in core.inventory.nodes.items()
            if (node.facts is not None and node.facts.can_run_as)
            or (node.facts is None and name in core.notes and core.notes[name].as_owners)
        )

    def _is_shared(self) -> bool:
        return self._engine.core.people.is_shared
