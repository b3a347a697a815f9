"""Which driver leads to a node, and what the drivers of one kind share. Importing one is left to the first need of it:
paramiko takes its time to load, and a lab of one machine has no use for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from master.config.config import Config
from master.core.core import Core
from master.drivers.agent_archive import build as build_archive
from master.drivers.local import LocalDriver, state_base
from master.drivers.report import ReportDriver, ReportServer
from master.nodes.driver import Driver
from master.nodes.registry import NodeConfig
from master.tls.policy import Tls
from wire.errors import ConfigError
from wire.message import Message


class Drivers:
    """Makes drivers. `cluster` keeps the agents of different masters on one machine apart; `reports` receives those
    that dial in."""

    def __init__(self, config: Config, cluster: str, core: Core, tls: Tls) -> None:
        self._config = config
        self._cluster = cluster
        self._archive = build_archive()
        self.reports = ReportServer(core, tls, self._archive, cluster)

    def make(self, node: NodeConfig) -> Driver:
        """The driver of a node."""
        if node.driver == "local":
            return LocalDriver(node.name, self._cluster, self._archive, state_base())
        if node.driver == "report":
            return self._report(node)
        return self._ssh(node)

    def _report(self, node: NodeConfig) -> Driver:
        if not self.reports.tls.is_on:
            raise ConfigError(Message("dial_in_without_tls", path=str(self._config.path)))
        return ReportDriver(node.name, self.reports)

    @cached_property
    def _ssh(self) -> Callable[[NodeConfig], Driver]:
        from master.drivers import host_keys  # noqa: PLC0415  (see above)
        from master.drivers.passwords import Passwords  # noqa: PLC0415
        from master.drivers.ssh import LoginGate, SshDriver  # noqa: PLC0415

        keys = host_keys.of_lab(self._config.task_info)
        passwords, gate = Passwords(self._config.psw), LoginGate()

        def make(node: NodeConfig) -> Driver:
            return SshDriver(
                node, cluster=self._cluster, archive=self._archive, keys=keys, passwords=passwords, gate=gate
            )

        return make
