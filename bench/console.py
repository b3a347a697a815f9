"""Two hundred pages and a Chromium that are open beside everybody else: what they cost the master, and how soon each of
them is told, with everything open and with each user shown own tasks only.

The pages sit in a process of their own, subscribed to tasks and nodes, while tasks come and go. Their cost to the
master is its CPU time with them less its CPU time without them, on the same changes. A push is as long as it takes from
before a submit is asked for until the last of the pages has heard of the task, its way to the disk included.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import re
import ssl
import statistics
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from bench import console_pages
from bench.console_lab import CHROMIUM, SIGN_IN, ConsoleLab, console_of
from bench.lab import DEADLINE_S, BenchError, Scale, cpu_seconds
from bench.report import Figure, at_most
from tests.web.browser import PATIENCE_MS

SUBJECT = "200 pages of the console"
PAGES, USERS = 200, 20
WATCH_S, SETTLE_S = 20.0, 1.0
CHANGES_A_SECOND = 20
MOST = {"open": 3.0, "own": 10.0}
"""Per cent of a core of the master's."""
PAINT_MS, PUSH_MS = 500.0, 250.0
_TASK = re.compile(r'"task":\{"id":([0-9]+)')


class Told(NamedTuple):
    """The changes that the pages received: the median of their counts, and when the last page received each task."""

    changes: float
    heard_at: dict[int, float]


class Load(NamedTuple):
    """Tasks that came and went: seconds of the master's CPU a second, and when each was asked for (monotonic)."""

    spent: float
    asked_at: dict[int, float]


class Cost(NamedTuple):
    """Per cent of a core; changes that a page was told a second; ms until the last page has heard, in the middle and of
    one in twenty; MiB of the console; ms until a page's first paint."""

    cpu: float
    changes: float
    push: float
    slow_push: float
    memory: float
    paint: float


class Pages(NamedTuple):
    """Settings of the pages' process: the console's port, the authority that it trusts, and the tokens of its users."""

    port: int
    authority: str
    tokens: list[str]
    how_many: int


def measure(workshop: Path, scale: Scale) -> list[Figure]:
    """With either privacy, in a fresh master; then what the pages themselves cost."""
    figures = []
    for privacy, most in MOST.items():
        with ConsoleLab(workshop, privacy) as lab:
            costs = [_cost(lab, scale) for _ in range(scale.runs)]
        cpu, changes, push, slow_push, memory, paint = zip(*costs, strict=True)
        figures += [
            Figure(SUBJECT, f"master's CPU for them, {privacy}", "%", cpu, at_most(most)),
            Figure(SUBJECT, f"changes told to each, {privacy}", "/s", changes),
            Figure(SUBJECT, f"submit to the last page told, {privacy}", "ms", push, at_most(PUSH_MS)),
            Figure(SUBJECT, f"the same, one in twenty, {privacy}", "ms", slow_push),
            Figure(SUBJECT, f"the console's memory, {privacy}", "MiB", memory),
            Figure(SUBJECT, f"first paint in Chromium, {privacy}", "ms", paint, at_most(PAINT_MS)),
        ]
    return figures + console_pages.measure(workshop, scale)


