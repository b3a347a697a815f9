"""An attempt: one try at running a task, in one part on each node that it was sent to. Pure.

The present attempt of a task stands in the task's own fields (`Task.allocation` holds its parts); once the task waits
again, or is to be tried elsewhere, it becomes an `Attempt` among the earlier ones.
"""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

KEPT = 30
"""So many attempts of a task are kept, the newest, and the first besides; `Task.attempt` counts all."""


class Place(msgspec.Struct, frozen=True):
    """The GPUs (indices, PCI bus order) that an attempt holds on one node."""

    node: str
    gpus: list[int]


class Allocation(Place, frozen=True):
    """The share of one node that the planner gives to an attempt. `gpu_mib`: so much of each GPU, where others may
    share it; None for all of it."""

    gpu_mib: int | None = None


class Part(Place, frozen=True, omit_defaults=True):
    """The share of one node that an attempt holds, and the launch that was sent there: enough to know later whether its
    claim can still be looked up. `launch_id`: what is started there at most once, ever; not there where an old system
    started it. `boot_id`, `state_id`: the machine's start and the agent's folder then; `address`: where the node was,
    so that another machine under its name is not taken for it; `machine`: its own id, so that it is known under another
    name. `login`: the account whose agent it was sent to; not there where that is the node's own. `pid`, which is its
    session's number, and `pid_start`: the command's, once it runs, by which it is found again where the claim is lost.
    `run_as`: the account as which it runs, once it does; not there where that is the agent's, `account`. `gpu_mib`: MiB
    that it may use of each GPU; not there where it has them to itself.

    Of an attempt of several parts, each has its own end: `ended_at` (seconds since the epoch), `exit_code`; `is_free`:
    what it held was given back, while others go on.

    `clock_offset_s`: by so many seconds its node's clock was ahead of the master's (less than 0: behind) when it last
    told a time of it, which was corrected by that; not there where times are as the node told them."""

    launch_id: str = ""
    boot_id: str = ""
    state_id: str = ""
    address: str = ""
    machine: str = ""
    pid: int = 0
    pid_start: int | None = None
    run_as: str = ""
    gpu_mib: int | None = None
    account: str = ""
    ended_at: float | None = None
    exit_code: int | None = None
    is_free: bool = False
    login: str = ""
    clock_offset_s: float | None = None


_ENDS_NOTHING = frozenset({"release", "resize"})
"""If anything else ends an attempt, that is counted in their place."""


class AskedEnd(msgspec.Struct, frozen=True):
    """Why an attempt was to end before it had done what it was for, and `by` whom; "" for nobody, or nobody knows.
    `cancel`: somebody wanted that; `limit`: it went beyond one, of time, of its log, or of its share of a GPU;
    `node_lost`: its node, or its account there, was given up; `release`: of an allocation, once no task needs it;
    `allocation`: that in which it runs is to end; `resize`: it is to go on with another number of GPUs."""

    why: Literal["cancel", "limit", "node_lost", "release", "allocation", "resize"]
    by: str = ""

    def outranks(self, other: "AskedEnd | None") -> bool:
        """Is it this one that counts? The first does; but what somebody cancelled is over, whatever else was to become
        of it; a release can wait, which no other end does, and a resize is no end at all."""
        if other is None or other.why in _ENDS_NOTHING:
            return other is None or self.why not in _ENDS_NOTHING
        return self.why == "cancel" != other.why


class Attempt(msgspec.Struct, frozen=True):
    """One try at running a task. `no` counts from 1; `parts`: one for each node. Times are seconds since the epoch,
    null where it has not happened. `reason`: what there is to say of its end, beyond `exit_code`; `reason_key` and
    `reason_args`: the same for programs. `asked_end`: null if it ended by itself, or goes on. `last_line`: of one that
    ended badly, the line of its log that says most of that; null for who may not read the log."""

    no: int
    parts: list[Part]
    asked_end: AskedEnd | None
    started_at: float | None
    ended_at: float | None
    exit_code: int | None
    reason: str | None
    reason_key: str | None
    reason_args: dict[str, Any] | None
    last_line: str | None = None


def in_short(attempts: list[Attempt]) -> list[Attempt]:
    """Those that are kept of a task's attempts, the newest last: how it began, and what was lately."""
    return attempts if len(attempts) <= KEPT + 1 else [attempts[0], *attempts[-KEPT:]]


def part_on(parts: Iterable[Part], node: str) -> Part | None:
    """The part on a node, if there is one; no attempt has two there."""
    return next((part for part in parts if part.node == node), None)


def sent_as(parts: Iterable[Part], launch_id: str) -> Part | None:
    """The part that was sent under this id, if there is one."""
    for part in parts:
        if part.launch_id == launch_id:
            return part
    return None


def with_known(parts: Iterable[Part], launch_id: str, **facts: Any) -> list[Part]:
    """The parts, with what is known now of the one that was sent under this id."""
    return [msgspec.structs.replace(part, **facts) if part.launch_id == launch_id else part for part in parts]
