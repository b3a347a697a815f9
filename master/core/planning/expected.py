"""How long a task is expected to run, and who says so. Pure."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Source: TypeAlias = Literal["command", "gpus", "owner", "all"]


class Expected(msgspec.Struct, frozen=True):
    """How long a task is expected to run, in seconds: half of its like took no more than `low`, four of five no more
    than `high`. `source`: which these are: runs of the same `command` (its numbers apart), of the owner's with as many
    `gpus`, of the `owner`, of `all`; `runs`: how many of them were looked at, the newest."""

    low: float
    high: float
    source: Source
    runs: int