def _cost(lab: ConsoleLab, scale: Scale) -> Cost:
    seconds = WATCH_S * scale.share
    with console_of(lab) as console:
        without = _load(lab, seconds).spent
        with _pages(lab, scale.of(PAGES)) as (pipe, token), _browser(lab, token) as paint:
            pipe.send("begin")
            load = _load(lab, seconds)
            pipe.send("end")
            told: Told = pipe.recv()
            memory = _memory_mib(console)
    pushes = sorted(1000 * (told.heard_at[task] - at) for task, at in load.asked_at.items() if task in told.heard_at)
    if len(pushes) < len(load.asked_at) - 1:
        raise BenchError(f"the pages heard of {len(pushes)} of {len(load.asked_at)} tasks")
    slow = pushes[len(pushes) * 19 // 20]
    cpu = max(0.0, 100 * (load.spent - without))
    return Cost(cpu, told.changes / seconds, statistics.median(pushes), slow, memory, paint)


def _memory_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@contextmanager
def _browser(lab: ConsoleLab, token: str) -> Iterator[float]:
    """A Chromium that has the queue open; ms until its first paint, the browser being warm."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  (it is long in loading)

    url = f"https://localhost:{lab.web_port}"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = chromium.new_context(ignore_https_errors=True).new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(url)
        page.evaluate(SIGN_IN, [token])
        page.goto(f"{url}/queue")
        page.wait_for_selector(".live.is-live")
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        yield float(paint)
        chromium.close()


def _load(lab: ConsoleLab, seconds: float) -> Load:
    """Tasks that come and go."""
    asked_at: dict[int, float] = {}
    with lab.client() as client:
        begun, used, done = time.monotonic(), cpu_seconds([lab.pid]), 0
        while (passed := time.monotonic() - begun) < seconds:
            if done < passed * CHANGES_A_SECOND:
                at = time.monotonic()
                task = client.submit("true", hold=True)
                asked_at[task] = at
                client.remove(task)
                done += 2
            else:
                time.sleep(0.005)
        return Load((cpu_seconds([lab.pid]) - used) / passed, asked_at)


@contextmanager
def _pages(lab: ConsoleLab, count: int) -> Iterator[tuple[Connection, str]]:
    """So many pages, open and told of everything once; and a token of one of those before them."""
    with lab.client() as owner:
        there = {user["name"] for user in owner.people.users()}
        names = [f"user{number}" for number in range(USERS)]
        for name in names:
            if name not in there:
                owner.people.add(name)
        tokens = [owner.people.new_token(name)["token"] for name in names]
    asked = Pages(lab.web_port, str(lab.folder / "task_info" / "web" / "authority.pem"), tokens, count)
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=run_pages, args=(asked, theirs), daemon=True)
    process.start()
    try:
        if not ours.poll(DEADLINE_S) or ours.recv() != "connected":
            raise BenchError("the pages could not be opened")
        yield ours, tokens[0]
    finally:
        process.kill()
        process.join(10)


def run_pages(asked: Pages, pipe: Connection) -> None:
    """The pages' process."""
    asyncio.run(_open_all(asked, pipe))


async def _open_all(asked: Pages, pipe: Connection) -> None:
    context = ssl.create_default_context(cafile=asked.authority)
    logins = [await asyncio.to_thread(_sign_in, asked.port, context, token) for token in asked.tokens]
    heard = [0] * asked.how_many
    newest = [0] * asked.how_many
    heard_at: dict[int, float] = {}

    def hear(number: int, frame: str) -> None:
        heard[number] += 1
        task = _TASK.search(frame, 0, 200)
        if task is not None and int(task[1]) > newest[number]:
            newest[number] = int(task[1])
            heard_at[newest[number]] = time.monotonic()

    open_ones = [asyncio.Event() for _ in range(asked.how_many)]
    tasks = [
        asyncio.create_task(_page(asked, context, logins[at % len(logins)], hear=partial(hear, at), is_open=is_open))
        for at, is_open in enumerate(open_ones)
    ]
    await asyncio.gather(*(one.wait() for one in open_ones))
    pipe.send("connected")
    while await asyncio.to_thread(pipe.recv) == "begin":
        heard[:] = [0] * asked.how_many
        heard_at.clear()
        await asyncio.to_thread(pipe.recv)
        await asyncio.sleep(SETTLE_S)  # what is on its way
        pipe.send(Told(statistics.median(heard), heard_at))
    for task in tasks:
        task.cancel()


def _sign_in(port: int, context: ssl.SSLContext, token: str) -> tuple[str, str]:
    """The cookie and the key of a log-in."""
    origin = f"https://localhost:{port}"
    asked = urllib.request.Request(  # noqa: S310  (the address is ours)
        f"{origin}/session", json.dumps({"token": token}).encode(), {"Origin": origin}, method="POST"
    )
    with urllib.request.urlopen(asked, context=context, timeout=DEADLINE_S) as told:  # noqa: S310
        return told.headers["Set-Cookie"].partition(";")[0], json.load(told)["key"]


async def _page(
    asked: Pages,
    context: ssl.SSLContext,
    login: tuple[str, str],
    *,
    hear: Callable[[str], None],
    is_open: asyncio.Event,
) -> None:
    from websockets.asyncio.client import connect  # noqa: PLC0415  (in the pages' process alone)
    from websockets.typing import Origin  # noqa: PLC0415

    cookie, key = login
    async with connect(
        f"wss://localhost:{asked.port}/live", ssl=context, origin=Origin(f"https://localhost:{asked.port}"),
        additional_headers={"Cookie": cookie}, compression=None, max_size=None, open_timeout=DEADLINE_S,
    ) as socket:  # fmt: skip
        await socket.send(json.dumps({"key": key}))
        for at, stream in enumerate(("tasks", "nodes")):
            params = {"stream": stream}
            await socket.send(json.dumps({"jsonrpc": "2.0", "id": at, "method": "subscribe", "params": params}))
        answered = 0
        async for frame in socket:
            answered += '"id":' in frame[:40] and '"method"' not in frame[:40]
            if answered > 1:
                is_open.set()
            if '"task.changed"' in frame[:60]:
                hear(str(frame))
