"""How long a task is expected to run, and who says so. Pure."""

from __future__ import annotations

from itertools import takewhile
from typing import Literal, NamedTuple, TypeAlias

import msgspec

Source: TypeAlias = Literal["command", "gpus", "owner", "all"]


class Runs(NamedTuple):
    """The runs by which somebody says how long tasks take at most: how many there are (`total`), and the number of the
    last one of each owner who has some (`last`, the newest at its end). As long as that is the same, and a task is as
    it was, so is what is said of it; for an owner who has none all runs count."""

    total: int
    last: dict[str, int]

    def owners_since(self, before: int) -> set[str]:
        """Return the owners of the runs that are newer than the first so many."""
        return set(takewhile(lambda owner: self.last[owner] > before, reversed(self.last)))


class Expected(msgspec.Struct, frozen=True):
    """How long a task is expected to run, in seconds: half of its like took no more than `low`, four of five no more
    than `high`. `source`: which these are: runs of the same `command` (its numbers apart), of the owner's with as many
    `gpus`, of the `owner`, of `all`; `runs`: how many of them were looked at, the newest."""

    low: float
    high: float
    source: Source
    runs: int
