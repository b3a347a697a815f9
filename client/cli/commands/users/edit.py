"""Change the data and quotas of a user (`none` is no bound). An empty value removes a field; `expires=never` is no
end."""

from __future__ import annotations

import argparse

from client.cli.arguments import fields, pairs, quotas
from client.cli.labs import closed_nodes
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.cli.context import Context

EXAMPLES = """examples:
  muster users edit wang role=viewer
  muster users edit wang display=王伟 mail=wang@lab.example expires=2027-07-31
  muster users edit wang max_total_gpus=8 max_running=none"""
_KEYS = ("role", "display", "mail", "language", "expires", *quotas.KEYS)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("name", metavar="NAME", help="who")
    pairs.add(parser, "changes", _change, _KEYS.__contains__, text=f"keys: {', '.join(_KEYS)}")


def _change(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or key not in _KEYS:
        raise pairs.none_such(text, _KEYS)
    if key in quotas.KEYS:
        return key, quotas.value(value)
    return ("expires_at", fields.until(value or "never")) if key == "expires" else (key, value)


def run(context: Context) -> int:
    """Do it."""
    changes = dict(context.options.changes)
    user = context.client.people.edit(context.options.name, **changes)
    if context.json:
        context.print_json(user)
    context.say(f"user {harmless(context.options.name)}: changed {', '.join(changes)}")
    if changes.get("role") in ("user", None) and changes.keys() & {"role", "expires_at"}:
        closed_nodes.tell(context)
    return 0
