"""One machine: `node show NAME`."""

from __future__ import annotations

import argparse
import sys

from client.cli.context import coloured, terminal_width
from client.cli.nodes import load_text
from client.cli.table import paint, render
from client.cli.text import harmless, mib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context
    from client.shapes import Gpu

EXAMPLES = """examples:
  muster node show local"""
_TITLES = ["GPU", "MODEL", "MEMORY", "USED", "BUSY", "HEALTH", "HELD BY", "OTHERS"]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("action", choices=["show"], help="what to do")
    parser.add_argument("name", metavar="NAME", help="the node's name, see `muster nodes`")


def run(context: Context) -> int:
    """Do it."""
    node = context.client.node(context.options.name)
    if context.json:
        context.print_json(node)
        return 0
    state = paint(node["state"]) if coloured() else node["state"]
    takes = "may get tasks" if node["schedulable"] else "gets no tasks"
    reason = f" ({harmless(node['reason'] or '')})" if node.get("reason") else ""
    context.say(f"{harmless(node['name'])}: {state}, {takes}{reason}")
    facts = [("cpus", node.get("cpus")), ("slots", node.get("slots")), ("load", load_text(node.get("load")))]
    facts.append(("memory", mib(node["memory_mib"]) if node.get("memory_mib") else None))
    context.say("  ".join(f"{label} {value}" for label, value in facts if value) or "nothing is known of it yet")
    if node["gpus"]:
        rows = [_row(gpu) for gpu in node["gpus"]]
        sys.stdout.write("\n" + render(_TITLES, rows, terminal_width(), flexible={"MODEL": 6, "OTHERS": 8}))
    return 0


def _row(gpu: Gpu) -> list[str]:
    busy = gpu.get("utilization")
    return [
        str(gpu["index"]),
        harmless(gpu.get("model") or ""),
        mib(gpu["memory_mib"]) if gpu.get("memory_mib") else "",
        "" if gpu.get("memory_used_mib") is None else mib(gpu["memory_used_mib"]),
        "" if busy is None else f"{busy:.0f}%",
        harmless(gpu.get("health") or ""),
        ", ".join(map(str, gpu.get("held_by") or [])),
        harmless(", ".join(f"{other.get('user')} ({other.get('pid')})" for other in gpu.get("foreign") or [])),
    ]
