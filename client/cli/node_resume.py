"""Let drained nodes take tasks again."""

from __future__ import annotations

import argparse

from client.cli import node_each
from client.cli.text import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context
    from client.shapes import Node

EXAMPLES = """examples:
  muster node resume a"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    node_each.add(parser)


def run(context: Context) -> int:
    """Do it."""

    def resume(name: str) -> Node:
        node = context.client.resume_node(name)
        still = f", but takes no tasks yet: {harmless(node['reason'])}" if node["reason"] else ""
        context.say(f"node {harmless(name)}: resumed{still}")
        return node

    return node_each.each(context, context.options.names, resume)
