"""All that is known of a node: its state and the reason, the machine, its GPUs with who holds them, its tasks."""

from __future__ import annotations

import argparse
import sys
import time

from client.cli.context import coloured, terminal_width
from client.cli.node_words import load_text, word
from client.cli.table import paint, render
from client.cli.text import harmless, mib, moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context
    from client.shapes import Gpu, NodePage

EXAMPLES = """examples:
  muster node show a
  muster node show a --json | jq '.gpus[].held_by'"""
_TITLES = ["GPU", "MODEL", "MEMORY", "USED", "BUSY", "HEALTH", "HELD BY", "OTHERS"]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("name", metavar="NAME", help="the node's name, see `muster nodes`")


def run(context: Context) -> int:
    """Do it."""
    node = context.client.node(context.options.name)
    if context.json:
        context.print_json(node)
        return 0
    for label, value in _lines(node):
        if value:
            shown = paint(value) if label == "state" and coloured() else value
            context.say(f"{label + ':':<12}{shown}")
    room = terminal_width()
    if node["gpus"]:
        rows = [_row(gpu, away=node["state"] != "online") for gpu in node["gpus"]]
        sys.stdout.write("\n" + render(_TITLES, rows, room, flexible={"MODEL": 6, "HEALTH": 8, "OTHERS": 8}))
    if node["tasks"]:
        from client.cli.queue import table

        tasks = context.client.tasks(ids=node["tasks"])
        if tasks:
            sys.stdout.write("\n" + table(tasks, time.time(), room, colour=coloured()))
    return 0


def _lines(node: NodePage) -> list[tuple[str, str]]:
    drained = f"by {node['drained_by']}, {moment(node['drained_at'])}" if node["drained_by"] else ""
    registry = {"leaving": "it is not in there any more and goes after its last task",
                "changing": "it leads to another machine now, followed after the last task here"}  # fmt: skip
    return [
        ("name", harmless(node["name"])),
        ("state", word(node)),
        ("reason", harmless(node["reason"] or "")),
        ("drained", harmless(drained)),
        ("registry", registry.get(node["registry"], "")),
        ("gpus", harmless(node.get("mismatch") or "")),
        ("reached by", harmless(_way(node))),
        ("machine", harmless(_machine(node))),
        ("cpus", _held(node["cpus"], node["cpus_held"])),
        ("slots", _held(node["slots"], node["slots_held"])),
        ("memory", mib(node["memory_mib"]) if node["memory_mib"] else ""),
        ("load", load_text(node["load"])),
        ("clock", _clock(node.get("clock_offset_s"))),
        ("labels", harmless(", ".join(f"{key}={value}" for key, value in node["labels"].items()))),
    ]


def _way(node: NodePage) -> str:
    if node["driver"] != "ssh":
        return "a process of the master's own machine" if node["driver"] == "local" else node["driver"] or ""
    return f"ssh, {node['user_name']}@{node['address']}, port {node['port']}"


def _machine(node: NodePage) -> str:
    version = f"agent {node['agent_version'][:12]}" if node["agent_version"] else ""
    python = f"Python {node['python']}" if node["python"] else ""
    return ", ".join(part for part in (node["hostname"] or "", python, version) if part)


def _clock(offset: float | None) -> str:
    """Against the master's; a second is nothing to tell: so long may a sample be under way."""
    if offset is None or abs(offset) <= 1:
        return ""
    return f"{abs(offset):.1f} s {'ahead of' if offset > 0 else 'behind'} the master's"


def _held(count: int | None, held: int) -> str:
    return f"{count} ({held} held)" if count and held else str(count or "")


def _row(gpu: Gpu, *, away: bool) -> list[str]:
    busy, health = gpu.get("utilization"), gpu.get("health") or ""
    return [
        str(gpu["index"]),
        harmless(gpu.get("model") or ""),
        mib(gpu["memory_mib"]) if gpu.get("memory_mib") else "",
        "" if gpu.get("memory_used_mib") is None else mib(gpu["memory_used_mib"]),
        "" if busy is None else f"{busy:.0f}%",
        "?" if away and health == "ok" else harmless(health),
        ", ".join(map(str, gpu.get("held_by") or [])),
        harmless(", ".join(f"{other.get('user')} ({other.get('pid')})" for other in gpu.get("foreign") or [])),
    ]
