"""A lab whose nodes are the hosts of a testbed: two by password, the others by key, inner ones through the proxy.

The master runs on this machine and shares one folder with the hosts, as with NFS: its `root`, which tasks run in and
write their logs to. Its own files lie elsewhere. Owns the same as `Lab`: starting, killing, finding.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.system.lab import Lab, signal_to
from tests.system.oracle import Oracle
from tests.testbed.bed import Testbed
from tests.testbed.host import Host
from tests.testbed.processes import Process
from tests.waiting import NeverError, until

BY_PASSWORD = 2
"""The first so many hosts are entered by password."""


def ssh_oracle(bed: Testbed) -> Oracle:
    """Where the tasks of a testbed tell what they do: each host on its own disk."""
    disk = "/var/tmp/oracle"  # noqa: S108  (each host has one of its own)
    return Oracle(bed.shared / "oracle", disk=disk, disks=[host.disk / disk.lstrip("/") for host in bed.hosts])


class SshLab(Lab):
    """A lab of `hosts`, by default all of the testbed. `close` ends what it started there; the hosts stay."""

    def __init__(
        self, folder: Path, bed: Testbed, *, gpus: int = 8, slots: int = 12, hosts: Sequence[Host] | None = None
    ) -> None:
        super().__init__(folder, nodes=0, gpus=gpus, slots=slots)
        self.bed = bed
        self.hosts: dict[str, Host] = {}
        self._slots = slots
        self.root = bed.shared / folder.name
        self.psw = folder / "psw"
        self._make_shared()
        self.write_psw(Host.password)
        self.write_conf(root=str(self.root), psw_file=str(self.psw))
        self.set_hosts(bed.hosts if hosts is None else hosts)

    def set_hosts(self, hosts: Iterable[Host]) -> None:
        """The lab has these nodes, and its registry says so."""
        self.hosts = {host.name: host for host in hosts}
        self.nodes = list(self.hosts)
        self.write_registry([self.entry(host) for host in self.hosts.values()])

    @property
    def connections(self) -> int:
        """One a node."""
        return len(self.nodes)

    def _make_shared(self) -> None:
        """The folders that the nodes' account writes into; it has the same uid everywhere."""
        for folder in (self.root, self.root / "train_logs"):
            folder.mkdir()
            os.chown(folder, Host.uid, Host.uid)

    def write_psw(self, text: str) -> None:
        """Write the file of passwords."""
        self.psw.touch(mode=0o600)
        self.psw.write_text(text, encoding="utf-8")

    def entry(self, host: Host, **changes: Any) -> dict[str, Any]:
        """What the registry says of a host."""
        found = {"name": host.name, "ip": host.address, "user_name": host.user, "gpu_probe": "declared"}
        counts = {"gpu_count": self.gpus, "slots": self._slots}
        by_key = {"key_file": str(self.bed.key)} if host.number > BY_PASSWORD else {}
        by_proxy = {"proxy": self.bed.proxy} if host.inner else {}
        return {**found, **counts, **by_key, **by_proxy, **changes}

    # -- the master -------------------------------------------------------------------------------------------

    def start_trusted(self) -> None:
        """Start the master, pin the host keys of all nodes, and wait until they are online."""
        self.start()
        self.trust_all()
        self.await_online()

    def trust_all(self) -> None:
        """Pin the keys that the nodes show, as an admin does who has just set them up."""
        trusted = self.muster("node", "trust", "--all", "--yes")
        if trusted.returncode != 0:
            raise NeverError(f"muster node trust --all: {trusted.stderr}")

    def pin(self, host: Host) -> None:
        """Pin the key of a host, with one of its nodes."""
        with self.client() as client:
            name = next(node["name"] for node in client.nodes() if node["address"] == host.address)
            client.trust(name, host.fingerprint)

    def await_online(self, names: Iterable[str] = ()) -> None:
        """Wait until these nodes, by default all, take tasks."""
        wanted = set(names) or set(self.nodes)
        with self.client() as client:

            def missing() -> list[str]:
                return [
                    f"{node['name']} {node['state']} ({node['reason']})"
                    for node in client.nodes()
                    if node["name"] in wanted and not (node["state"] == "online" and node["schedulable"])
                ]

            try:
                until("the nodes are online", lambda: not missing())
            except NeverError:
                raise NeverError(f"not online: {missing()}") from None

    # -- the agents -------------------------------------------------------------------------------------------

    def agent_folder(self, node: str) -> Path:
        """The state folder of a node's agent, once there is one."""
        base = self.hosts[node].home / ".local/state/muster"
        return until(f"a state folder of {node}", lambda: next(base.glob(f"*-{node}"), None))

    def agent_pid(self, node: str) -> int | None:
        """The agent of a node, if it lives, as this machine counts."""
        try:
            inside = int((self.agent_folder(node) / "lock").read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return None
        return self.hosts[node].pid(inside)

    # -- what lives -------------------------------------------------------------------------------------------

    def processes(self) -> list[Process]:
        """Everything of the lab, here and on the hosts, but what holds the connections."""
        return [*super().processes(), *(process for host in self.hosts.values() for process in _of_account(host))]

    def _inits(self) -> set[int]:
        return {host.init for host in self.hosts.values() if host.is_on}

    def end_agents(self) -> None:
        """Ask all agents, and what dials for them, to end: they are children of their hosts' processes 1."""
        inits = self._inits()
        for process in self.processes():
            if process.parent in inits:
                signal_to(process.pid, signal.SIGTERM)


def _of_account(host: Host) -> list[Process]:
    """What lives on a host besides its sshd, its sessions, and the bridges that they start between us and the agent."""
    everything = host.processes()
    sshds = {process.pid for process in everything if process.command.startswith(("sshd:", "/usr/sbin/sshd"))}
    return [process for process in everything if process.pid not in sshds and process.parent not in sshds]
