"""Many agents that dial in, in one process: real sockets and real TLS, and samples as a machine with GPUs sends them.

Reads one JSON object from stdin (host, port, certificate, version, tokens by node); says `ready` on stdout once all of
them were told `hello`, and goes on until it is ended. They run no tasks.
"""

from __future__ import annotations

import asyncio
import asyncio.sslproto
import json
import random
import ssl
import sys
from typing import Any

from wire.framing import encode
from wire.pinning import pinned

EVERY_S = 2.0
GPUS = 8
CPUS = 64
AT_A_TIME = 32
"""So many dial at the same moment; the master lets in 64 of an address before they have said who they are."""
BUFFER = 32 << 10


def sample(at: float) -> dict[str, Any]:
    """What a machine with 8 busy GPUs says of itself."""
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
        "gpus": [gpu(index) for index in range(GPUS)],
        "gpu_source": "nvml",
        "gpu_fault": "",
    }


def gpu(index: int) -> dict[str, Any]:
    """One of them, with one process of somebody's task."""
    used = random.randrange(1000, 40_000)
    return {
        "index": index,
        "uuid": f"GPU-8a5b2c1e-0000-4000-8000-{index:012d}",
        "model": "NVIDIA A100-SXM4-40GB",
        "utilization": float(random.randrange(101)),
        "memory_utilization": float(random.randrange(101)),
        "memory_total_mib": 40_536,
        "memory_used_mib": used,
        "temperature": 61.0,
        "power": 287.5,
        "ecc_errors": 0,
        "xid": None,
        "mig": False,
        "processes": [{"pid": 4_000 + index, "user": "ann", "memory_mib": used, "launch_id": f"{index}.1.abcdef"}],
        "fault": "",
    }


def probed(probe: dict[str, Any]) -> dict[str, Any]:
    """What a machine says that has all shared folders: the words after the script and its name are asked about."""
    words = ["ok"] * (len(probe["argv"]) - 4)
    answer = {"code": 0, "output": "\n".join(words), "truncated": False, "error": ""}
    return {"op": "probed", "probe_id": probe["probe_id"], **answer}


class Far(asyncio.Protocol):
    """One agent: welcomes the master, answers its questions, samples."""

    def __init__(self, node: str, job: dict[str, Any], joined: asyncio.Semaphore) -> None:
        self._node = node
        self._job = job
        self._joined = joined
        self._transport: asyncio.WriteTransport | None = None
        self.online = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Report."""
        if not isinstance(transport, asyncio.WriteTransport):
            raise TypeError(f"a stream was expected, not {transport!r}")
        self._transport = transport
        who = {"node": self._node, "token": self._job["tokens"][self._node], "state_id": f"s-{self._node}"}
        transport.write(encode({"op": "report", **who, "version": self._job["version"]}))

    def data_received(self, data: bytes) -> None:
        """Answer; what is asked is short and comes whole."""
        for line in data.splitlines():
            message = json.loads(line)
            op = message["op"]
            if op == "hello":
                self._welcome()
            elif op == "ping":
                self._say({"op": "pong"})
            elif op == "probe":
                self._say(probed(message))
            elif op == "refused":
                sys.exit(f"{self._node}: {line.decode()}")

    def connection_lost(self, error: Exception | None) -> None:
        """A bench with fewer agents than it says would measure nothing."""
        sys.exit(f"{self._node}: the master closed the connection ({error})")

    def _welcome(self) -> None:
        facts = {"boot_id": "b", "state_id": f"s-{self._node}", "hostname": self._node, "python": "3.11.0"}
        welcome = {"op": "welcome", "protocol": 1, "version": self._job["version"], "pid": 1, "now": 0.0, **facts}
        self._say({**welcome, "cpus": CPUS, "memory_mib": 515_000})
        self._say({"op": "inventory", "attempts": []})
        self.online.set_result(None)
        loop = asyncio.get_running_loop()
        loop.call_later(random.uniform(0, EVERY_S), self._sample, [encode(sample(float(at))) for at in range(2)])

    def _sample(self, lines: list[bytes]) -> None:
        if self._transport is not None:
            self._transport.write(lines[0])
        asyncio.get_running_loop().call_later(EVERY_S, self._sample, lines[::-1])

    def _say(self, message: dict[str, Any]) -> None:
        if self._transport is not None:
            self._transport.write(encode(message))


async def _join(node: str, job: dict[str, Any], context: ssl.SSLContext, gate: asyncio.Semaphore) -> None:
    async with gate:
        _, agent = await asyncio.get_running_loop().create_connection(
            lambda: Far(node, job, gate), job["host"], job["port"], ssl=context, server_hostname="master"
        )
        await agent.online


async def main() -> None:
    """Until the end."""
    job = json.loads(sys.stdin.readline())
    asyncio.sslproto.SSLProtocol.max_size = BUFFER  # asyncio's own choice makes 256 MiB for a thousand
    context, gate = pinned(job["certificate"]), asyncio.Semaphore(AT_A_TIME)
    await asyncio.gather(*(_join(node, job, context, gate) for node in job["tokens"]))
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
