"""Ten thousand connections that say little and slowly: how long everybody else waits meanwhile."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench import loop_times
from bench.lab import DEADLINE_S, ROOT, BenchError, Lab, RawConnection, Scale, request, resident_mib
from bench.loop_times import LoopTimes, watched
from bench.report import Figure, at_most, percentile

SUBJECT = "others, among many connections"
FLOOD = "with the usual limits, and a flood of new ones"
CONNECTIONS, ASKED = 10_000, 300
_MS = 1000
_CROWD = """
import os, resource, socket, sys, time
port, count, token = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
if os.geteuid() == 0:
    os.setuid(65534)  # else the kernel says that it is the master's own user, who is not counted
shown = b'{"jsonrpc":"2.0","id":1,"method":"auth.token","params":{"token":"%s"}}' % token.encode() + b"\\n"
slow = b'{"jsonrpc":"2.0","id":2,"method":"auth.whoami","params":{}}\\n'
held, told = [], 0
for number in range(count):
    sock = socket.socket()
    sock.bind((f"127.1.{number // 250}.{1 + number % 250}", 0))
    sock.settimeout(30)
    sock.connect(("127.0.0.1", port))
    if number % 2:
        sock.sendall(shown)
        answer = b""
        while not answer.endswith(b"\\n"):
            piece = sock.recv(65536)
            if not piece:
                sys.exit("the master closed a connection that had shown a token")
            answer += piece
        if b'"result"' not in answer:
            sys.exit(answer.decode())
    held.append(sock)
print("there", flush=True)
for sock in held:
    sock.setblocking(False)
at = 0
while True:
    byte = slow[at % len(slow):][:1]
    for place, sock in enumerate(held):
        try:
            sock.send(byte)
            if at % len(slow) == len(slow) - 1:
                sock.recv(65536)
        except OSError:
            continue
        if place % 100 == 0:
            time.sleep(0.01)
    at += 1
"""

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


class CrowdedLab(Lab):
    """One whose conf.json lets so many in."""

    def _keys(self) -> dict[str, Any]:
        many = 4 * CONNECTIONS
        limits = {"connections": many, "connections_unidentified": many, "connections_per_address": many}
        return {"limits": {**limits, "handshake_s": 3600}}


def measure(workshop: Path, scale: Scale) -> list[Figure]:
    """Each run has a fresh master."""
    count = scale.of(CONNECTIONS)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + 1000:
        raise BenchError(f"a process may open {hard} files here (ulimit -Hn): {count + 1000} are needed")
    runs = [_one(workshop, count, scale) for _ in range(scale.runs)]
    floods = [_flooded(workshop, count, scale) for _ in range(scale.runs)]
    alone, crowd, worst, memory = zip(*[run.waits for run in runs], strict=True)
    return [
        Figure(SUBJECT, "server.info without them, p95", "ms", alone),
        Figure(SUBJECT, f"server.info among {count:,}, p95", "ms", crowd, at_most(100)),
        Figure(SUBJECT, f"server.info among {count:,}, worst", "ms", worst),
        Figure(SUBJECT, "memory of the master a connection", "KiB", memory),
        *loop_times.figures("the loop, while they come", [run.coming for run in runs], at_most(50)),
        *loop_times.figures("the loop, while they are there", [run.there for run in runs], at_most(50)),
        Figure(FLOOD, "a submit of the owner, p95", "ms", tuple(flood.p95 for flood in floods), at_most(100)),
        Figure(FLOOD, "a submit of the owner, worst", "ms", tuple(flood.worst for flood in floods)),
        *loop_times.figures(FLOOD, [flood.loop for flood in floods], at_most(50)),
    ]


class _Run(NamedTuple):
    """`waits`: milliseconds alone and among many (p95), and the worst; KiB a connection."""

    waits: tuple[float, float, float, float]
    coming: LoopTimes
    there: LoopTimes


def _one(workshop: Path, count: int, scale: Scale) -> _Run:
    with CrowdedLab(workshop) as lab:
        with lab.client() as client:
            client.call("user.add", {"name": "crowd"})
            token = client.call("token.new", {"name": "crowd"})["token"]
        alone = _waits(lab.data_port, scale.of(ASKED))
        before = resident_mib(lab.pid)
        with ExitStack() as stack:
            with watched(lab) as coming:
                stack.enter_context(_beside(_CROWD, lab.data_port, count, token))
            with watched(lab) as there:
                among = _waits(lab.data_port, scale.of(ASKED))
            more = resident_mib(lab.pid) - before
    waits = percentile(alone, 0.95), percentile(among, 0.95), max(among), more * 1024 / count
    return _Run(waits, coming, there)


class _Flooded(NamedTuple):
    """Milliseconds that a submit took, over a connection of its own each."""

    p95: float
    worst: float
    loop: LoopTimes


def _flooded(workshop: Path, count: int, scale: Scale) -> _Flooded:
    """Somebody of this machine connects again and again, and holds so many of what he is left."""
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
