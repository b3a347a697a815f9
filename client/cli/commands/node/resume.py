"""Let drained nodes take tasks again; with --gpu return GPUs that were set aside, by somebody or by themselves.

With --own-account a node whose tasks run as the master's own account runs everybody's tasks again. Since a second user
was added it runs admins' tasks only. It is refused while a user who is no admin may log in, and the next one who is
added closes the node again."""

from __future__ import annotations

import argparse

from client.cli.several import by_name, node_each
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context
    from client.shapes import Node

EXAMPLES = """examples:
  muster node resume a
  muster node resume a --gpu 0,1
  muster node resume a --own-account"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    node_each.add(parser)
    node_each.add_gpu(parser, "return only these GPUs; one that is still broken is set aside again")
    parser.add_argument(
        "--own-account", action="store_true", help="let everybody's tasks run as the master's own account there again"
    )


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Check what the parser cannot check itself."""
    node_each.check_gpu(parser, options)
    if options.own_account and options.gpus:
        parser.error("--own-account: leave --gpu out")


def run(context: Context) -> int:
    """Do it."""

    def resume(name: str) -> Node:
        gpus: list[int] | None = context.options.gpus
        node = context.client.resume_node(name, gpus, own_account=context.options.own_account)
        still = f", but takes no tasks yet: {harmless(node['reason'])}" if node["reason"] else ""
        done = f"{node_each.gpus_named(gpus)} returned" if gpus else "resumed"
        if context.options.own_account:
            done = "open to everybody's tasks again, which run as the master's own account"
        context.say(f"node {harmless(name)}: {done}{still}")
        return node

    return by_name.each(context, context.options.names, resume)
