"""`muster logs --search`: the lines of a log with a pattern, found where the log is."""

from __future__ import annotations

import sys

from client.logs import of_rank
from client.text.colours import painted
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from client.cli.context import Context


def run(context: Context) -> int:
    """Print what is found; 1 if that is nothing."""
    options = context.options
    found: Iterable[dict[str, Any]] = context.client.search_log(
        options.id,
        options.search,
        regex=options.regex,
        ignore_case=options.ignore_case,
        backwards=options.tail is not None,
        most=options.tail,
        **of_rank(options.rank),
    )
    if options.tail is not None:
        found = reversed(list(found))
    if context.json:
        matches = list(found)
        context.print_json({"id": options.id, "matches": matches})
        return 0 if matches else 1
    count = 0
    for count, match in enumerate(found, 1):
        print(_line(match, coloured=sys.stdout.isatty()), flush=count < _FLUSHED)
    if not count:
        which = "the master's log" if options.id is None else f"the log of task {options.id}"
        state = None if options.id is None else context.client.show(options.id)["state"]
        told = f": it is {state} and may not have begun" if state in ("waiting", "held", "starting") else ""
        context.note(f"no line of {which} has {harmless(options.search)!r}{told}")
    return 0 if count else 1


_FLUSHED = 100
"""So many lines are shown as they are found; of more the terminal has enough to show meanwhile."""


def _line(match: dict[str, Any], *, coloured: bool) -> str:
    text, begin, end = match["text"], match["begin"], match["end"]
    middle = harmless(text[begin:end])
    line = harmless(text[:begin]) + (painted(middle, "bad") if coloured else middle) + harmless(text[end:])
    return f"…{line}…" if match["cut"] else line
