"""The costs of the console's pages in the browser: how soon a page is painted and ten thousand rows are there, what a
tick of 60 nodes and 50 tasks takes of script, what an hour of ticks leaves in memory, how soon the end of a log of a
GiB is shown and another place of it, and how much is loaded.

One Chromium on a real master with 60 nodes that dial in (`bench.far_agents`). Script is counted in CPU time of the
page's thread, so that what else the machine does is not told as ours. The ticks of an hour are the master's own
messages, as they came, with other figures and newer numbers, handed to the page one tick every other frame.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Browser, BrowserContext, CDPSession, Page, sync_playwright

from bench.console_lab import CHROMIUM, SIGN_IN, FarConsoleLab, console_of
from bench.far_lab import How
from bench.lab import DEADLINE_S, Scale, eventually
from bench.report import Figure, at_most
from client.api import Client
from tests.web.browser import PATIENCE_MS

SUBJECT = "the console's pages in Chromium"
NODES, RUNNING, WAITING = 60, 50, 10_000
TICKS, HOUR_TICKS = 100, 3_600
LOG_BYTES, BLOCK = 1 << 30, 1 << 20
OPENED = 5
FOREVER_S = (1e6, 1e6)
WATCH = """(() => {
    window.firstSeen = {};
    const look = () => {
        for (const selector of ["td.of-id", ".log-line", '.log-line[data-at="0"]'])
            if (!(selector in firstSeen) && document.querySelector(selector)) firstSeen[selector] = performance.now();
    };
    new MutationObserver(look).observe(document, { childList: true, subtree: true, attributes: true });
})()"""
LOADED = """() => {
    const ours = performance.getEntriesByType("resource").filter((one) => one.name.includes("/static/"));
    const sum = (key) => ours.reduce((all, one) => all + one[key], 0);
    return [sum("decodedBodySize"), sum("encodedBodySize"), ours.length];
}"""
TICK = """async ([ticks, many, isHour]) => {
    const there = document.querySelector("script").src.replace("start.js", "");
    const { store } = await import(there + "core/context.js");
    const samples = [...store.cluster.samples.values()];
    const running = [...store.cluster.tasks.values()].filter((task) => task.state === "running").slice(0, many);
    const whole = (task) => Object.fromEntries((function* () { for (const key in task) yield [key, task[key]]; })());
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    let seq = Math.max(...running.map((task) => task.seq ?? 0)) + 1_000_000;
    let number = 1_000_000;
    for (let tick = 0; tick < ticks; tick += 1) {
        for (const sample of samples) {
            const memory_used_mib = (tick * 977) % 40_000;
            const used = (gpu) => ({ ...gpu, utilization: (gpu.utilization + 7 * tick) % 101, memory_used_mib });
            const gpus = sample.gpus.map(used);
            store.live.told("node.sample", structuredClone({ ...sample, cpu_percent: (tick * 13) % 101, gpus }));
        }
        const changed = (task, news) => structuredClone({ ...whole(task), ...news });
        const tell = (task, news) => store.live.told("task.changed", { task: changed(task, news) });
        for (const task of running) tell(task, { gpu_peak_mib: tick, seq: (seq += 1) });
        const ended = { state: "succeeded", exit_code: 0, ended_at: Date.now() / 1000 };
        if (isHour && tick % 2 === 0) tell(running[0], { ...ended, id: (number += 1), seq: (seq += 1) });
        await frame();
        await frame();
    }
}"""


class Opened(NamedTuple):
    """ms until a first paint and until rows are there, of these ms of a CPU in the page's thread; and what was loaded:
    bytes, bytes on the way, files."""

    paint: float
    rows: float
    cpu: float
    loaded: list[float]


def measure(workshop: Path, scale: Scale) -> list[Figure]:
    """In one lab, the browser begun anew for each run."""
    how = How(run_s=FOREVER_S, busy=True)
    with FarConsoleLab(workshop, NODES, how) as lab, lab.agents(), console_of(lab):
        with lab.client() as client:
            token = _fill(client, scale)
            log = _long_log(client, max(BLOCK, int(LOG_BYTES * scale.share)))
        runs = [_run(lab.web_port, token, log, scale) for _ in range(scale.runs)]
    paint, rows, cpu, overview, queue, heap, last, jump, size, sent, zh_size, zh_sent, files = zip(*runs, strict=True)
    return [
        Figure(SUBJECT, "first paint of a first visit", "ms", paint, at_most(500)),
        Figure(SUBJECT, f"{WAITING:,} rows usable, first visit", "ms", rows, at_most(800)),
        Figure(SUBJECT, "the same, CPU of the page's thread", "ms", cpu),
        Figure(SUBJECT, "script of a tick, overview", "ms", overview, at_most(20)),
        Figure(SUBJECT, "script of a tick, queue", "ms", queue, at_most(20)),
        Figure(SUBJECT, "JavaScript's memory after an hour", "MB", heap, at_most(80)),
        Figure(SUBJECT, "log of 1 GiB: last screen", "ms", last, at_most(150)),
        Figure(SUBJECT, "log of 1 GiB: a jump to its start", "ms", jump, at_most(200)),
        Figure(SUBJECT, "files of a first visit", "kB", size, at_most(250)),
        Figure(SUBJECT, "the same as sent", "kB", sent, at_most(80)),
        Figure(SUBJECT, "files of a first visit in Chinese", "kB", zh_size, at_most(250)),
        Figure(SUBJECT, "the same as sent, Chinese", "kB", zh_sent, at_most(80)),
        Figure(SUBJECT, "files of a first visit, number", "", files),
    ]


def _fill(client: Client, scale: Scale) -> str:
    """Tasks that hold every node, and those that wait; a token of a user who sees them."""
    client.people.add("ann", role="admin")
    client.submit_batch([f"python train.py --fold {fold}" for fold in range(NODES)], gpus=8, name="train")
    eventually(lambda: client.info()["tasks"]["running"] >= NODES, "the tasks that run", 0.2)
    client.submit_batch([f"python train.py --seed {seed}" for seed in range(scale.of(WAITING))], gpus=8, name="sweep")
    return str(client.people.new_token("ann")["token"])


def _long_log(client: Client, size: int) -> int:
    """A task whose log is so large."""
    task = client.submit("echo begin", node="here", gpus=0)
    client.wait([task], DEADLINE_S)
    line = "epoch 3  step {:07}  loss 1.2345  lr 3.0e-04  48210 samples/s\n"
    block = "".join(line.format(step) for step in range(BLOCK // len(line.format(0)) + 1)).encode()
    with Path(client.show(task)["log_path"]).open("ab") as log:
        log.writelines(block for _ in range(size // len(block)))
    return task


def _run(port: int, token: str, log: int, scale: Scale) -> tuple[float, ...]:
    with _chromium() as browser:
        url = f"https://localhost:{port}"
        context = browser.new_context(ignore_https_errors=True)
        page = context.new_page()
        page.goto(url)
        page.evaluate(SIGN_IN, [token])
        opened = _open(browser, context, f"{url}/queue?show=waiting")
        chinese = _open(browser, context, f"{url}/queue?show=waiting", "zh-CN").loaded
        overview, _ = _tick(context, url, scale)
        queue, heap = _tick(context, f"{url}/queue", scale, hour=max(1, int(HOUR_TICKS * scale.share)))
        last, jump = _log_times(context, url, log)
        size, sent, files = opened.loaded
    sizes = [one / 1000 for one in (size, sent, *chinese[:2])]
    return opened.paint, opened.rows, opened.cpu, overview, queue, heap, last, jump, *sizes, files


@contextmanager
def _chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def _page(context: BrowserContext) -> Page:
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.add_init_script(WATCH)
    return page


def _open(browser: Browser, signed_in: BrowserContext, url: str, language: str = "en") -> Opened:
    """With a browser that has nothing but the log-in yet."""
    state = signed_in.storage_state()
    for origin in state["origins"]:
        origin["localStorage"] = [one for one in origin["localStorage"] if one["name"] == "muster.key"]
    context = browser.new_context(ignore_https_errors=True, storage_state=state, locale=language)
    page = _page(context)
    told = context.new_cdp_session(page)
    told.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(url)
    page.wait_for_selector("td.of-id")
    cpu = 1000 * _metrics(told)["TaskDuration"]
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    rows = page.evaluate("firstSeen['td.of-id']")
    loaded = page.evaluate(LOADED)
    context.close()
    return Opened(paint, rows, cpu, loaded)


def _tick(context: BrowserContext, url: str, scale: Scale, hour: int = 0) -> tuple[float, float]:
    """Milliseconds of script that a tick takes; MB that are in use after those of an hour."""
    page = _page(context)
    page.goto(url)
    page.wait_for_selector(".live.is-live")
    page.wait_for_function("() => document.querySelectorAll('td.of-id, .gpu').length > 20")
    page.evaluate(TICK, [10, RUNNING, False])  # its code is compiled
    told = context.new_cdp_session(page)
    told.send("Performance.enable", {"timeDomain": "threadTicks"})
    ticks = scale.of(TICKS)
    before = _metrics(told)["ScriptDuration"]
    page.evaluate(TICK, [ticks, RUNNING, False])
    script = 1000 * (_metrics(told)["ScriptDuration"] - before) / ticks
    if hour:
        page.evaluate(TICK, [hour, RUNNING, True])
    told.send("HeapProfiler.collectGarbage")
    heap = _metrics(told)["JSHeapUsedSize"] / 1e6
    page.close()
    return script, heap


def _metrics(told: CDPSession) -> dict[str, Any]:
    return {one["name"]: one["value"] for one in told.send("Performance.getMetrics")["metrics"]}


def _log_times(context: BrowserContext, url: str, task: int) -> tuple[float, float]:
    """Milliseconds from a click until the end of the log is shown, and until its start is: the quickest of some, as
    what else the machine does makes none of them quicker."""
    page = _page(context)
    page.goto(f"{url}/queue?show=ended")
    last, jump = [], []
    for _ in range(OPENED):
        page.wait_for_selector(f"a[href='tasks/{task}']")
        last.append(_until_seen(page, f"a[href='tasks/{task}']", ".log-line"))
        page.wait_for_timeout(300)
        jump.append(_until_seen(page, ".log-tools button:nth-of-type(3)", '.log-line[data-at="0"]'))
        page.go_back()
    page.close()
    return min(last), min(jump)


def _until_seen(page: Page, click: str, awaited: str) -> float:
    page.evaluate("() => { firstSeen = {}; }")
    begun = page.evaluate(
        "selector => { const at = performance.now(); document.querySelector(selector).click(); return at; }", click
    )
    end = time.monotonic() + DEADLINE_S
    while (at := page.evaluate("selector => firstSeen[selector] ?? null", awaited)) is None and time.monotonic() < end:
        page.wait_for_timeout(20)
    return float(at) - float(begun)
