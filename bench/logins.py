"""Many log in at once: who comes in, who is told to wait, and how long everybody else waits meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import loop_times
from bench.crowd_side import socket_of
from bench.lab import BenchError, Lab, Scale, request
from bench.loop_times import LoopTimes, watched
from bench.report import Figure, Target, at_least, at_most, percentile

SUBJECT = "log-ins, 1,000 a minute"
ATTEMPTS, NAMES, MINUTE_S = 1000, 200, 60.0
ACCOUNTS, FIRST_ACCOUNT = 50, 61_000
"""The attempts come from accounts of this machine with these uids; the master counts failures by account."""
RIGHT_ONES = 2
"""One in so many has the right password."""
PASSWORD = "gull kettle orchard lantern"  # noqa: S105
SAMPLE_S = 0.02
SEED = 1
_MS = 1000


@dataclass
class Heard:
    """The results of the log-ins. `wrong`: log-ins with a wrong password that were accepted."""

    right: int = 0
    wrong: int = 0
    busy: int = 0
    refused: int = 0
    waits: list[float] = field(default_factory=list)
    stalls: list[float] = field(default_factory=list)
    loop: LoopTimes = field(default_factory=LoopTimes)


def measure(workshop: Path, scale: Scale) -> list[Figure]:
    """Each run has a fresh master, and takes a minute, or its share."""
    if os.geteuid() != 0:
        print("logins: all attempts come from one account, for others need root; no target is set", file=sys.stderr)
    runs = [asyncio.run(_one(workshop, scale)) for _ in range(scale.runs)]
    longest = tuple(max(run.stalls) * _MS for run in runs)
    return [
        Figure(SUBJECT, "right passwords that came in", "", tuple(run.right for run in runs), _most_of(scale)),
        Figure(SUBJECT, "wrong passwords that came in", "", tuple(run.wrong for run in runs), at_most(0)),
        Figure(SUBJECT, "told to wait", "", tuple(run.busy for run in runs)),
        Figure(SUBJECT, "refused", "", tuple(run.refused for run in runs)),
        Figure(SUBJECT, "a log-in, p95", "ms", tuple(percentile(run.waits, 0.95) * _MS for run in runs)),
        Figure(SUBJECT, "server.info of the owner meanwhile, p99", "ms", _p99(runs), at_most(100)),
        Figure(SUBJECT, "server.info of the owner meanwhile, worst", "ms", longest),
        *loop_times.figures("the loop, log-ins", [run.loop for run in runs], at_most(50)),
    ]


def _most_of(scale: Scale) -> Target | None:
    """The target. An account that shows so many wrong passwords has to wait, also with the right ones."""
    return at_least(int(300 * scale.share)) if os.geteuid() == 0 else None


def _p99(runs: list[Heard]) -> tuple[float, ...]:
    return tuple(percentile(run.stalls, 0.99) * _MS for run in runs)


async def _one(workshop: Path, scale: Scale) -> Heard:
    heard, count = Heard(), scale.of(ATTEMPTS)
    chance = random.Random(SEED)
    with Lab(workshop) as lab:
        with lab.client() as client:
            for number in range(scale.of(NAMES)):
                client.call("user.add", {"name": f"user{number}", "password": PASSWORD})
        with watched(lab) as heard.loop:
            over = asyncio.Event()
            sampling = asyncio.create_task(_sample(lab.data_port, heard, over))
            begun, attempts = time.monotonic(), []
            for number in range(count):
                await asyncio.sleep(max(0.0, begun + number * MINUTE_S / ATTEMPTS - time.monotonic()))
                name, account = chance.randrange(scale.of(NAMES)), FIRST_ACCOUNT + chance.randrange(ACCOUNTS)
                attempts.append(asyncio.create_task(_attempt(lab.data_port, number, f"user{name}", account, heard)))
            await asyncio.gather(*attempts)
            over.set()
            await sampling
    return heard


async def _attempt(port: int, number: int, name: str, account: int, heard: Heard) -> None:
    is_right = number % RIGHT_ONES == 0
    password = PASSWORD if is_right else f"{PASSWORD} {number}"
    begun = time.perf_counter()
    answer = await _asked(port, account, "auth.login", {"name": name, "password": password})
    heard.waits.append(time.perf_counter() - begun)
    code = answer.get("error", {}).get("data", {}).get("code")
    if "result" in answer:
        heard.right, heard.wrong = heard.right + is_right, heard.wrong + (not is_right)
    elif code == "limit":
        heard.busy += 1
    elif code == "unauthenticated" and not is_right:
        heard.refused += 1
    else:
        raise BenchError(f"a log-in was answered {answer}")


async def _asked(port: int, account: int, verb: str, params: dict[str, Any]) -> dict[str, Any]:
    """One call, of this account if we are root."""
    reader, writer = await asyncio.open_connection(sock=_connected(account, port))
    try:
        writer.write(request(1, verb, params))
        line = await reader.readline()
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    answer: dict[str, Any] = json.loads(line) if line else {}
    return answer


def _connected(account: int, port: int) -> socket.socket:
    sock = socket_of(account)
    sock.connect(("127.0.0.1", port))
    return sock


async def _sample(port: int, heard: Heard, over: asyncio.Event) -> None:
    """How long the owner waits for an answer, again and again."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    while not over.is_set():
        begun = time.perf_counter()
        writer.write(request(1, "server.info", {}))
        if not await reader.readline():
            raise BenchError("the owner was cut off")
        heard.stalls.append(time.perf_counter() - begun)
        await asyncio.sleep(SAMPLE_S)
    writer.close()
    await writer.wait_closed()
