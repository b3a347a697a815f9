"""A core for a test: nodes that are online at once, and the usual things done to a task in one line.

It checks itself: after every event, also one that was refused, all its parts agree.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from master.config.settings import Caps, Settings
from master.core.attempts.exits import Exit
from master.core.core import Core
from master.core.nodes.inventory import Facts, NodeSpec, NodeState
from master.core.nodes.nodes import NONE_OWNED
from master.core.tasks.task import Task
from wire.agent import PROTOCOL

BOOT = Facts(
    boot_id="boot-1",
    state_id="state-1",
    cpus=4,
    memory_mib=1000,
    tmp_disk_mib=5000,
    protocol=PROTOCOL,
    runs_as="owners",
)
REBOOTED = Facts(boot_id="boot-2", state_id="state-1", cpus=4, memory_mib=1000, protocol=PROTOCOL, runs_as="owners")
EIGHT = NodeSpec(name="a", gpu_models=("GPU",) * 8)

LOGS = "/logs"


class CheckedCore(Core):
    """A core whose parts are compared after each call of one of its events."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        is_event = callable(found) and not name.startswith("_") and name != "sanity_check"
        return _then_checked(found, super().__getattribute__("sanity_check")) if is_event else found


def _then_checked(event: Callable[..., Any], check: Callable[[], None]) -> Callable[..., Any]:
    @wraps(event)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            return event(*args, **kwargs)
        finally:
            check()

    return checked


def core_with(
    *specs: NodeSpec, online: bool = True, waiting_limit: int = 1000, licences: Mapping[str, int] = NONE_OWNED
) -> Core:
    """A core with these nodes (one with 8 GPUs), empty."""
    numbers = itertools.count(1)
    conf = Settings(limits=Caps(waiting_tasks=waiting_limit))
    core = CheckedCore(
        specs or (EIGHT,),
        lambda task, attempt: f"{task}.{attempt}.{next(numbers)}",
        conf,
        licences=licences,
        log_folder=LOGS,
    )
    for spec in specs or (EIGHT,):
        if online:
            core.node_state(spec.name, NodeState.ONLINE, None, BOOT)
    core.take_outcome()
    return core


def submit(core: Core, **wants: object) -> Task:
    """File one task."""
    return core.submit([Task(id=0, command="true", **wants)], 1.0)[0]  # type: ignore[arg-type]


def run(core: Core, task: Task, code: int = 0) -> None:
    """Plan, start and end a task."""
    core.plan(0.0)
    assert task.allocation
    core.started(task.allocation[0].node, task.allocation[0].launch_id, 2.0, 2.0)
    core.exited(task.allocation[0].node, Exit(task.allocation[0].launch_id, "exited", 3.0, code), 3.0)


def launch_of(task: Task) -> str:
    """The launch id of its attempt."""
    assert task.allocation
    return task.allocation[0].launch_id
