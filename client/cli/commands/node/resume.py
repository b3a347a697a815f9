"""Let drained nodes take tasks again; with --gpu return GPUs that were set aside, by somebody or by themselves."""

from __future__ import annotations

import argparse

from client.cli import by_name, node_each
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context
    from client.shapes import Node

EXAMPLES = """examples:
  muster node resume a
  muster node resume a --gpu 0,1"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    node_each.add(parser)
    node_each.add_gpu(parser, "return only these GPUs; one that is still broken is set aside again")


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """What the parser cannot know of itself."""
    node_each.check_gpu(parser, options)


def run(context: Context) -> int:
    """Do it."""

    def resume(name: str) -> Node:
        gpus: list[int] | None = context.options.gpus
        node = context.client.resume_node(name, gpus)
        still = f", but takes no tasks yet: {harmless(node['reason'])}" if node["reason"] else ""
        done = f"{node_each.gpus_named(gpus)} returned" if gpus else "resumed"
        context.say(f"node {harmless(name)}: {done}{still}")
        return node

    return by_name.each(context, context.options.names, resume)
