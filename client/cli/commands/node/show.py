"""All that is known of a node: its state and the reason, the machine, its GPUs with who holds them, its tasks."""

from __future__ import annotations

import argparse
import sys
import time

from client.cli.screen.terminal import coloured, terminal_width
from client.text.colours import painted_state
from client.text.node_page import node_page
from client.text.quantities import mib
from client.text.table import render
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context
    from client.shapes import Gpu

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
    for label, value in node_page(node):
        shown = painted_state(value) if label == "state" and coloured() else value
        context.say(f"{label + ':':<12}{shown}")
    room = terminal_width()
    if node["gpus"]:
        rows = [_row(gpu, away=node["state"] != "online") for gpu in node["gpus"]]
        sys.stdout.write("\n" + render(_TITLES, rows, room, flexible={"MODEL": 6, "HEALTH": 8, "OTHERS": 8}))
    if node["tasks"]:
        from client.text.tasks import table

        tasks = context.client.tasks(ids=node["tasks"])
        if tasks:
            sys.stdout.write("\n" + table(tasks, time.time(), room, colour=coloured()))
    return 0


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
