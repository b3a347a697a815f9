"""The machines: whether they can be reached, whether they may get tasks, what they have, and what ails them."""

from __future__ import annotations

import argparse
import sys

from client.cli.context import coloured, terminal_width
from client.cli.node_words import load_text, registry_fault, trouble, word
from client.cli.table import render
from client.cli.text import harmless, mib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context
    from client.shapes import Node

EXAMPLES = """examples:
  muster nodes
  muster nodes --json | jq '.[] | {name, state}'"""
_TITLES = ["NAME", "STATE", "GPUS FREE", "MODEL", "CPUS", "SLOTS", "MEMORY", "LOAD"]


def arguments(parser: argparse.ArgumentParser) -> None:
    """This command has no options of its own."""


def run(context: Context) -> int:
    """Do it."""
    nodes = context.client.nodes()
    if context.json:
        context.print_json(nodes)
        return 0
    fault = context.client.info().get("registry_fault")
    if fault:
        context.say(registry_fault(fault))
    if not nodes:
        context.say("there are no nodes; add one with: muster node add NAME --ip ADDRESS --user NAME --gpus N")
        return 0
    room = terminal_width()
    sys.stdout.write(
        render(
            _TITLES,
            [_row(node) for node in nodes],
            room,
            flexible={"NAME": 6, "MODEL": 6},
            right=frozenset({"CPUS", "SLOTS", "MEMORY", "LOAD"}),
            coloured="STATE" if coloured() else None,
        )
    )
    troubles = [line for line in (trouble(node, room) for node in nodes) if line]
    if troubles:
        context.say("\n" + "\n".join(troubles))
    return 0


def _row(node: Node) -> list[str]:
    gpus = node["gpus"]
    free = sum(not gpu.get("held_by") and gpu.get("health") in ("ok", None) for gpu in gpus)
    models = dict.fromkeys(gpu.get("model") or "?" for gpu in gpus)
    return [
        harmless(node["name"]),
        word(node),
        f"{free}/{len(gpus)}" if gpus else "",
        harmless(", ".join(models)),
        _number(node.get("cpus")),
        _number(node.get("slots")),
        mib(node["memory_mib"]) if node.get("memory_mib") else "",
        load_text(node.get("load")),
    ]


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
