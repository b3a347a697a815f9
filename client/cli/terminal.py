"""The terminal, or what stands in its place: how wide it is, whether it has colours, what is said on stderr, and a
question to whoever sits there."""

from __future__ import annotations

import os
import sys


def note(text: str) -> None:
    """A line on stderr, after what stdout holds so far."""
    sys.stdout.flush()
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def said_yes(question: str) -> bool:
    """Whether somebody at the terminal answers with yes."""
    sys.stdout.flush()
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def terminal_width() -> int | None:
    """Columns of the terminal on stdout, None where it is none: then nothing is cut, so that grep finds all."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns) > 0:
        return int(columns)
    try:
        return (os.get_terminal_size(sys.stdout.fileno()).columns or 80) if sys.stdout.isatty() else None
    except OSError:
        return None


def coloured() -> bool:
    """Whether to use colour: on a terminal, unless NO_COLOR is set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
