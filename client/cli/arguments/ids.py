"""Tasks as people type them: `7`, `7 9`, `3-12`, `3,5-7`; `12/` is all of the array whose first task is 12; any other
word is the name of an active task of one's own, which is looked up when its id is needed."""

from __future__ import annotations

from client.cli.arguments.wrong import wrong
from client.named import is_ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from typing import Any

    from client.cli.context import Context

MAX_RANGE = 200_000
QUEUED = ("waiting", "held")
"""The states in which what people ask of waiting tasks means something."""


class Whole(int):
    """All of an array, by the id of its first task."""


class Name(str):
    """The name of a task."""

    __slots__ = ()


def one(text: str) -> int | Name:
    """A single task: its id, or its name. Raises ArgumentTypeError."""
    return number(text) if is_ids(text) else Name(text)


def number(text: str) -> int:
    """A single id. Raises ArgumentTypeError."""
    if text.isascii() and text.isdigit() and 0 < int(text) < 1 << 63:
        return int(text)
    raise wrong(f"{text!r} is not a task id (a number, see `muster queue`)")


def one_or_whole(text: str) -> int:
    """A single id, or an array. Raises ArgumentTypeError."""
    return Whole(number(text[:-1])) if text.endswith("/") else number(text)


def several(text: str) -> list[int | Name]:
    """An id, a range A-B, an array A/, or several with commas; or a name. Raises ArgumentTypeError."""
    return [*numbers(text)] if is_ids(text) else [Name(text)]


def numbers(text: str) -> list[int]:
    """The same without a name."""
    found: list[int] = []
    for part in text.split(","):
        if part.endswith("/"):
            found.append(one_or_whole(part))
            continue
        low, dash, high = part.partition("-")
        first = number(low if low and (high or not dash) else part)
        last = number(high) if dash else first
        if last < first or last - first >= MAX_RANGE:
            raise wrong(f"{part!r} is not a range: A-B with A up to B, at most {MAX_RANGE:,} ids")
        found.extend(range(first, last + 1))
    return found


def add(parser: argparse.ArgumentParser, nargs: str = "+") -> None:
    """Add the positional argument `ids`; read it with `flat`."""
    parser.add_argument(
        "ids",
        nargs=nargs,
        type=several,
        metavar="ID",
        help="tasks: 7, 3-12, 3,5-7; 12/: the array of which 12 is the first; or the name of an active one of yours",
    )


def flat(context: Context, states: Iterable[str] | None = None) -> list[int]:
    """All ids, in order, each once. `states`: of an array only those of its tasks that are in one of these."""
    found: list[int] = []
    for said in (said for group in context.options.ids for said in group):
        found += of_array(context, said, states) if isinstance(said, Whole) else [context.client.find_id(said)]
    return list(dict.fromkeys(found))


def of_after(context: Context, after: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Predecessors with their ids, where they were named."""
    return [{**one, "id": context.client.find_id(one["id"])} for one in after]


def of_array(context: Context, array: int, states: Iterable[str] | None = None) -> list[int]:
    """The ids of an array's tasks that are in one of the states; None: of all that the master has at hand."""
    which = {} if states is None else {"states": sorted(states)}
    found = sorted(task["id"] for task in context.client.tasks(array=int(array), history=False, **which))
    if not found:
        context.note(f"no task of array {array} is like that")
    return found


def of_state(context: Context, states: list[str] | None, *, with_allocations: bool = True) -> list[int]:
    """The ids of the caller's tasks (with --all of everybody's) that are in one of the states; None: not finished.
    Tasks that finished so long ago that only the history has them are left out: those would be years of failures.
    `with_allocations`: those, too, which end only when somebody wants that."""
    which = {"states": states} if states else {"active": True}
    whose = {} if getattr(context.options, "all", False) else {"mine": True}
    found = context.client.tasks(history=False, **which, **whose)
    return sorted(task["id"] for task in found if with_allocations or not task.get("is_allocation"))
