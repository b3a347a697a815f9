"""Let nodes, or with --gpu some GPUs of one, finish what they have and take nothing new, until `node resume`. It
outlasts a restart of the master."""

from __future__ import annotations

import argparse
import time

from client.cli.several import by_name, node_each
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context
    from client.shapes import Node

EXAMPLES = """examples:
  muster node drain a --reason "new fan"
  muster node drain a b --wait && ssh a poweroff
  muster node drain a --gpu 1 --reason overheats"""
_PAUSES_S = (0.05, 1.0)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    node_each.add(parser)
    parser.add_argument("--reason", default="", metavar="TEXT", help="why, for people")
    parser.add_argument("--wait", action="store_true", help="return when nothing runs there any more")
    node_each.add_gpu(parser, "set only these GPUs aside; what runs on them goes on")


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Check what the parser cannot check itself."""
    node_each.check_gpu(parser, options)
    if options.gpus and options.wait:
        parser.error("--wait goes with whole nodes, not with --gpu")


def run(context: Context) -> int:
    """Do it."""

    def drain(name: str) -> Node:
        gpus: list[int] | None = context.options.gpus
        node = context.client.drain(name, context.options.reason, gpus)
        if gpus:
            held = {task for gpu in node["gpus"] if gpu["index"] in gpus for task in gpu["held_by"]}
            running = node_each.listed(sorted(held))
            context.say(f"node {harmless(name)}: {node_each.gpus_named(gpus)} set aside" + _then(running))
            return node
        running = node_each.listed(node["tasks"])
        context.say(f"node {harmless(name)}: drained" + _then(running))
        return node

    code = by_name.each(context, context.options.names, drain)
    if context.options.wait and code == 0:
        for name in context.options.names:
            _wait(context, name)
            context.say(f"node {harmless(name)}: nothing runs there any more")
    return code


def _then(running: str) -> str:
    return f"; {running}" if running else ""


def _wait(context: Context, name: str) -> None:
    from wire.errors import NotFoundError

    pause, longest = _PAUSES_S
    try:
        while context.client.node(name)["tasks"]:
            time.sleep(pause)
            pause = min(pause * 1.5, longest)
    except NotFoundError:
        return  # it left the registry, which a node does only when nothing runs there
