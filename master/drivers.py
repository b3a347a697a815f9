"""Which driver leads to a node, and what the drivers of one kind share. Importing one is left to the first need of it:
paramiko takes its time to load, and a lab of one machine has no use for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from master.archive import build as build_archive
from master.config import Config
from master.link import Driver
from master.local import LocalDriver, state_base
from master.registry import NodeConfig
from wire.errors import ConfigError

if TYPE_CHECKING:
    from master.ssh import SshDrivers


def check_drivers(nodes: Iterable[NodeConfig], path: Path) -> None:
    """Raises ConfigError for a node whose driver cannot be used; `path` is the registry's, for the message."""
    for node in nodes:
        if node.driver not in ("local", "ssh"):
            raise ConfigError(f"{path}: {node.name}.driver: {node.driver!r} is not built yet; use 'ssh'")


class Drivers:
    """Makes drivers. `cluster` keeps the agents of different masters on one machine apart."""

    def __init__(self, config: Config, cluster: str) -> None:
        self._config = config
        self._cluster = cluster
        self._archive = build_archive()

    def make(self, node: NodeConfig) -> Driver:
        """The driver of a node."""
        if node.driver == "local":
            return LocalDriver(node.name, self._cluster, self._archive, state_base())
        return self._ssh.make(node)

    @cached_property
    def _ssh(self) -> SshDrivers:
        from master.ssh import SshDrivers  # noqa: PLC0415  (see above)

        return SshDrivers(self._config, self._cluster, self._archive)
