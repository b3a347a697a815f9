"""Stop, start or restart the agents: the helper that the master keeps on each machine. Tasks run on meanwhile.

A stopped agent stays away, also after a restart of the master: nothing starts there and ends are not noticed until
`agents start`.
"""

from __future__ import annotations

from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from client.cli.context import Context

EXAMPLES = """examples:
  muster agents restart
  muster agents stop a b
  muster agents start"""
_DONE = {"stop": "stopped", "start": "started", "restart": "restarted"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("action", choices=list(_DONE), metavar="ACTION", help=", ".join(_DONE))
    parser.add_argument("nodes", nargs="*", default=[], metavar="NODE", help="whose agents (default: all)")


def run(context: Context) -> int:
    """Do it."""
    client, action = context.client, context.options.action
    verb = {"stop": client.stop_agents, "start": client.start_agents, "restart": client.restart_agents}[action]
    result = verb(context.options.nodes)
    if context.json:
        context.print_json(result)
    for name in result["done"]:
        context.say(f"node {harmless(name)}: agent {_DONE[action]}")
    for name, why in result["refused"].items():
        context.note(f"error: conflict: node {harmless(name)}: {harmless(why)}")
    return 1 if result["refused"] else 0
