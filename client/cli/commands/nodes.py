"""The machines: whether they can be reached, whether they may get tasks, what they have, and their problems."""

from __future__ import annotations

import sys

from client.cli.screen.terminal import coloured, terminal_width
from client.states import free_gpus, node_condition
from client.text.nodes import registry_fault, reservations_told, told_together
from client.text.quantities import load_text, mib
from client.text.table import render
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

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
        context.say(registry_fault(fault, colour=coloured()))
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
    troubles = [*told_together(nodes, room), *reservations_told(nodes, room)]
    if troubles:
        context.say("\n" + "\n".join(troubles))
    return 0


def _row(node: Node) -> list[str]:
    gpus = node["gpus"]
    models = dict.fromkeys(gpu.get("model") or "?" for gpu in gpus)
    unknown = not node["cpus"]  # it was never connected
    return [
        harmless(node["name"]),
        node_condition(node),
        f"{free_gpus(node)}/{len(gpus)}" if gpus else "",
        harmless(", ".join(models)),
        "" if unknown else _number(node["cpus"]),
        _number(node["slots"] or None if unknown else node["slots"]),
        mib(node["memory_mib"]) if node.get("memory_mib") else "",
        load_text(node.get("load")),
    ]


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
