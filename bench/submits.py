"""Durable submits per second: each answer comes after the fsync. The tasks are held, so that nothing else happens."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from bench.bare_server import RECORD
from bench.lab import ROOT, BenchError, Lab, RawConnection, Scale, request
from bench.report import Figure, at_least
from client.caller import new_request_id

SUBJECT = "durable submits"
ONE_BY_ONE, PIPELINED, BATCH = 3_000, 10_000, 30_000


def measure(workshop: Path, scale: Scale) -> list[Figure]:
    """Each run has a fresh master."""
    runs = []
    for _ in range(scale.runs):
        with Lab(workshop) as lab:
            rates = _one_by_one(lab, scale), _pipelined(lab, scale), _batch(lab, scale)
            bare = _floor(lab.folder, scale)
            runs.append((*rates, _disk_alone(lab.folder, scale), _talk_alone(lab, scale), bare))
    one, pipelined, batch, disk, talk, floor = zip(*runs, strict=True)
    of_floor = tuple(rate / most for rate, most in zip(one, floor, strict=True))
    return [
        Figure(SUBJECT, "one at a time, one connection", "/s", one, at_least(4_000)),
        Figure(SUBJECT, "one at a time, to the floor", "×", of_floor, at_least(0.75)),
        Figure(SUBJECT, "the floor: read JSON, append, sync, answer", "/s", floor),
        Figure(SUBJECT, "pipelined, one connection", "/s", pipelined, at_least(25_000)),
        Figure(SUBJECT, f"one batch of {scale.of(BATCH):,}", "/s", batch, at_least(120_000)),
        Figure(SUBJECT, f"the disk alone: {RECORD} bytes and a sync", "/s", disk),
        Figure(SUBJECT, "the talk alone: a list of no rows", "/s", talk),
    ]


def _one_by_one(lab: Lab, scale: Scale) -> float:
    count = scale.of(ONE_BY_ONE)
    with lab.client() as client:
        client.submit("true", hold=True)
        begun = time.perf_counter()
        for _ in range(count):
            client.submit("true", hold=True)
        return count / (time.perf_counter() - begun)


def _pipelined(lab: Lab, scale: Scale) -> float:
    count = scale.of(PIPELINED)
    spec = {"command": "true", "hold": True}
    frames = b"".join(request(i, "task.submit", {**spec, "request_id": new_request_id()}) for i in range(count))
    with RawConnection(lab.data_port) as connection:
        connection.exchange(request(0, "server.info", {}))
        begun = time.perf_counter()
        answers = connection.exchange(frames, count)
        took = time.perf_counter() - begun
    if b'"error"' in b"".join(answers):
        raise BenchError("a submit was refused")
    return count / took


def _batch(lab: Lab, scale: Scale) -> float:
    commands = [f"python train.py --seed {seed}" for seed in range(scale.of(BATCH))]
    with lab.client() as client:
        begun = time.perf_counter()
        client.submit_batch(commands, hold=True)
        return len(commands) / (time.perf_counter() - begun)


def _floor(folder: Path, scale: Scale) -> float:
    """Return the rate of a process that does only the necessary work (`bare_server`), right after the master."""
    count = scale.of(ONE_BY_ONE)
    command = [sys.executable, "-m", "bench.bare_server", str(folder / "bare")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as server:
        if server.stdout is None:
            raise BenchError("the bare server has no stdout")
        frames = [request(i, "task.submit", {"command": "true", "hold": True}) for i in range(count)]
        with RawConnection(int(server.stdout.readline())) as connection:
            connection.exchange(request(0, "server.info", {}))
            begun = time.perf_counter()
            for frame in frames:
                connection.exchange(frame)
            return count / (time.perf_counter() - begun)


def _disk_alone(folder: Path, scale: Scale) -> float:
    """Return the rate of one writer that appends and syncs on this file system, right after the master."""
    count = scale.of(ONE_BY_ONE)
    fd = os.open(folder / "appended", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        begun = time.perf_counter()
        for _ in range(count):
            os.write(fd, b"." * RECORD)
            os.fdatasync(fd)
        return count / (time.perf_counter() - begun)
    finally:
        os.close(fd)


def _talk_alone(lab: Lab, scale: Scale) -> float:
    """Requests that change nothing and are answered with nothing, one at a time, through the same client."""
    count = scale.of(ONE_BY_ONE)
    with lab.client() as client:
        client.list_tasks(ids=[])
        begun = time.perf_counter()
        for _ in range(count):
            client.list_tasks(ids=[])
        return count / (time.perf_counter() - begun)
