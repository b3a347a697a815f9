"""A quota: what the tasks of a user, a group or a project may have of the cluster at a time. Pure."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Most = Annotated[int, Meta(ge=0, le=10**9)]


class Quota(msgspec.Struct, frozen=True, omit_defaults=True):
    """None: no such bound. `max_total_gpus`: GPUs in use; `max_manual_gpus`: those of them that named allocations hold;
    `max_gpus_per_task`: of one task; `max_running`: tasks that run."""

    max_total_gpus: Most | None = None
    max_manual_gpus: Most | None = None
    max_gpus_per_task: Most | None = None
    max_running: Most | None = None


KEYS = Quota.__struct_fields__
NO_QUOTA = Quota()


class Use(msgspec.Struct):
    """An amount of use: GPUs, those of them that named allocations hold (`manual`), and tasks that run."""

    gpus: int = 0
    running: int = 0
    manual: int = 0

    def add(self, other: Use, sign: int = 1) -> None:
        """So much more, or with -1 so much less."""
        self.gpus += sign * other.gpus
        self.running += sign * other.running
        self.manual += sign * other.manual

    def __bool__(self) -> bool:
        return bool(self.gpus or self.running)
