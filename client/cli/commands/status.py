"""The whole at a glance: the master, its nodes and their problems, how many tasks are in which state."""

from __future__ import annotations

import time
from collections import Counter

from client.cli.screen.terminal import coloured, terminal_width
from client.states import node_condition
from client.text.colours import painted_state
from client.text.nodes import conf_fault, registry_fault, told_together
from client.text.people import FULL_PART, full_queue, share_lines
from client.text.quantities import duration, moment
from client.text.settings import outranking_line
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import Any

    from client.cli.context import Context
    from client.shapes import Node

EXAMPLES = """examples:
  muster status
  muster status --json | jq .tasks
  muster status --seen         you have seen what it says of damage; it does not say it again"""
_TROUBLES = 5
FELT_S = 0.25
"""So long nobody should wait for everybody."""
_SENTENCES = {"desktop": "desktop_closed", "users": "closed_nodes", "hooks": "failing_hooks", "clock": "clock"}
"""The lists of sentences that it shows, and the word before each."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("--seen", action="store_true", help="you have seen what it says of damage: do not say it again")


def run(context: Context) -> int:
    """Do it."""
    if context.options.seen:
        context.client.seen()
    info = context.client.info()
    from client.cli.programs import console_process

    metrics = _metrics(context)
    if metrics is not None:
        info["metrics"] = metrics
    console = console_process.found(context.options)
    if console is not None:
        info["web"] = console
    if context.json:
        context.print_json(info)
        return 0
    nodes = context.client.nodes()
    for fault, worded in (("registry_fault", registry_fault), ("conf_fault", conf_fault)):
        if info.get(fault):
            context.say(worded(info[fault], colour=coloured()))
    lines = [*_master(context.address, info), *_faults(info), *_work(info, nodes)]
    if metrics is not None:
        lines.append(("metrics", _writer(metrics)))
    lines += [("console", line) for line in _console_lines(info.get("console"), console)]
    for title, text in lines:
        context.say(f"{title:<8} {text}")
    for line in _troubles(nodes, terminal_width()):
        context.say(line)
    if not any((info.get("tasks") or {}).values()):
        context.say("\nno tasks yet; submit one with: muster submit -- CMD …")
    return 0


def _master(address: Any, info: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield lines about the master and its settings, each with its title."""
    since = duration(time.time() - info["started_at"])
    yield "master", f"{address}, version {info['version']}, up for {since}, pid {info['pid']}"
    if info.get("user"):
        yield "you", f"{harmless(info['user'])} (`muster whoami`)"
    if info.get("conf_at_start"):
        yield "conf", f"takes effect at the next start: {', '.join(map(harmless, info['conf_at_start']))}"
    for one in info.get("conf_outranked") or ():
        yield "set", outranking_line(one)
    for line in _certificate(info.get("tls") or {}):
        yield "tls", line
    for title, key in _SENTENCES.items():
        for one in info.get(key) or ():
            yield title, harmless(one["text"])


