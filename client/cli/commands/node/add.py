"""Write a node into the registry. It takes part at once; one that is reached by ssh needs `node trust` first."""

from __future__ import annotations

import argparse
from shlex import quote

from client.cli.arguments import node_keys
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.cli.context import Context

EXAMPLES = """examples:
  muster node add b --ip 192.168.36.131 --user lab --gpus 2 --gpu-model RTX3090 --key-file ~/.ssh/id_ed25519
  muster node add c --ip 10.0.0.7 --user lab --gpus 8 --proxy socks5://gate:1080 --label room=2
  muster node add here --driver local --gpus 0 --slots 4"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("name", metavar="NAME", help="what to call it; tasks go by it")
    for option, (key, read, metavar, text) in node_keys.VALUES.items():
        parser.add_argument(f"--{option}", dest=key, type=read, metavar=metavar, help=text, required=option == "gpus")
    parser.add_argument("--label", dest="labels", type=node_keys.label, action="append", metavar="KEY=VALUE",
                        help="a word about it, for people (may be repeated)")  # fmt: skip


def entry_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the entry of the registry for the options that were given."""
    entry: dict[str, Any] = {"name": options.name}
    for key, *_ in node_keys.VALUES.values():
        value = getattr(options, key)
        if value is not None:
            entry[key] = node_keys.spread(value, options.gpu_count) if isinstance(value, list) else value
    if options.labels:
        entry["labels"] = dict(options.labels)
    return entry


def run(context: Context) -> int:
    """Do it."""
    added = context.client.add_node(entry_of(context.options))
    if context.json:
        context.print_json(added)
        return 0
    name = harmless(context.options.name)
    context.say(f"node {name} is in the registry")
    if added["needs_trust"]:
        context.say(f"its host key is not known yet; look at it with: muster node trust {quote(name)}")
    if added["node"]["driver"] == "report":
        context.say(f"its agent dials in, with a token: muster node token {quote(name)}")
    return 0
