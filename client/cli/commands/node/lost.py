"""Give up what runs on machines that will not come back: its tasks end as lost, and their GPUs count as free.

Should such a machine come back after all, what is left of them is killed before it takes a new task.
"""

from __future__ import annotations

import argparse

from client.cli import by_name, node_each
from client.text.quantities import counted
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.cli.context import Context

EXAMPLES = """examples:
  muster node lost a
  muster node lost a --yes && muster queue --state lost"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    node_each.add(parser)
    by_name.add_yes(parser)


def run(context: Context) -> int:
    """Do it."""

    def give_up(name: str) -> dict[str, Any] | None:
        shown = harmless(name)
        node = context.client.node(name)
        running = node_each.listed(node["tasks"]) or "no task runs there"
        if node["state"] != "online":
            context.say(f"node {shown} is {node['state']}: {harmless(node['reason'] or 'no reason is known')}")
            context.say(f"{running}; they would end as lost, for good, even if they still run on the machine")
            if not by_name.agreed(context, f"Give up node {shown}?"):
                return None
        lost = context.client.give_up_node(name)
        context.say(f"node {shown}: given up; {counted(len(lost), 'task')} lost")
        return {"name": name, "lost": lost}

    return by_name.each(context, context.options.names, give_up)
