"""Take nodes out of the registry. A busy one takes nothing new and is gone when its last task has ended."""

from __future__ import annotations

import argparse

from client.cli.several import by_name, node_each
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context
    from client.shapes import NodeRemoved

EXAMPLES = """examples:
  muster node rm a
  muster node rm a b --yes"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    node_each.add(parser)
    by_name.add_yes(parser)


def run(context: Context) -> int:
    """Do it."""

    def remove(name: str) -> NodeRemoved | None:
        shown = harmless(name)
        tasks = node_each.listed(context.client.node(name)["tasks"])
        if not by_name.agreed(context, f"{tasks}. Remove node {shown}?" if tasks else f"Remove node {shown}?"):
            return None
        removed = context.client.remove_node(name)
        left = node_each.listed(removed["tasks"])
        context.say(f"node {shown}: removed" + (f"; it is gone when its last task has ended: {left}" if left else ""))
        return removed

    return by_name.each(context, context.options.names, remove)
