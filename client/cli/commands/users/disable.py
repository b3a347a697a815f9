"""Let in users no more: log-ins and tokens end at once, what waits is held, what runs runs on (--cancel: ends)."""

from __future__ import annotations

import argparse

from client.cli.several import by_name
from client.text.quantities import counted
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.cli.context import Context

EXAMPLES = """examples:
  muster users disable wang
  muster users disable wang --cancel"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("names", nargs="+", metavar="NAME", help="who")
    parser.add_argument("--cancel", action="store_true", help="end what waits and runs, too")


def run(context: Context) -> int:
    """Do it."""

    def disable(name: str) -> Any:
        done = context.client.people.disable(name, cancel=context.options.cancel)
        tasks = {"held": done["held"], "running on": done["running"], "cancelled": done["cancelled"]}
        told = ", ".join(f"{counted(len(ids), 'task')} {word}" for word, ids in tasks.items() if ids)
        context.say(f"user {harmless(name)}: disabled" + (f"; {told}" if told else ""))
        return {"name": name, **done}

    return by_name.each(context, context.options.names, disable)
