"""Many agents that dial in, in one process: real sockets and real TLS, and samples as a machine with GPUs sends them.

Reads one JSON object from stdin (host, port, certificate, version, tokens by node; `run_s`: a task takes from so many
seconds to so many; `samples`: whether they sample); says `ready` on stdout once all of them were told `hello`, and goes
on until it is ended. They start no process: a task is begun when it is launched, and over when its time is. Its exit is
in each inventory until it is acknowledged. For each further line on stdin it tells what it has seen so far, as a line
of JSON.
"""

from __future__ import annotations

import asyncio
import asyncio.sslproto
import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from wire.agent import MAX_FRAME, PROTOCOL
from wire.framing import LineDecoder, encode
from wire.pinning import pinned

EVERY_S = 2.0
GPUS = 8
CPUS = 64
AT_A_TIME = 8
"""So many dial at the same moment. On a busy machine more would only wait for each other, some of them for too long."""
BUFFER = 32 << 10
AGAIN_S = 1.0
KILLED = 143
_DEVICES = "CUDA_VISIBLE_DEVICES"


@dataclass
class Seen:
    """By all of them: attempts that were launched, `again`: launches of one that was known, ends, and what of these was
    acknowledged; `alive`: attempts that run. `longest_s`: the most that passed from a launch to the acknowledgement of
    its end, the time that it ran left out. `cut`: connections that broke, and were made anew."""

    launched: int = 0
    again: int = 0
    ended: int = 0
    acknowledged: int = 0
    killed: int = 0
    alive: int = 0
    longest_s: float = 0.0
    cut: int = 0


def sample(at: float, users: dict[int, str] | None = None) -> dict[str, Any]:
    """Return a sample of a machine with 8 GPUs. `users`: the attempt on each GPU; None: somebody is on all of them."""
    users = {index: f"{index}.1.abcdef" for index in range(GPUS)} if users is None else users
    return {
        "op": "sample",
        "at": at,
        "cpu_percent": round(random.uniform(0, 100), 1),
        "cpu_percents": [round(random.uniform(0, 100), 1) for _ in range(CPUS)],
        "load": [12.5, 11.25, 10.75],
        "memory_total_mib": 515_000,
        "memory_available_mib": 312_345,
        "memory": {"total": 540_016_640_000.0, "available": 327_517_470_720.0, "percent": 39.4, "used": 212e9},
        "network": [{"name": "eth0", "received_ps": 1e6, "sent_ps": 2e6, "bandwidth": 1e10}],
        "disks": [{"path": "/data", "total_mib": 9_000_000, "free_mib": 4_000_000}],
        "gpus": [gpu(index, users.get(index, "")) for index in range(GPUS)],
        "gpu_source": "nvml",
        "gpu_fault": "",
    }


def gpu(index: int, launch_id: str) -> dict[str, Any]:
    """One of them, with one process of an attempt, or with none."""
    used = random.randrange(1000, 40_000) if launch_id else 4
    process = {"pid": 4_000 + index, "user": "ann", "memory_mib": used, "launch_id": launch_id}
    return {
        "index": index,
        "uuid": f"GPU-8a5b2c1e-0000-4000-8000-{index:012d}",
        "model": "NVIDIA A100-SXM4-40GB",
        "utilization": float(random.randrange(1, 101)) if launch_id else 0.0,
        "memory_utilization": float(random.randrange(101)) if launch_id else 0.0,
        "memory_total_mib": 40_536,
        "memory_used_mib": used,
        "temperature": 61.0,
        "power": 287.5,
        "ecc_errors": 0,
        "xid": None,
        "mig": False,
        "processes": [process] if launch_id else [],
        "fault": "",
    }


