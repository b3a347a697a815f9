"""What an attempt is: one try at running a task, in one part on each node that it was sent to. Pure.

The present attempt of a task stands in the task's own fields (`Task.allocation` holds its parts); once the task waits
again, or is to be tried elsewhere, it becomes an `Attempt` among the earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

KEPT = 20
"""So many attempts of a task are kept, the newest; `Task.attempt` counts all."""


class Allocation(msgspec.Struct, frozen=True):
    """The GPUs (indices, PCI bus order) that an attempt holds on one node."""

    node: str
    gpus: list[int]


class Part(Allocation, frozen=True, omit_defaults=True):
    """What an attempt holds on one node, and what was sent there: enough to know later whether its claim can still be
    looked up. `launch_id`: what is started there at most once, ever; not there where an old system started it.
    `boot_id`, `state_id`: the machine's start and the agent's folder then; `address`: where the node was, so that
    another machine under its name is not taken for it; `machine`: its own id, so that it is known under another name.
    `pid`, which is its session's number, and `pid_start`: the command's, once it runs, by which it is found again where
    the claim is lost. `run_as`: the account as which it runs, once it does; not there where that is the agent's."""

    launch_id: str = ""
    boot_id: str = ""
    state_id: str = ""
    address: str = ""
    machine: str = ""
    pid: int = 0
    pid_start: int | None = None
    run_as: str = ""


class AskedEnd(msgspec.Struct, frozen=True):
    """Why an attempt was to end before it had done what it was for, and `by` whom; "" for nobody, or nobody knows.
    `cancel`: somebody wanted that; `limit`: it went beyond one, of time or of its log; `node_lost`: its node was given
    up."""

    why: Literal["cancel", "limit", "node_lost"]
    by: str = ""


class Attempt(msgspec.Struct, frozen=True):
    """One try at running a task. `no` counts from 1; `parts`: one for each node. Times are seconds since the epoch,
    null where it has not happened. `reason`: what there is to say of its end, beyond `exit_code`; `reason_key` and
    `reason_args`: the same for programs. `asked_end`: null if it ended by itself, or goes on."""

    no: int
    parts: list[Part]
    asked_end: AskedEnd | None
    started_at: float | None
    ended_at: float | None
    exit_code: int | None
    reason: str | None
    reason_key: str | None
    reason_args: dict[str, Any] | None


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
