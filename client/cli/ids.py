"""Task ids as people type them: `7`, `7 9`, `3-12`, `3,5-7`."""

from __future__ import annotations

import argparse

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
