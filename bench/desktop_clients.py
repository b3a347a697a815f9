"""A hundred desktop clients beside everybody else: what they are told in time, what they cost the master and others.

They come from several addresses, in a process of their own; a fifth of them do not read. Submits by somebody else are
timed with them and without them by turns, in one and the same master, so that what else the machine does falls on both.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import selectors
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.lab import BenchError, Lab, RawConnection, Scale, cpu_seconds, eventually, request, resident_mib
from bench.report import Figure, at_least, at_most, percentile

SUBJECT = "100 desktop clients, 10,000 waiting"
CLIENTS, DEAF, ADDRESSES = 100, 20, 20
WAITING = 10_000
PAIRS = 9
ROUND_S = 2.0
"""Submits are timed for so long: what clients are pushed comes that often."""
WATCH_S = 120.0
SETTLE_S = 6.0
"""How long clients connect and are told everything first, before anything is measured."""
TERMINATOR = b"_<END_SEND>_"
PUSHES = ("monitor_port", "train_state_port")
_RECEIVE = 1 << 20


def measure(workshop: Path, scale: Scale) -> list[Figure]:
    """One master for all of it: its memory must not grow, whoever comes and goes."""
    with Lab(workshop, gpus=8) as lab:
        lab.fill(scale.of(WAITING))
        ratios = [_pair(lab) for _ in range(max(1, round(PAIRS * scale.share)))]
        watched = _watch(lab, WATCH_S * scale.share)
    late = {port: tuple(max(gaps) for gaps in watched.gaps[port]) for port in PUSHES}
    half = len(watched.resident) // 2
    grown = statistics.median(watched.resident[half:]) - statistics.median(watched.resident[:half])
    return [
        Figure(SUBJECT, "tables, longest gap of all that read", "s", (max(late["train_state_port"]),), at_most(2.5)),
        Figure(SUBJECT, "tables, 99 % of gaps", "s", (_p99(watched.gaps["train_state_port"]),)),
        Figure(SUBJECT, "a node's row, longest gap", "s", (max(late["monitor_port"]),), at_most(2.5)),
        Figure(SUBJECT, "frames that no client could read", "", (float(watched.unreadable),), at_most(0)),
        Figure(SUBJECT, "size of the tables", "KiB", (watched.largest / 1024,)),
        Figure(SUBJECT, f"memory grown in {WATCH_S * scale.share:.0f} s", "MiB", (grown,), at_most(2)),
        Figure(SUBJECT, "memory with them", "MiB", (watched.resident[-1],)),
        Figure(SUBJECT, "the master's CPU for them", "%", (watched.cpu_percent,)),
        Figure(SUBJECT, "others' submits, with : without them", "", tuple(ratios), at_least(0.95)),
    ]


def _p99(gaps: list[list[float]]) -> float:
    return percentile([gap for one in gaps for gap in one], 0.99)


def _pair(lab: Lab) -> float:
    """Submits per second with the clients, by those without them just before and just after."""
    before = _submits(lab, ROUND_S)
    with _clients(lab):
        time.sleep(ROUND_S)
        beside = _submits(lab, ROUND_S)
    return beside / statistics.mean((before, _submits(lab, ROUND_S)))


def _submits(lab: Lab, seconds: float) -> float:
    with lab.client() as client:
        ids = [client.submit("true", hold=True)]
        begun = time.perf_counter()
        while (took := time.perf_counter() - begun) < seconds:
            ids.append(client.submit("true", hold=True))
    # The queue is as long for the next one.
    with RawConnection(lab.data_port) as connection:
        connection.exchange(b"".join(request(one, "task.remove", {"id": one}) for one in ids), len(ids))
    return (len(ids) - 1) / took


@dataclass
class Watched:
    """The measurements of the clients. `gaps`: by port, for each client that reads; `resident`: MiB of the master, each
    second."""

    gaps: dict[str, list[list[float]]]
    unreadable: int
    largest: int
    resident: list[float] = field(default_factory=list)
    cpu_percent: float = 0.0


def _watch(lab: Lab, seconds: float) -> Watched:
    """Let them sit there while tasks come and go."""
    resident = []
    with _clients(lab) as pipe, lab.client() as client:
        time.sleep(SETTLE_S)
        pipe.send("begin")
        begun, used = time.monotonic(), cpu_seconds([lab.pid])
        while time.monotonic() < begun + seconds:
            client.remove(client.submit("true", hold=True))
            resident.append(resident_mib(lab.pid))
            time.sleep(1.0)
        cpu = (cpu_seconds([lab.pid]) - used) / (time.monotonic() - begun)
        pipe.send("end")
        gaps, unreadable, largest = pipe.recv()
    return Watched(gaps, unreadable, largest, resident, 100 * cpu)


@contextmanager
def _clients(lab: Lab) -> Iterator[Connection]:
    """A hundred clients, connected and told of everything once."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    ports = json.loads(lab.conf.read_text(encoding="utf-8"))["socket_info"]
    process = multiprocessing.get_context("spawn").Process(target=run_clients, args=(ports, theirs), daemon=True)
    process.start()
    try:
        if not ours.poll(60) or ours.recv() != "connected":
            raise BenchError("the desktop clients could not connect")
        yield ours
        if not process.is_alive():
            raise BenchError("the desktop clients ended before they were told to; what was measured is void")
    finally:
        with suppress(OSError):
            ours.send("close")
        process.join(10)
        process.kill()
        eventually(lambda: not process.is_alive(), "the end of the desktop clients")


