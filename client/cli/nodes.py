"""The machines: whether they can be reached, whether they may get tasks, and what they have."""

from __future__ import annotations

import argparse
import sys

from client.cli.context import coloured, terminal_width
from client.cli.table import render
from client.cli.text import harmless, mib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context
    from client.shapes import Node

EXAMPLES = """examples:
  muster nodes
  muster nodes --json | jq '.[] | {name, state}'"""
_TITLES = ["NAME", "STATE", "GPUS FREE", "MODEL", "CPUS", "SLOTS", "MEMORY", "LOAD", "REASON"]


def arguments(parser: argparse.ArgumentParser) -> None:
    """This command has no options of its own."""


def run(context: Context) -> int:
    """Do it."""
    nodes = context.client.nodes()
    if context.json:
        context.print_json(nodes)
        return 0
    if not nodes:
        context.say("there are no nodes; they are listed in gpu_slaver_info.json beside conf.json")
        return 0
    sys.stdout.write(
        render(
            _TITLES,
            [_row(node) for node in nodes],
            terminal_width(),
            flexible={"NAME": 6, "MODEL": 6, "REASON": 10},
            right=frozenset({"CPUS", "SLOTS", "MEMORY", "LOAD"}),
            coloured="STATE" if coloured() else None,
        )
    )
    return 0


def load_text(load: object) -> str:
    """A load average (the first of three, or one number); empty where it is not known."""
    first = load[0] if isinstance(load, list) and load else load
    return f"{first:.1f}" if isinstance(first, int | float) else ""


def _row(node: Node) -> list[str]:
    gpus = node["gpus"]
    free = sum(not gpu.get("held_by") for gpu in gpus)
    models = dict.fromkeys(gpu.get("model") or "?" for gpu in gpus)
    reason = node.get("reason") or ""
    if not node["schedulable"]:
        reason = f"gets no tasks: {reason}" if reason else "gets no tasks"
    return [
        harmless(node["name"]),
        node["state"],
        f"{free}/{len(gpus)}" if gpus else "",
        harmless(", ".join(models)),
        _number(node.get("cpus")),
        _number(node.get("slots")),
        mib(node["memory_mib"]) if node.get("memory_mib") else "",
        load_text(node.get("load")),
        harmless(reason),
    ]


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