def probed(probe: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a machine that has all shared folders: the words after the script and its name are the
    questions."""
    words = ["ok"] * (len(probe["argv"]) - 4)
    answer = {"code": 0, "output": "\n".join(words), "truncated": False, "error": ""}
    return {"op": "probed", "probe_id": probe["probe_id"], **answer}


class Attempts:
    """Those of one node, until they are acknowledged. Gives the messages that tell of them; does no I/O."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._told: dict[str, dict[str, Any]] = {}
        """The last message about each attempt: that it has started, or how it ended."""
        self._asked_at: dict[str, float] = {}
        self._ran_s: dict[str, float] = {}
        self.gpus: dict[int, str] = {}
        self.say: Callable[..., None] = lambda *_: None
        """How the master is told, if it is there."""

    def over(self, name: str) -> None:
        """Its time is over."""
        told = self.end(name, time.time())
        if told is not None:
            self.say(told)

    def launch(self, message: dict[str, Any], now: float, run_s: float) -> tuple[dict[str, Any], bool]:
        """Return the message about the attempt, and whether it was started just now."""
        name = message["launch_id"]
        if name in self._told:
            self._seen.again += 1
            return self._told[name], False
        self._seen.launched += 1
        self._seen.alive += 1
        self._asked_at[name], self._ran_s[name] = now, run_s
        devices = message["env"].get(_DEVICES, "")
        self.gpus.update((int(one), name) for one in devices.split(",") if one.isdigit())
        started = {"op": "started", "launch_id": name, "pid": 4242, "pid_start": 1, "at": now}
        self._told[name] = started
        return started, True

    def end(self, name: str, now: float, *, code: int = 0, cause: str = "exited") -> dict[str, Any] | None:
        """Return the message about the attempt's end; None if it has ended, or was acknowledged, already."""
        told = self._told.get(name)
        if told is None or told["op"] == "exit":
            return None
        self._seen.ended += 1
        self._seen.alive -= 1
        self._ran_s[name] = now - self._asked_at[name]
        self.gpus = {index: one for index, one in self.gpus.items() if one != name}
        ended = {"op": "exit", "launch_id": name, "code": code, "cause": cause, "error": "", "fault": ""}
        self._told[name] = {**ended, "started_at": told["at"], "at": now}
        return self._told[name]

    def kill(self, name: str, now: float) -> dict[str, Any]:
        """The same of one that is killed; one that is not known is claimed as ended."""
        self._seen.killed += 1
        if name not in self._told:
            unbegun = {"op": "exit", "launch_id": name, "code": None, "cause": "killed", "error": "", "fault": ""}
            self._told[name] = {**unbegun, "started_at": None, "at": now}
        return self.end(name, now, code=KILLED, cause="killed") or self._told[name]

    def acknowledge(self, names: list[str], now: float) -> None:
        """Forget these."""
        for name in names:
            if self._told.pop(name, None) is not None:
                self._seen.acknowledged += 1
                took = now - self._asked_at.pop(name, now) - self._ran_s.pop(name, 0.0)
                self._seen.longest_s = max(self._seen.longest_s, took)

    def inventory(self) -> dict[str, Any]:
        """All that were not acknowledged."""
        return {"op": "inventory", "attempts": [_entry(told) for told in self._told.values()]}


def _entry(told: dict[str, Any]) -> dict[str, Any]:
    running = told["op"] == "started"
    entry = {key: value for key, value in told.items() if key not in ("op", "at" if running else "")}
    if running:
        return {
            **entry,
            "state": "running",
            "started_at": told["at"],
            "code": None,
            "cause": "",
            "error": "",
            "at": None,
        }
    return {**entry, "state": "ended", "pid": 4242, "pid_start": 1}


class Far(asyncio.Protocol):
    """One agent: welcomes the master, does what it says, samples."""

    def __init__(self, node: str, crowd: Crowd, attempts: Attempts) -> None:
        self._node = node
        self._crowd = crowd
        self._job = crowd.job
        self._attempts = attempts
        self._decoder = LineDecoder(MAX_FRAME)
        self._transport: asyncio.WriteTransport | None = None
        self._samples: dict[tuple[tuple[int, str], ...], list[bytes]] = {}
        self._loop = asyncio.get_running_loop()
        self.online = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Report."""
        if not isinstance(transport, asyncio.WriteTransport):
            raise TypeError(f"a stream was expected, not {transport!r}")
        self._transport, self._attempts.say = transport, self._say
        who = {"node": self._node, "token": self._job["tokens"][self._node], "state_id": f"s-{self._node}"}
        self._say({"op": "report", **who, "version": self._job["version"]})

    def data_received(self, data: bytes) -> None:
        """Answer all that came, at once."""
        answers: list[dict[str, Any]] = []
        for line in self._decoder.feed(data):
            answers += self._answers(json.loads(line))
        if answers:
            self._say(*answers)

    def connection_lost(self, error: Exception | None) -> None:
        """Dial again, as agents do."""
        self._transport = None
        self._crowd.seen.cut += 1
        if self.online.done():
            self._crowd.dial(self._node, self._attempts)
        else:
            self.online.set_exception(error or ConnectionResetError("the master closed the connection"))

    def _answers(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        op, now = message["op"], time.time()
        if op == "launch":
            return self._launch(message, now)
        if op == "ack":
            self._attempts.acknowledge(message["launch_ids"], now)
        elif op == "ping":
            return [{"op": "pong"}]
        elif op == "probe":
            return [probed(message)]
        elif op == "kill":
            return [self._attempts.kill(message["launch_id"], now)]
        elif op == "hello":
            return self._welcome(now)
        elif op == "refused":
            sys.exit(f"{self._node}: {message}")
        return []

    def _launch(self, message: dict[str, Any], now: float) -> list[dict[str, Any]]:
        low, high = self._job.get("run_s", (0.0, 0.0))
        run_s = random.uniform(low, high)
        told, is_new = self._attempts.launch(message, now, run_s)
        if not is_new:
            return [told]
        if not run_s:
            ended = self._attempts.end(message["launch_id"], now)
            return [told, ended] if ended else [told]
        self._loop.call_later(run_s, self._attempts.over, message["launch_id"])
        return [told]

    def _welcome(self, now: float) -> list[dict[str, Any]]:
        welcome: dict[str, Any] = {"op": "welcome", "protocol": PROTOCOL, "version": self._job["version"], "pid": 1}
        welcome |= {"boot_id": "b", "state_id": f"s-{self._node}", "hostname": self._node, "machine": "", "uid": 1000}
        welcome |= {"account": "lab", "can_run_as": False, "python": "3.11.0", "now": now, "login_fault": ""}
        if not self.online.done():
            self.online.set_result(None)
            if self._job.get("samples", True):
                self._loop.call_later(random.uniform(0, EVERY_S), self._sample)
        return [{**welcome, "cpus": CPUS, "memory_mib": 515_000}, self._attempts.inventory()]

    def _sample(self) -> None:
        """By turns one of two that were made when other attempts took the GPUs: making them is not what is measured."""
        key = tuple(sorted(self._attempts.gpus.items()))
        if key not in self._samples:
            users = None if self._job.get("busy") else self._attempts.gpus
            self._samples = {key: [encode(sample(float(at), users)) for at in range(2)]}
        lines = self._samples[key]
        lines.reverse()
        if self._transport is not None:
            self._transport.write(lines[0])
            self._loop.call_later(EVERY_S, self._sample)

    def _say(self, *messages: dict[str, Any]) -> None:
        if self._transport is not None:
            self._transport.write(b"".join(map(encode, messages)))


class Crowd:
    """All of them."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self.seen = Seen()
        self._context = pinned(job["certificate"])
        self._gate = asyncio.Semaphore(AT_A_TIME)
        self._dialling: set[asyncio.Task[None]] = set()

    async def begin(self) -> None:
        """All are welcomed."""
        await asyncio.gather(*(self._join(node, Attempts(self.seen)) for node in self.job["tokens"]))

    def dial(self, node: str, attempts: Attempts) -> None:
        """Have one of them dial in again, until it is let in."""
        task = asyncio.ensure_future(self._join(node, attempts))
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)

    async def _join(self, node: str, attempts: Attempts) -> None:
        while True:
            try:
                await self._try(node, attempts)
            except OSError:
                await asyncio.sleep(AGAIN_S * random.uniform(1, 2))
            else:
                return

    async def _try(self, node: str, attempts: Attempts) -> None:
        async with self._gate:
            _, agent = await asyncio.get_running_loop().create_connection(
                lambda: Far(node, self, attempts),
                self.job["host"],
                self.job["port"],
                ssl=self._context,
                server_hostname="master",
            )
            await agent.online


async def main() -> None:
    """Until the end."""
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=1 << 30)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    asyncio.sslproto.SSLProtocol.max_size = BUFFER  # asyncio's own choice makes 256 MiB for a thousand
    crowd = Crowd(json.loads(await lines.readline()))
    await crowd.begin()
    print("ready", flush=True)
    while await lines.readline():
        print(json.dumps(asdict(crowd.seen)), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
