"""Change what a task asks for. The keys are the options of `submit`; an empty value takes a wish back."""

from __future__ import annotations

import argparse

from client.cli.arguments import fields, ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.cli.context import Context

EXAMPLES = f"""keys: {", ".join(fields.VALUES)},
      command (a bash line), urgent (yes or no), var.NAME (all variables are set anew),
      owner (whose it is: for admins)

examples:
  muster edit 7 gpus=2 priority=5
  muster edit 7 node= after=        (on any node, after nothing)
  muster edit 7 command='python3 train.py --lr 0.01' urgent=yes"""
_EMPTY: dict[str, object] = {
    "after": [], "name": "", "project": "", "env": "", "setup": "", "cwd": "", "log": "", "gpus": 0, "priority": 0,
}  # fmt: skip


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("id", type=ids.one, metavar="ID", help="the task's id")
    parser.add_argument("changes", nargs="+", type=change, metavar="KEY=VALUE", help="see the keys below")


def change(text: str) -> tuple[str, Any]:
    """KEY=VALUE as a field of the wire and its value. Raises ArgumentTypeError."""
    key, equals, value = text.partition("=")
    key = key.strip().replace("_", "-")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    if key.startswith("var."):
        return "variables", dict([fields.variable(f"{text.partition('.')[2]}")])
    if key == "owner":
        return "owner", value
    if key == "urgent":
        return "urgent", fields.yes(value)
    if key == "command":
        if not value.strip():
            raise argparse.ArgumentTypeError("command: it is empty; a task has one: command='python3 train.py'")
        return "command", value
    if key not in fields.VALUES:
        raise argparse.ArgumentTypeError(
            f"there is no key {key!r}; there are {', '.join(fields.VALUES)}, command, urgent, owner"
        )
    field, read, *_ = fields.VALUES[key]
    return field, read(value) if value else _EMPTY.get(key)


def run(context: Context) -> int:
    """Do it."""
    changes: dict[str, Any] = {}
    for field, value in context.options.changes:
        changes[field] = {**changes.get(field, {}), **value} if field == "variables" else value
    task = context.client.edit(context.options.id, **changes)
    if context.json:
        context.print_json(task)
    context.say(f"task {context.options.id}: changed {', '.join(changes)}")
    return 0