def _faults(info: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield lines about what the disk or the loop did not do, each with its title."""
    if info.get("store_fault"):
        yield "disk", f"no new tasks are taken: {harmless(info['store_fault'])}"
    if info.get("compaction_fault"):
        yield "journal", f"grows and is not compacted: {harmless(info['compaction_fault'])}"
    if info.get("ids_fault"):
        yield "ids", harmless(info["ids_fault"])
    for line in _loop(info.get("loop") or {}):
        yield "loop", line
    if info.get("unsaved"):
        yield "unsaved", _unsaved(info["unsaved"])
    for loss in info.get("damage") or ():
        yield "damage", f"{moment(loss['at'])}: {harmless(loss['what'])} (`muster status --seen` ends this line)"


def _work(info: dict[str, Any], nodes: list[Node]) -> Iterator[tuple[str, str]]:
    """Yield lines about nodes, GPUs and tasks, each with its title."""
    yield "nodes", _counts(Counter(node_condition(node) for node in nodes))
    yield "gpus", _gpus(nodes)
    yield "tasks", _counts(info.get("tasks"))
    yield from _queue(info)
    if info.get("warned"):
        yield "idle", _idle(info["warned"])


def _queue(info: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield lines about shares of the queue of which much is taken. An earlier master says nothing of them."""
    for line in share_lines(info.get("share")):
        yield "queue", f"of yours {line}"
    for one in info.get("near_shares") or ():
        if one["user"] != info.get("user"):
            for line in share_lines(one, FULL_PART):
                yield "queue", f"of {harmless(one['user'])} {line}"
    for text, cure in full_queue(info):
        yield "queue", f"{text}: {cure}"


def _certificate(tls: dict[str, Any]) -> list[str]:
    """Return lines about what clients pin, when the certificate expires, and what is wrong with it."""
    lines = []
    if tls.get("authority"):
        ends = f", certificate until {moment(tls['ends'])}" if tls.get("ends") else ""
        lines.append(f"authority {harmless(tls['authority'])}{ends}")
    return lines + [harmless(problem["text"]) for problem in tls.get("problems") or ()]


def _loop(told: dict[str, Any]) -> list[str]:
    """For how long nobody was answered, where that was long enough to be felt: the longest since the master began."""
    if not told.get("longest") or told["longest"][0]["wall"] < FELT_S:
        return []
    longest = told["longest"][0]
    where = f", in {harmless(longest['where'].rpartition(' > ')[2])}" if longest["where"] else ""
    ago = duration(max(0.0, time.time() - longest["at"]))
    took = f"{longest['wall'] * 1000:,.0f} ms ({longest['cpu'] * 1000:,.0f} ms of a CPU)"
    return [f"nobody was answered for {took} {ago} ago{where}; more in --json"]


def _metrics(context: Context) -> dict[str, Any] | None:
    """Of the writer of metrics: its pid, its last word and what became of its points; None where conf.json wants none
    or lies elsewhere."""
    from client.cli.programs import beside, writer_process

    conf = beside.conf_of(context.options)
    if conf is None or not beside.WRITER.is_configured(conf):
        return None
    try:
        pid = beside.WRITER.pid(conf)
    except PermissionError:
        return None  # another user's lab
    return {"pid": pid, "last_word": beside.WRITER.last_word(conf), **writer_process.tally(conf, pid)}


def _console_lines(url: str | None, console: dict[str, Any] | None) -> list[str]:
    """Where it is, and its problems; from elsewhere only where it should be."""
    from client.cli.programs import console_process

    if console is None:
        return [harmless(url)] if url else []
    return [harmless(line) for line in console_process.lines(console)]


def _writer(metrics: dict[str, Any]) -> str:
    """That nobody writes is a trouble; what the writer says last is how InfluxDB does."""
    state = (
        f"pid {metrics['pid']}" if metrics["pid"] else "NOT written: the writer does not run (`muster up` starts it)"
    )
    return "; ".join(part for part in (state, _points(metrics), harmless(metrics["last_word"])) if part)


def _points(metrics: dict[str, Any]) -> str:
    """How many points are written and when the last were; others only where there are some."""
    if "written" not in metrics:
        return ""
    at = metrics.get("last_write")
    last = f", the last {duration(max(0.0, time.time() - at))} ago" if at else ""
    told = [f"{metrics['written']:,} points written{last}"]
    told += [f"{metrics[name]:,} {name}" for name in ("waiting", "dropped", "refused") if metrics.get(name)]
    return ", ".join(told)


def _counts(counts: dict[str, Any] | None) -> str:
    found = [f"{count:,} {_state(state)}" for state, count in (counts or {}).items() if count]
    return ", ".join(found) or "none"


def _unsaved(ids: list[int]) -> str:
    told = ", ".join(map(str, ids[:_TROUBLES])) + (", …" if len(ids) > _TROUBLES else "")
    return f"the newest changes of {told} are taken back if the master ends before the disk takes writes again"


def _idle(ids: list[int]) -> str:
    told = ", ".join(map(str, ids[:_TROUBLES])) + (", …" if len(ids) > _TROUBLES else "")
    subject = "1 running task does" if len(ids) == 1 else f"{len(ids):,} running tasks do"
    return f"{subject} nothing with the GPUs held: {told} (`muster why ID`)"


def _troubles(nodes: list[Node], room: int | None) -> list[str]:
    found = told_together([{**node, "gpus": [], "mismatch": None, "own_account": None} for node in nodes], room)
    more = len(found) - _TROUBLES
    lines = found[:_TROUBLES] + ([f"… and {more} more: `muster nodes`"] if more > 0 else [])
    return ["", *lines] if lines else []


def _state(state: str) -> str:
    return painted_state(state) if coloured() else state


def _gpus(nodes: list[Node]) -> str:
    gpus = [gpu for node in nodes for gpu in node["gpus"]]
    if not gpus:
        return "none"
    there = [gpu for node in nodes if node["state"] == "online" for gpu in node["gpus"] if not gpu.get("held_by")]
    closed = sum(gpu.get("health") not in ("ok", None) for gpu in there)
    held = sum(bool(gpu.get("held_by")) for gpu in gpus)
    return f"{held} of {len(gpus)} in use{f', {closed} closed to tasks (`muster nodes`)' if closed else ''}"
