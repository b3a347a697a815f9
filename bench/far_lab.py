"""A lab with a master, a node here, and many more whose agents dial in, all of them in one process (`far_agents`)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.far_agents import GPUS, Seen
from bench.lab import ROOT, BenchError, Lab, eventually
from client.session import Session

MANY = 40_000
"""So many connections are let in, from wherever: all of them come from this machine."""
MOST_TASKS = 2_000_000


class How(NamedTuple):
    """Properties of the far nodes. `run_s`: a task there takes from so many seconds to so many; `busy`: their samples
    show somebody on each GPU, whatever the master launched there; `schedulable`: whether they get tasks; `slots`: how
    many at once of those that want no GPU. Without samples nobody gets a GPU."""

    run_s: tuple[float, float] = (0.0, 0.0)
    samples: bool = True
    busy: bool = False
    schedulable: bool = True
    slots: int = 0


class FarLab(Lab):
    """Use it as a context manager; then `agents()`, which are `far` from then on."""

    far: Agents

    def __init__(self, workshop: Path, agents: int, how: How = How(), **conf: Any) -> None:  # noqa: B008  (it never changes)
        self.names = [f"far{number:04}" for number in range(agents)]
        self._how = how
        self._conf = conf
        super().__init__(workshop, slots=2)

    def _registry(self) -> list[dict[str, Any]]:
        far = {"driver": "report", "gpu_count": GPUS, "gpu_info": ["A100"] * GPUS, "slots": self._how.slots}
        far["schedulable"] = self._how.schedulable
        return [*super()._registry(), *({"name": name, **far} for name in self.names)]

    def _keys(self) -> dict[str, Any]:
        limits = {"connections": MANY, "connections_unidentified": MANY, "connections_per_address": MANY}
        limits |= {"handshake_s": 3600, "auth_requests_per_minute": MANY, "waiting_tasks": MOST_TASKS}
        return {"limits": limits, **self._conf}

    def await_nodes(self) -> None:
        """Only the one here takes tasks before the others have dialled."""
        with self.client() as client:
            eventually(lambda: client.info()["nodes"].get("online", 0) >= 1, "the node here, online")

    @contextmanager
    def agents(self) -> Iterator[Agents]:
        """All of them, connected."""
        job = self._job()
        command = [sys.executable, "-m", "bench.far_agents"]
        with subprocess.Popen(
            command, cwd=ROOT, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as crowd:
            try:
                self.far = agents = Agents(crowd)
                agents.begin(job)
                with self.client() as client:
                    eventually(
                        lambda: client.info()["nodes"] == {"online": len(self.names) + 1}, "all nodes, online", 0.2
                    )
                yield agents
                if crowd.poll() is not None:
                    raise BenchError(f"the agents ended with {crowd.returncode}")
            finally:
                crowd.kill()  # also where something broke: they would be waited for without end

    def _job(self) -> dict[str, Any]:
        with self.client() as client:
            told = [client.node_token(name) for name in self.names]
        version = told[0]["archive"]["version"]
        tokens = {name: one["token"] for name, one in zip(self.names, told, strict=True)}
        certificate = (self.folder / "task_info" / "tls" / "ca.pem").read_text(encoding="ascii")
        where = {"host": "127.0.0.1", "port": self.data_port, "certificate": certificate, "version": version}
        how = {"run_s": self._how.run_s, "samples": self._how.samples, "busy": self._how.busy}
        return {**where, "tokens": tokens, **how}

    def follow_nodes(self) -> Session:
        """A reader of the monitor port, as `muster top` is one."""
        session = Session("127.0.0.1", self._ports["monitor_port"])
        session.call("subscribe", {"snapshot": "none"})
        return session


class Agents:
    """The process of all of them."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Its pid."""
        return self._process.pid

    def begin(self, job: dict[str, Any]) -> None:
        """Have them dial in. Raises BenchError."""
        if self._ask(json.dumps(job)) != "ready\n":
            raise BenchError(f"the agents ended with {self._process.wait()}")

    def seen(self) -> Seen:
        """Return the agents' counts so far."""
        return Seen(**json.loads(self._ask("tell")))

    def _ask(self, line: str) -> str:
        if self._process.stdin is None or self._process.stdout is None:
            raise BenchError("the agents cannot be talked to")
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()
