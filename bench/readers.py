"""How long others wait for an answer while somebody reads 100,000 waiting tasks, in each of the ways to read them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.lab import ROOT, BenchError, Lab, RawConnection, Scale, request
from bench.report import Figure, at_most, percentile

SUBJECT = "others, while tasks are read"
WAITING = 100_000
ASKED = 300
_MS = 1000
READERS: dict[str, tuple[str, str, dict[str, object]]] = {
    "nobody reads": ("", "", {}),
    "all, as our client asks": ("data_port", "task.list", {"sparse": True}),
    "all, every key in every task": ("data_port", "task.list", {}),
    "all, sorted by name": ("data_port", "task.list", {"sparse": True, "sort": "name"}),
    "a search": ("data_port", "task.list", {"search": "seed 77", "limit": 50}),
    "snapshots of a subscription": ("train_state_port", "subscribe", {}),
    "why, of the last": ("data_port", "task.why", {"id": WAITING}),
}
_READ = """
import socket, sys
port, frame = int(sys.argv[1]), sys.argv[2].encode() + b"\\n"
print("reading", flush=True)
while True:
    with socket.create_connection(("127.0.0.1", port)) as sock:
        for _ in range(5):
            sock.sendall(frame)
            while not sock.recv(1 << 20).endswith(b"\\n"):
                pass
"""


def measure(workshop: Path, scale: Scale) -> list[Figure]:
    """One master; for each way to read: one reader without a pause, and another client's submits one by one."""
    count = scale.of(WAITING)
    figures = []
    with Lab(workshop, gpus=8) as lab:
        lab.fill(count)
        for name, (port, method, params) in READERS.items():
            with _reading(lab, port, method, {**params, **({"id": count} if "id" in params else {})}):
                runs = [_submits(lab, scale.of(ASKED)) for _ in range(scale.runs)]
            p99, worst = (tuple(column) for column in zip(*runs, strict=True))
            figures.append(Figure(SUBJECT, f"{name}: submit, p99", "ms", p99, at_most(100)))
            figures.append(Figure(SUBJECT, f"{name}: submit, worst", "ms", worst))
    return figures


def _submits(lab: Lab, count: int) -> tuple[float, float]:
    """Milliseconds that a submit takes, p99 and worst; each is held, so that nothing is planned or started."""
    times = []
    with RawConnection(lab.data_port) as connection:
        for number in range(count):
            frame = request(number, "task.submit", {"command": "true", "gpus": 1, "hold": True})
            begun = time.perf_counter()
            connection.exchange(frame)
            times.append((time.perf_counter() - begun) * _MS)
    return percentile(times, 0.99), max(times)


@contextmanager
def _reading(lab: Lab, port: str, method: str, params: dict[str, object]) -> Iterator[None]:
    if not port:
        yield
        return
    frame = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    number = json.loads(lab.conf.read_text(encoding="utf-8"))["socket_info"][port]
    reader = subprocess.Popen(
        [sys.executable, "-c", _READ, str(number), frame], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        if reader.stdout is None or reader.stdout.readline() != "reading\n":
            raise BenchError("the reader did not start")
        yield
        if reader.poll() is not None:
            raise BenchError(f"the reader ended with {reader.returncode}")
    finally:
        reader.kill()
        reader.wait()
