"""Change a node's entry in the registry. An empty value takes the key out, so that its default holds."""

from __future__ import annotations

import argparse

from client.cli.arguments import node_keys, pairs
from client.cli.several import node_each
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.cli.context import Context

EXAMPLES = f"""keys: {", ".join(node_keys.VALUES)}, schedulable (yes or no), label.NAME

examples:
  muster node edit a gpus=3 gpu-model=RTX3090
  muster node edit a port=2222 proxy=         (no proxy any more)
  muster node edit a schedulable=no label.room=2"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("name", metavar="NAME", help="the node's name, see `muster nodes`")
    pairs.add(parser, "changes", node_keys.change, node_keys.is_key, text="see the keys below")


def run(context: Context) -> int:
    """Do it."""
    name = context.options.name
    said: dict[str, Any] = dict(context.options.changes)
    edited = context.client.edit_node(name, _changes(context, name, said))
    if context.json:
        context.print_json(edited)
        return 0
    context.say(f"node {harmless(name)}: changed {harmless(', '.join(said))}")
    if edited["deferred"]:
        running = node_each.listed(edited["tasks"])
        context.say(f"it takes effect when its last task has ended, and no new ones start before: {running}")
    return 0


def _changes(context: Context, name: str, said: dict[str, Any]) -> dict[str, Any]:
    """Return the changes to request. All labels are one key of the entry, so the unchanged labels have to be sent
    again."""
    changes = {key: value for key, value in said.items() if not key.startswith("label.")}
    lists = [key for key, value in changes.items() if isinstance(value, list)]
    labels = {key.partition(".")[2]: value for key, value in said.items() if key.startswith("label.")}
    if not lists and not labels:
        return changes
    node = context.client.node(name)
    count = changes.get("gpu_count", len(node["gpus"]))
    for key in lists:
        changes[key] = node_keys.spread(changes[key], count)
    if labels:
        kept = {key: value for key, value in {**node["labels"], **labels}.items() if value is not None}
        changes["labels"] = kept or None
    return changes
