"""Nodes on other machines, each a host of a testbed with a network and an sshd of its own: how fast tasks start there,
how soon a master that was killed has all of them back, and what fifty of them cost while nothing happens."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.lab import Lab, Scale, cpu_seconds, resident_mib
from bench.latency import TASKS, figures, one_by_one
from bench.report import Figure
from bench.throughput import end_to_end
from tests.testbed.bed import Testbed
from tests.testbed.host import Host

MANY = 50
NO_OPS = 1_500
SLOTS = 8
SETTLE_S = 3.0
WATCH_S = 10.0


class SshLab(Lab):
    """A master here, and a node on each of the hosts, entered by key. The hosts should be as new."""

    def __init__(self, workshop: Path, bed: Testbed, hosts: Iterable[Host], *, slots: int = SLOTS) -> None:
        self._bed = bed
        self._hosts = list(hosts)
        self.root = bed.shared / "lab"
        for folder in (self.root, self.root / "train_logs"):
            folder.mkdir()
            os.chown(folder, Host.uid, Host.uid)
        super().__init__(workshop, slots=slots)
        self.nodes = len(self._hosts)

    def __exit__(self, *about: object) -> None:
        super().__exit__(*about)
        shutil.rmtree(self.root)

    def _registry(self) -> list[dict[str, Any]]:
        way = {"user_name": Host.user, "key_file": str(self._bed.key), **self._counts()}
        return [{"name": host.name, "ip": host.address, "host_key": host.host_key, **way} for host in self._hosts]

    def _keys(self) -> dict[str, Any]:
        return {"root": str(self.root)}


def measure(workshop: Path, scale: Scale) -> list[Figure]:
    """All of it, on one testbed after the other."""
    return [*_starts(workshop, scale), *_many(workshop, scale)]


def _starts(workshop: Path, scale: Scale) -> list[Figure]:
    latencies, alone, together = [], [], []
    with Testbed(4) as bed:
        for _ in range(scale.runs):
            with SshLab(workshop, bed, bed.hosts[:1]) as lab:
                latencies.append(one_by_one(lab, scale.of(TASKS)))
                alone.append(end_to_end(lab, scale.of(NO_OPS)))
            bed.renew()
            with SshLab(workshop, bed, bed.hosts) as lab:
                together.append(end_to_end(lab, scale.of(NO_OPS)))
            bed.renew()
    subject = "no-op tasks over SSH, end to end"
    return [
        *figures("submit to start over SSH, idle node", latencies, median_ms=6),
        Figure(subject, f"one node, {SLOTS} slots", "/s", tuple(alone)),
        Figure(subject, f"four nodes of {SLOTS} slots, on this machine", "/s", tuple(together)),
    ]


def _many(workshop: Path, scale: Scale) -> list[Figure]:
    count = max(4, int(MANY * scale.share))
    reconnected, master, memory, threads, agent = [], [], [], [], []
    with Testbed(count) as bed, SshLab(workshop, bed, bed.hosts) as lab:
        for _ in range(scale.runs):
            begun = time.perf_counter()
            lab.kill()
            lab.start()
            lab.await_nodes()
            reconnected.append(time.perf_counter() - begun)
            time.sleep(SETTLE_S)
            agents = [process.pid for host in bed.hosts for process in host.processes() if "muster" in process.command]
            before = cpu_seconds([lab.pid]), cpu_seconds(agents)
            time.sleep(WATCH_S * scale.share)
            after = cpu_seconds([lab.pid]), cpu_seconds(agents)
            here, there = (
                100 * (late - early) / (WATCH_S * scale.share) for early, late in zip(before, after, strict=True)
            )
            master.append(here)
            agent.append(there / count)
            memory.append(resident_mib(lab.pid))
            threads.append(float(len(list(Path(f"/proc/{lab.pid}/task").iterdir()))))
    subject = f"{count} nodes over SSH"
    return [
        Figure(subject, "all online after the master's SIGKILL", "s", tuple(reconnected)),
        Figure(subject, "idle: the master's share of one CPU", "%", tuple(master)),
        Figure(subject, "idle: an agent's, with all that it keeps", "%", tuple(agent)),
        Figure(subject, "memory of the master", "MiB", tuple(memory)),
        Figure(subject, "threads of the master", "", tuple(threads)),
    ]
