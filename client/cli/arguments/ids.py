"""Task ids as people type them: `7`, `7 9`, `3-12`, `3,5-7`."""

from __future__ import annotations

import argparse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

MAX_RANGE = 200_000


def one(text: str) -> int:
    """A single id. Raises ArgumentTypeError."""
    if text.isascii() and text.isdigit() and 0 < int(text) < 1 << 63:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a task id (a number, see `muster queue`)")


def several(text: str) -> list[int]:
    """An id, a range A-B, or several with commas. Raises ArgumentTypeError."""
    found: list[int] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        first = one(low)
        last = one(high) if dash else first
        if last < first or last - first >= MAX_RANGE:
            raise argparse.ArgumentTypeError(f"{part!r} is not a range: A-B with A up to B, at most {MAX_RANGE:,} ids")
        found.extend(range(first, last + 1))
    return found


def add(parser: argparse.ArgumentParser, nargs: str = "+") -> None:
    """Add the positional argument `ids`; read it with `flat`."""
    parser.add_argument("ids", nargs=nargs, type=several, metavar="ID", help="task ids: 7, 3-12, 3,5-7")


def flat(options: argparse.Namespace) -> list[int]:
    """All ids, in order, each once."""
    return list(dict.fromkeys(task_id for group in options.ids for task_id in group))


def of_state(context: Context, states: list[str] | None) -> list[int]:
    """The ids of the caller's tasks (with --all of everybody's) that are in one of the states; None: not ended. What
    ended so long ago that only the history has it is not meant: it would be years of failures."""
    which = {"states": states} if states else {"active": True}
    whose = {} if getattr(context.options, "all", False) else {"mine": True}
    return sorted(task["id"] for task in context.client.tasks(history=False, **which, **whose))
