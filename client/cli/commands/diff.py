"""In what two tasks differ: what was asked for, and what became of it."""

from __future__ import annotations

from client.cli.arguments import ids
from client.text.differences import code_lines, difference_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from client.cli.context import Context
    from client.shapes import Diff

EXAMPLES = """examples:
  muster diff 12 17        (it ran yesterday; why not today?)
  muster diff 17           (of an array: beside the nearest one that succeeded)
  muster diff 12 17 --json"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("id", type=ids.one, metavar="ID", help="a task's id, or name")
    parser.add_argument("other", type=ids.one, metavar="ID", nargs="?", help="that of another one")


def run(context: Context) -> int:
    """Do it."""
    found = context.client.diff(context.options.id, context.options.other)
    changed = _code(found)
    if context.json:
        context.print_json({**found, "code": changed} if changed else found)
    for line in (*difference_lines(found), *code_lines(changed)):
        context.say(line)
    return 0


def _code(found: Diff) -> dict[str, str]:
    """In which files the code differs, where both ran in a copy of it."""
    folders = next((one for one in found["fields"] if one["field"] == "cwd"), None)
    if folders is None or not any(one["field"] == "snapshot" for one in found["fields"]):
        return {}
    from client.snapshot_changes import changes

    return changes(folders["here"], folders["there"])
