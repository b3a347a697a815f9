"""Labs whose agents are root, over SSH as root or because root dialled in, on hosts where alice, bob and carol have
accounts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.rights import need_real_root
from tests.system.far_lab import FarLab
from tests.system.mapped_master import FILE
from tests.system.ssh_lab import SshLab
from tests.testbed.bed import Testbed
from tests.testbed.host import Host
from tests.waiting import until

LAB = 6191
"""The group of the log folder; nobody is in it."""


class MappedLab(SshLab):
    """`be` says whose account everybody's tasks have. `shared`: the names of hosts whose agent is not root."""

    shared: frozenset[str] = frozenset()
    is_mapped = True
    """Else it has users, and each the account of his name."""

    def be(self, account: str) -> None:
        """From now on tasks are of somebody with that account."""
        (self.folder / FILE).write_text(account, encoding="ascii")

    def launch_master(self, failpoint: str = "", *words: str) -> subprocess.Popen[bytes]:
        """Start one that asks whose."""
        self.before = [sys.executable, "-m", "tests.system.mapped_master"] if self.is_mapped else []
        return super().launch_master(failpoint, *words)

    def _make_shared(self) -> None:
        super()._make_shared()
        logs = self.root / "train_logs"
        os.chown(logs, Host.uid if self.shared else 0, LAB)
        logs.chmod(0o2755)


class RootFarLab(MappedLab, FarLab):
    """On the one host root does what is printed."""

    user = "root"


class RootLab(MappedLab):
    """Over SSH. `shared`: hosts whose agent runs as the shared account all the same."""

    def __init__(self, folder: Path, bed: Testbed, *, hosts: Iterable[Host], shared: Iterable[Host] = ()) -> None:
        need_real_root()  # to log in as root asks for a home that is root's own
        self.shared = frozenset(host.name for host in shared)
        super().__init__(folder, bed, hosts=list(hosts))

    def entry(self, host: Host, **changes: Any) -> dict[str, Any]:
        """What the registry says of a host."""
        as_root = {} if host.name in self.shared else {"user_name": "root", "key_file": str(self.bed.key)}
        return super().entry(host, **{**as_root, **changes})

    def agent_folder(self, node: str) -> Path:
        """The state folder of a node's agent, once there is one."""
        host = self.hosts[node]
        home = host.home if node in self.shared else host.disk / "root"
        return until(f"a state folder of {node}", lambda: next(home.glob(f".local/state/muster/*-{node}"), None))
