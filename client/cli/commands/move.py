"""Put a waiting task at a place in the queue; 1 is the next one to be tried."""

from __future__ import annotations

from client.cli.arguments import fields, ids
from client.cli.arguments.wrong import wrong

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from client.cli.context import Context

EXAMPLES = """examples:
  muster move 7 1"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("id", type=ids.one, metavar="ID", help="the task's id, or name")
    parser.add_argument("position", type=_position, metavar="POSITION", help="1, 2, 3 …")


def run(context: Context) -> int:
    """Do it."""
    task_id = context.client.find_id(context.options.id)
    task = context.client.move(task_id, context.options.position)
    if context.json:
        context.print_json(task)
    context.say(f"task {task_id}: at place {context.options.position} of the queue")
    return 0


def _position(text: str) -> int:
    value = fields.whole(text)
    if value < 1:
        raise wrong("the first place is 1")
    return value