class Pushed:
    """One client's connection to a push port, read as the real one reads: whole receives, until one ends a frame."""

    def __init__(self, address: str, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 30, source_address=(address, 0))
        self.tail = b""
        self.size = 0
        self.ends = 0
        self.at: dict[str, float] = {}
        self.gaps: list[float] = []
        self.unreadable = 0
        self.largest = 0

    def receive(self, now: float) -> None:
        """Take what came."""
        data = self.socket.recv(_RECEIVE)
        if not data:
            raise BenchError("the master closed a desktop client's connection")
        seen = self.tail + data
        self.ends += seen.count(TERMINATOR)
        self.size += len(data)
        self.tail = seen[-len(TERMINATOR) + 1 :]
        if seen.endswith(TERMINATOR):
            self._frame(data, now)

    def _frame(self, data: bytes, now: float) -> None:
        if self.ends == 1:
            # A node's row is small and comes whole; tables are not parsed, for that would be what is measured then.
            key = json.loads(data[: -len(TERMINATOR)])["info"]["name"] if data.startswith(b'{"mode":"mon"') else ""
            if key in self.at:
                self.gaps.append(now - self.at[key])
            self.at[key] = now
            self.largest = max(self.largest, self.size)
        else:
            self.unreadable += 1
        self.tail, self.size, self.ends = b"", 0, 0


def run_clients(ports: dict[str, int], pipe: Connection) -> None:
    """The clients' process: connect, tell so, read until told to close. In real life they run on PCs of their own, so
    here they come last."""
    os.nice(19)
    selector = selectors.DefaultSelector()
    reading: dict[str, list[Pushed]] = {name: [] for name in PUSHES}
    kept: list[Any] = []
    for number in range(CLIENTS):
        address = f"127.0.0.{10 + number % ADDRESSES}"
        monitor = Pushed(address, ports["monitor_port"])
        data = socket.create_connection(("127.0.0.1", ports["data_port"]), 30, source_address=(address, 0))
        train = Pushed(address, ports["train_state_port"])
        data.sendall(b'{"mode": "get_root", "ui": "main", "info": ""}' + TERMINATOR)
        kept += [data, monitor, train]
        if number >= DEAF:
            for name, one in zip(PUSHES, (monitor, train), strict=True):
                reading[name].append(one)
                selector.register(one.socket, selectors.EVENT_READ, one)
    selector.register(pipe, selectors.EVENT_READ)
    pipe.send("connected")
    while True:
        for key, _ in selector.select():
            if key.data is not None:
                key.data.receive(time.monotonic())
                continue
            said = pipe.recv()
            if said == "begin":
                _begin(reading)
            elif said == "end":
                _tell(pipe, reading)
            else:
                return


def _begin(reading: dict[str, list[Pushed]]) -> None:
    for one in (one for some in reading.values() for one in some):
        one.gaps.clear()
        one.unreadable = 0  # while all of them were connected, one after the other, nobody read


def _tell(pipe: Connection, reading: dict[str, list[Pushed]]) -> None:
    everyone = [one for some in reading.values() for one in some]
    gaps = {name: [one.gaps for one in some] for name, some in reading.items()}
    pipe.send((gaps, sum(one.unreadable for one in everyone), max(one.largest for one in everyone)))
