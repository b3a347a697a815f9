"""Many clients, in one process: those that are told of changes, and those that ask for their tasks now and then.

Reads one JSON object from stdin (ports `data` and `changes`; `everything`: tokens of those that are told of all tasks,
`own`: [token, ids] of those that follow some, `askers`: tokens of those that ask, each about every `every_s` seconds);
says `ready` on stdout once all are there. For each further line on stdin it tells, as a line of JSON, how long answers
took since the line before (`asked_ms`), and when who is told of everything heard of each task whose name is a number
behind `push-`: [first, last, how many heard of it], in seconds of CLOCK_MONOTONIC, which all processes share.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import sys
import time
from dataclasses import dataclass, field
from typing import Any

MARK = "push-"
AT_A_TIME = 32
NOBODY = 65534
_MARKED = re.compile(rb'"push-([0-9]+)"')
_LONGEST = len('"push-0000000000"')


@dataclass
class Heard:
    """The measurements since the last report."""

    asked_ms: list[float] = field(default_factory=list)
    pushes: dict[int, list[float]] = field(default_factory=dict)

    def mark(self, number: int, now: float) -> None:
        """One more has heard of it."""
        first, _, count = self.pushes.get(number, [now, now, 0])
        self.pushes[number] = [first, now, count + 1]


class Client(asyncio.Protocol):
    """One connection that shows a token and then says its line."""

    def __init__(self, token: str, method: str, params: dict[str, Any]) -> None:
        self._shown = request(0, "auth.token", {"token": token})
        self._line = request(1, method, params)
        self._transport: asyncio.WriteTransport | None = None
        self._tail = b""
        self._answers = 0
        self.loop = asyncio.get_running_loop()
        self.answered: asyncio.Future[None] = self.loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Show who it is, and ask."""
        if not isinstance(transport, asyncio.WriteTransport):
            raise TypeError(f"a stream was expected, not {transport!r}")
        self._transport = transport
        transport.write(self._shown + self._line)

    def data_received(self, data: bytes) -> None:
        """Count the first two answers; what comes then is for `hear`."""
        if self.answered.done():
            self.hear(data)
            return
        if b'"error"' in data:
            sys.exit(f"a client was answered {data[:300]!r}")
        self._answers += data.count(b"\n")
        if self._answers >= 2:  # noqa: PLR2004  (the token's, and its line's)
            self.answered.set_result(None)

    def hear(self, data: bytes) -> None:
        """Take the data after the first answers."""

    def ask(self) -> None:
        """Say its line again."""
        if self._transport is not None:
            self._transport.write(self._line)

    def connection_lost(self, error: Exception | None) -> None:
        """A bench with fewer clients than it says would measure nothing."""
        sys.exit(f"the master closed a client's connection ({error})")


class Follower(Client):
    """It is told of changes, and notes when it hears of a marked task."""

    def __init__(self, token: str, params: dict[str, Any], heard: Heard) -> None:
        super().__init__(token, "subscribe", {"snapshot": "none", **params})
        self._heard = heard
        self._noted: set[int] = set()

    def hear(self, data: bytes) -> None:
        """Look for marks, one that came in two pieces included."""
        seen = self._tail + data
        for match in _MARKED.finditer(seen):
            number = int(match[1])
            if number not in self._noted:
                self._noted.add(number)
                self._heard.mark(number, time.monotonic())
        self._tail = seen[-_LONGEST:]


class Asker(Client):
    """It asks for its own tasks now and then."""

    def __init__(self, token: str, every_s: float, heard: Heard) -> None:
        super().__init__(token, "task.list", {"mine": True, "limit": 50, "sparse": True})
        self._heard = heard
        self._every_s = every_s
        self._asked_at = 0.0

    def begin(self) -> None:
        """Ask from now on."""
        self.loop.call_later(random.uniform(0, self._every_s), self._ask)

    def hear(self, data: bytes) -> None:
        """The end of an answer."""
        if data.endswith(b"\n"):
            self._heard.asked_ms.append(1000 * (time.monotonic() - self._asked_at))
            self.loop.call_later(random.uniform(0.5, 1.5) * self._every_s, self._ask)

    def _ask(self) -> None:
        self._asked_at = time.monotonic()
        self.ask()


def request(number: int, method: str, params: dict[str, Any]) -> bytes:
    """One call, as a line."""
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"


async def _join(client: Client, port: int, gate: asyncio.Semaphore) -> None:
    async with gate:
        await asyncio.get_running_loop().create_connection(lambda: client, "127.0.0.1", port)
        await client.answered


async def main() -> None:
    """Until stdin ends."""
    if os.geteuid() == 0:
        os.setuid(NOBODY)  # else the kernel says that it is the master's own user, who is not counted
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=1 << 30)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    job = json.loads(await lines.readline())
    heard, gate = Heard(), asyncio.Semaphore(AT_A_TIME)
    everything = [Follower(token, {}, heard) for token in job["everything"]]
    own = [Follower(token, {"ids": ids}, Heard()) for token, ids in job["own"]]
    askers = [Asker(token, job["every_s"], heard) for token in job["askers"]]
    await asyncio.gather(
        *(_join(client, job["changes"], gate) for client in (*everything, *own)),
        *(_join(client, job["data"], gate) for client in askers),
    )
    for one in askers:
        one.begin()
    print("ready", flush=True)
    while await lines.readline():
        print(json.dumps({"asked_ms": heard.asked_ms, "pushes": heard.pushes}), flush=True)
        heard.asked_ms, heard.pushes = [], {}


if __name__ == "__main__":
    asyncio.run(main())
