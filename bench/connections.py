"""Many connections: crowds of slow senders, and a flood of new ones. How long everybody else waits meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench import crowds, loop_times
from bench.crowds import CONNECTIONS
from bench.lab import DEADLINE_S, ROOT, BenchError, Lab, RawConnection, Scale, request
from bench.loop_times import LoopTimes, watched
from bench.report import Figure, at_most, percentile

FLOOD = "with the usual limits, and a flood of new ones"
ASKED = 300
_MS = 1000
_FLOOD = """
import os, resource, socket, sys
from collections import deque
port, count = int(sys.argv[1]), int(sys.argv[2])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
if os.geteuid() == 0:
    os.setuid(65534)
held, number = deque(), 0
while True:
    sock = socket.socket()
    sock.bind((f"127.1.{number // 250 % 250}.{1 + number % 250}", 0))
    sock.settimeout(0.2)
    try:
        sock.connect(("127.0.0.1", port))
        if number % 2:
            sock.send(b"{")
    except OSError:
        pass
    held.append(sock)
    if len(held) > count:
        held.popleft().close()
    number += 1
    if number == count:
        print("there", flush=True)
"""


def measure(workshop: Path, scale: Scale) -> list[Figure]:
    """Measure the crowds of `bench.crowds`, then the flood; each run has a fresh master."""
    count = scale.of(CONNECTIONS)
    figures = crowds.measure(workshop, scale)
    floods = [_flooded(workshop, count, scale) for _ in range(scale.runs)]
    return [
        *figures,
        Figure(FLOOD, "a submit of the owner, p95", "ms", tuple(flood.p95 for flood in floods), at_most(100)),
        Figure(FLOOD, "a submit of the owner, worst", "ms", tuple(flood.worst for flood in floods)),
        *loop_times.figures(FLOOD, [flood.loop for flood in floods], at_most(50)),
    ]


class _Flooded(NamedTuple):
    """Milliseconds that a submit took, over a connection of its own each."""

    p95: float
    worst: float
    loop: LoopTimes


def _flooded(workshop: Path, count: int, scale: Scale) -> _Flooded:
    """One account of this machine connects again and again, and holds as many connections as it can."""
    with Lab(workshop) as lab, _beside(_FLOOD, lab.data_port, count), watched(lab) as loop:
        waits = _waits(lab.data_port, scale.of(ASKED), "task.submit", {"command": "true", "hold": True})
    return _Flooded(percentile(waits, 0.95), max(waits), loop)


def _waits(port: int, count: int, method: str = "server.info", params: dict[str, Any] | None = None) -> list[float]:
    """Milliseconds that an answer takes, each over a connection of its own."""
    times = []
    for _ in range(count):
        begun = time.perf_counter()
        with RawConnection(port) as connection:
            [answer] = connection.exchange(request(1, method, params or {}))
        times.append((time.perf_counter() - begun) * _MS)
        if "result" not in json.loads(answer):
            raise BenchError(f"the owner was answered {answer[:200]!r}")
        time.sleep(0.01)
    return times


@contextmanager
def _beside(script: str, *words: object) -> Iterator[None]:
    """The script, which says "there" when it is as it should be, and goes on."""
    crowd = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, words)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        if crowd.stdout is None or crowd.stdout.readline() != "there\n":
            raise BenchError(f"the connections did not come about within {DEADLINE_S:g} s each")
        yield
        if crowd.poll() is not None:
            raise BenchError(f"the connections ended with {crowd.returncode}")
    finally:
        crowd.kill()
        crowd.wait()
