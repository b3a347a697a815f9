"""The shim floor: what the agent alone does, fed through its socket by a master that does nothing but feed it.

Each task is `bash -c true` in a session of its own with a log of its own, its exit durable before it is told; as many
are in flight as a node would have slots.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from bench.lab import DEADLINE_S, BenchError, clean_environment, end_processes
from master.drivers.agent_archive import build
from wire.agent import MAX_FRAME, PROTOCOL
from wire.framing import LineDecoder, encode, strict_loads


def shim_floor(folder: Path, tasks: int, slots: int) -> float:
    """Tasks per second. `folder` must not exist yet."""
    folder.mkdir()
    try:
        _start_agent(folder)
        with _TinyMaster(folder) as master:
            master.feed(slots, slots)  # the first ones load what the others share
            begun = time.perf_counter()
            master.feed(tasks, slots)
            return tasks / (time.perf_counter() - begun)
    finally:
        end_processes(folder)


def _start_agent(folder: Path) -> None:
    archive = folder / "agent.pyz"
    archive.write_bytes(build().compiled.data)
    done = subprocess.run(
        [sys.executable, "-I", str(archive), "serve", "--state", str(folder / "state")],
        env={**clean_environment(), "XDG_STATE_HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    if done.returncode:
        raise BenchError(f"the agent cannot be started: {done.stderr.strip()}")


class _TinyMaster:
    """Speaks wire/agent.py: hello, launches, acks. Knows which launches are in flight and nothing else."""

    def __init__(self, folder: Path) -> None:
        self._logs = folder / "logs"
        self._socket = _connect(folder / "state")
        self._decoder = LineDecoder(MAX_FRAME)
        self._launched = 0
        self._in_flight: set[str] = set()
        hello = {"op": "hello", "protocol": PROTOCOL, "cluster": "bench", "epoch": 1, "incarnation": "bench"}
        self._socket.sendall(encode({**hello, "lineage": [[1, "bench"]]}))
        while not any(message["op"] == "inventory" for message in self._received()):
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def feed(self, tasks: int, slots: int) -> None:
        """Run so many tasks, `slots` at a time. Raises BenchError when one does not end with 0."""
        left = tasks - self._launch(min(slots, tasks))
        while self._in_flight:
            ended = [self._end_of(message) for message in self._received() if message["op"] == "exit"]
            if ended:
                self._in_flight.difference_update(ended)
                self._socket.sendall(encode({"op": "ack", "launch_ids": ended}))
                left -= self._launch(min(len(ended), left))

    def _launch(self, count: int) -> int:
        names = [f"bench.{self._launched + index}" for index in range(count)]
        self._launched += count
        self._in_flight.update(names)
        self._socket.sendall(b"".join(encode(self._message(name)) for name in names))
        return count

    def _message(self, name: str) -> dict[str, Any]:
        return {
            "op": "launch",
            "launch_id": name,
            "argv": ["/bin/bash", "-c", "true"],
            "cwd": "/",
            "env": {"MUSTER_LAUNCH_ID": name},
            "log_path": f"{self._logs}/{name}.log",
            "grace_s": 10.0,
            "time_limit_s": None,
        }

    def _end_of(self, message: dict[str, Any]) -> str:
        if message["code"] != 0:
            raise BenchError(f"the agent could not run a no-op: {message}")
        return str(message["launch_id"])

    def _received(self) -> Iterator[dict[str, Any]]:
        data = self._socket.recv(1 << 18)
        if not data:
            raise BenchError("the agent closed the connection")
        for line in self._decoder.feed(data):
            message: dict[str, Any] = strict_loads(line)
            if message["op"] == "refused":
                raise BenchError(f"the agent refuses the bench: {message['message']}")
            yield message


def _connect(state: Path) -> socket.socket:
    """Through the folder's descriptor, since the name of a socket may have 107 bytes and no more."""
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(DEADLINE_S)
    folder = os.open(state, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sock.connect(f"/proc/self/fd/{folder}/agent.sock")
    finally:
        os.close(folder)
    return sock
