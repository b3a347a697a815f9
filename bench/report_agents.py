"""What a thousand agents that dial in cost the master, with 8 GPUs each and a sample every 2 s: processor time, memory,
and what a user feels of it when submitting, beside the same master without them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.far_agents import GPUS
from bench.lab import ROOT, BenchError, Lab, Scale, cpu_seconds, eventually, resident_mib
from bench.latency import TASKS, one_by_one
from bench.report import Figure, at_most
from client.session import Session

AGENTS = 1_000
SETTLE_S = 4.0
WATCH_S = 20.0


class FarLab(Lab):
    """A master with a node here, and many that dial in."""

    def __init__(self, workshop: Path, agents: int) -> None:
        self._names = [f"far{number}" for number in range(agents)]
        super().__init__(workshop, slots=2)

    def _registry(self) -> list[dict[str, Any]]:
        far = {"driver": "report", "gpu_count": GPUS, "gpu_info": ["A100"] * GPUS, "slots": 0, "schedulable": False}
        return [*super()._registry(), *({"name": name, **far} for name in self._names)]

    def await_nodes(self) -> None:
        """Only the one here takes tasks before the others have dialled."""
        with self.client() as client:
            eventually(lambda: client.info()["nodes"].get("online", 0) >= 1, "the node here, online")

    @contextmanager
    def agents(self) -> Iterator[None]:
        """All of them, connected."""
        job = self._job()
        command = [sys.executable, "-m", "bench.far_agents"]
        with subprocess.Popen(
            command, cwd=ROOT, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as crowd:
            try:
                self._connect(crowd, job)
                yield
                if crowd.poll() is not None:
                    raise BenchError(f"the agents ended with {crowd.returncode}")
            finally:
                crowd.kill()  # also where something broke: they would be waited for without end

    def _connect(self, crowd: subprocess.Popen[str], job: dict[str, Any]) -> None:
        if crowd.stdin is None or crowd.stdout is None:
            raise BenchError("the agents cannot be talked to")
        crowd.stdin.write(json.dumps(job) + "\n")
        crowd.stdin.flush()
        if crowd.stdout.readline() != "ready\n":
            raise BenchError(f"the agents ended with {crowd.wait()}")
        with self.client() as client:
            eventually(lambda: client.info()["nodes"] == {"online": len(self._names) + 1}, "all nodes, online")

    def _job(self) -> dict[str, Any]:
        with self.client() as client:
            told = [client.node_token(name) for name in self._names]
        version = told[0]["archive"]["version"]
        tokens = {name: one["token"] for name, one in zip(self._names, told, strict=True)}
        certificate = (self.folder / "task_info" / "tls" / "ca.pem").read_text(encoding="ascii")
        where = {"host": "127.0.0.1", "port": self.data_port}
        return {**where, "certificate": certificate, "version": version, "tokens": tokens}

    def follow_nodes(self) -> Session:
        """A reader of the monitor port, as `muster top` is one."""
        session = Session("127.0.0.1", self._ports["monitor_port"])
        session.call("subscribe", {"snapshot": "none"})
        return session


def measure(workshop: Path, scale: Scale) -> list[Figure]:
    """Each run has a fresh master; its first figures are without agents."""
    count, tasks = scale.of(AGENTS), scale.of(TASKS)
    runs = [_one(workshop, count, tasks, WATCH_S * scale.share) for _ in range(scale.runs)]
    alone, beside, added, cpu, followed, memory = zip(*runs, strict=True)
    subject = f"{count:,} agents that dial in, {GPUS} GPUs each"
    return [
        Figure(subject, "the master's share of one CPU", "%", cpu, at_most(30)),
        Figure(subject, "the same with a reader of all samples", "%", followed),
        Figure(subject, "memory of the master", "MiB", memory, at_most(300)),
        Figure(subject, "submit to start, median, without them", "ms", alone),
        Figure(subject, "submit to start, median, with them", "ms", beside),
        Figure(subject, "what they add to it", "ms", added, at_most(1)),
    ]


def _one(workshop: Path, count: int, tasks: int, watch_s: float) -> tuple[float, ...]:
    with FarLab(workshop, count) as lab:
        alone = one_by_one(lab, tasks)[0]
        with lab.agents():
            time.sleep(SETTLE_S)
            cpu = _share(lab, watch_s)
            beside = one_by_one(lab, tasks)[0]
            memory = resident_mib(lab.pid)
            followed = _followed(lab, watch_s)
    return alone, beside, beside - alone, cpu, followed, memory


def _share(lab: Lab, watch_s: float) -> float:
    """The master's share of one CPU, in percent."""
    before = cpu_seconds([lab.pid])
    time.sleep(watch_s)
    return 100 * (cpu_seconds([lab.pid]) - before) / watch_s


def _followed(lab: FarLab, watch_s: float) -> float:
    reader = lab.follow_nodes()
    before, end = cpu_seconds([lab.pid]), time.monotonic() + watch_s
    for _ in reader.notifications(SETTLE_S):
        if time.monotonic() > end:
            break
    share = 100 * (cpu_seconds([lab.pid]) - before) / watch_s
    reader.close()
    return share
