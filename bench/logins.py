"""Many log in at once: who comes in, who is told to wait, and how long everybody else waits meanwhile."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import loop_times
from bench.lab import BenchError, Lab, Scale, request
from bench.loop_times import LoopTimes, watched
from bench.report import Figure, at_least, at_most, percentile

SUBJECT = "log-ins, 1,000 a minute"
ATTEMPTS, NAMES, MINUTE_S = 1000, 200, 60.0
ADDRESSES = 250
RIGHT_ONES = 2
"""One in so many has the right password."""
PASSWORD = "gull kettle orchard lantern"  # noqa: S105
SAMPLE_S = 0.02
_MS = 1000


@dataclass
class Heard:
    """What came of the attempts. `wrong`: of those with a wrong password that came in."""

    right: int = 0
    wrong: int = 0
    busy: int = 0
    refused: int = 0
    waits: list[float] = field(default_factory=list)
    stalls: list[float] = field(default_factory=list)
    loop: LoopTimes = field(default_factory=LoopTimes)


def measure(workshop: Path, scale: Scale) -> list[Figure]:
    """Each run has a fresh master, and takes a minute, or its share."""
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


def _most_of(scale: Scale) -> Any:
    return at_least(int(300 * scale.share))


def _p99(runs: list[Heard]) -> tuple[float, ...]:
    return tuple(percentile(run.stalls, 0.99) * _MS for run in runs)


async def _one(workshop: Path, scale: Scale) -> Heard:
    heard, count = Heard(), scale.of(ATTEMPTS)
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
                attempts.append(asyncio.create_task(_attempt(lab.data_port, number, scale.of(NAMES), heard)))
            await asyncio.gather(*attempts)
            over.set()
            await sampling
    return heard


async def _attempt(port: int, number: int, names: int, heard: Heard) -> None:
    is_right = number % RIGHT_ONES == 0
    password = PASSWORD if is_right else f"{PASSWORD} {number}"
    name = f"user{number * 7 % names}"
    begun = time.perf_counter()
    answer = await _asked(port, number, "auth.login", {"name": name, "password": password})
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


async def _asked(port: int, number: int, verb: str, params: dict[str, Any]) -> dict[str, Any]:
    """One call from an address of its own."""
    place = number % ADDRESSES
    local = (f"127.1.{place // 250}.{1 + place % 250}", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=local)
    try:
        writer.write(request(1, verb, params))
        line = await reader.readline()
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    answer: dict[str, Any] = json.loads(line) if line else {}
    return answer


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
