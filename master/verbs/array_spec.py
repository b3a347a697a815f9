"""Read the request of an array: its indices (`0-9:2,20%3`), or the values of a sweep; and the command of each task.

Pure. A value that goes into words is a part of a word, whatever is in it. In a text for bash it must be one that means
nothing to bash, wherever it stands, be it in quotes or not: for all others there is the variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod

from wire.errors import BadRequestError
from wire.message import Message

MOST_INDEX = 10**9
_PART = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10})(?::([0-9]{1,10}))?)?")
_CAP = re.compile(r"[0-9]{1,7}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_PLAIN = re.compile(r"[A-Za-z0-9_.,:/+@%=-]*")
"""Values that bash reads as they stand, in quotes of either kind and without."""
INDEX = "index"


def read_indices(text: str, most: int) -> tuple[list[int], int | None]:
    """`0-9:2,20%3` as indices, in their order, and the cap. Raises BadRequestError for what is none, and for more than
    `most`."""
    said, percent, cap = text.replace(" ", "").partition("%")
    if percent and (not _CAP.fullmatch(cap) or int(cap) == 0):
        raise BadRequestError(Message("bad_array", array=text))
    ranges: list[range] = []
    for part in said.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise BadRequestError(Message("bad_array", array=text))
        first = int(match[1])
        last, step = int(match[2] or first), int(match[3] or 1)
        if last < first or step == 0 or last > MOST_INDEX:
            raise BadRequestError(Message("bad_array", array=text))
        ranges.append(range(first, last + 1, step))
        if (count := sum(map(len, ranges))) > most:
            raise BadRequestError(Message("array_too_large", count=count, most=most))
    indices = [index for one in ranges for index in one]
    if len(set(indices)) != len(indices):
        raise BadRequestError(Message("array_index_twice", array=text))
    return indices, int(cap) if percent else None


def check_sweep(sweep: Mapping[str, Sequence[str]], most: int) -> int:
    """How many tasks a sweep is. Raises BadRequestError for what is none, and for more than `most`."""
    for name, values in sweep.items():
        if not _NAME.fullmatch(name) or name == INDEX or not values:
            raise BadRequestError(Message("bad_sweep", name=name))
        if any("\0" in value for value in values) or len(set(values)) != len(values):
            raise BadRequestError(Message("bad_sweep", name=name))
    count = prod(map(len, sweep.values()))
    if count > most:
        raise BadRequestError(Message("array_too_large", count=count, most=most))
    return count


def points_of(sweep: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
    """The values of each task of a sweep, by name; those that were named last change fastest."""
    return (dict(zip(sweep, values, strict=True)) for values in product(*sweep.values()))


class Template:
    """A command with `{name}` for some names. Raises BadRequestError where a value could mean something to bash."""

    def __init__(self, command: list[str] | str, values: Mapping[str, Sequence[str]]) -> None:
        found = "|".join(map(re.escape, (INDEX, *values)))
        self._names = re.compile(rf"(?<!\$)\{{({found})\}}")  # `${lr}` is a variable of bash's
        self._command = command
        text = command if isinstance(command, str) else "\n".join(command)
        self.used = set(self._names.findall(text))
        if isinstance(command, str):
            for name in sorted(self.used & values.keys()):
                for value in values[name]:
                    if not _PLAIN.fullmatch(value):
                        raise BadRequestError(Message("sweep_value_for_bash", name=name, value=value))

    def filled(self, values: Mapping[str, str]) -> list[str] | str:
        """The command with these values; the very same one, where none of it changes."""
        if not self.used:
            return self._command
        if isinstance(self._command, str):
            return self.text(self._command, values)
        return [self.text(word, values) for word in self._command]

    def text(self, text: str, values: Mapping[str, str]) -> str:
        """A text with these values."""
        return self._names.sub(lambda found: values.get(found[1], found[0]), text)
