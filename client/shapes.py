"""The typed shapes of what the master answers, for annotations. Plain dicts at run time; nothing is checked here."""

from __future__ import annotations

from typing import Any, TypedDict


class After(TypedDict):
    """A predecessor: `on` is `ok`, `fail` or `any`."""

    id: int
    on: str


class Allocation(TypedDict):
    """The GPU indices that an attempt holds on one node."""

    node: str
    gpus: list[int]


class Task(TypedDict):
    """A task as `queue --json` shows it. Times are seconds since the epoch, None where it has not happened."""

    id: int
    name: str
    owner: str
    project: str
    state: str
    reason: str | None
    command: list[str] | str
    cwd: str
    env: str
    gpus: int
    gpu_memory_mib: int | None
    share: bool
    node: str | None
    after: list[After]
    priority: int
    urgent: bool
    time_limit_s: float | None
    attempt: int
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    exit_code: int | None
    log_path: str
    cancel_requested: bool
    allocation: list[Allocation]


class Gpu(TypedDict):
    """One GPU of a node. Memory in MiB, `utilization` in percent; None where nothing is known."""

    index: int
    model: str | None
    memory_mib: int | None
    memory_used_mib: int | None
    utilization: float | None
    health: str | None
    held_by: list[int]
    foreign: list[dict[str, Any]]


class Node(TypedDict):
    """A node as `nodes --json` shows it."""

    name: str
    state: str
    schedulable: bool
    reason: str | None
    gpus: list[Gpu]
    cpus: int | None
    slots: int | None
    memory_mib: int | None
    load: Any


class Why(TypedDict):
    """The answer to `why`."""

    id: int
    state: str
    reason: str | None
    blocked_by: list[Any]
    details: list[str]


class Cancelled(TypedDict):
    """What a cancel did: gone from the queue at once, told to end, or refused (id, as a string: why; and in
    `codes` the error's stable name)."""

    cancelled: list[int]
    signalled: list[int]
    refused: dict[str, str]
    codes: dict[str, str]
