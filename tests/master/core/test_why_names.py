"""What `why` names of a task that waits: the tasks that have what it lacks, those for which room is kept, quotas, caps
and settings. Whatever the mix, once all that is named is away, and nobody stands before it, the task starts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from master.core.attempts.exits import Exit
from master.core.core import Core
from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.people.quota import Quota
from master.core.tasks.task import ACTIVE, ArrayPlace, Task, TaskState
from tests.master.core.small_core import BOOT, submit
from tests.walks import CASES, IN_TIME
from wire.errors import ImpossibleError
from wire.message import Message, Several

pytestmark = IN_TIME
NOW = 10.0
ROUNDS = 100
"""A round takes away what is named; of many tasks a few are."""
NODES = (
    NodeSpec(name="a", gpu_models=("A100",) * 4, gpu_memory_mib=(80_000,) * 4, slots=2),
    NodeSpec(name="b", gpu_models=("3090",) * 4, gpu_memory_mib=(24_564,) * 4, slots=2),
    NodeSpec(name="c", slots=3),
)
WISHES: tuple[dict[str, Any], ...] = (
    {"gpus": 1}, {"gpus": 2}, {"gpus": 4}, {"gpus": 1, "gpus_max": 4}, {"gpus": 0}, {"gpus": 0, "cpus": 3},
    {"gpus": 1, "cpus": 2}, {"gpus": 0, "memory_mib": 700}, {"gpus": 0, "tmp_disk_mib": 3_000},
    {"gpus": 1, "share": True, "gpu_memory_mib": 8_000},
    {"gpus": 2, "share": True, "gpu_memory_mib": 20_000}, {"gpus": 1, "gpu_models": ["A100"]},
    {"gpus": 2, "nodes": 2}, {"gpus": 2, "gpu_ids": [0, 1], "node": "a"}, {"gpus": 0, "licences": {"matlab": 1}},
    {"gpus": 1, "licences": {"matlab": 2}}, {"gpus": 1, "exclude": ["a"]}, {"gpus": 1, "gpu_memory_mib": 30_000},
    {"gpus_on": {"a": [0], "b": [1]}, "gpus": 1, "nodes": 2},
)  # fmt: skip


def numbers(value: Any) -> Iterator[tuple[str, set[int]]]:
    """All ids in a message, by the name of the value in which they stand."""
    if isinstance(value, Message):
        for name, one in value.args.items():
            if isinstance(one, Several) and name == "tasks":
                yield name, {number for part in one.parts for number in _range(part)}
            elif name == "task" and isinstance(one, int):
                yield name, {one}
            else:
                yield from numbers(one)
    elif isinstance(value, tuple):
        for one in value:
            yield from numbers(one)


def _range(part: str) -> range:
    least, _, most = part.partition("-")
    return range(int(least), int(most or least) + 1)


def messages(value: Any) -> Iterator[Message]:
    if isinstance(value, Message):
        yield value
        for one in value.args.values():
            yield from messages(one)
    elif isinstance(value, tuple):
        for one in value:
            yield from messages(one)


def take_away(core: Core, told: list[Message]) -> bool:
    """All that is named there; was anything?"""
    named = {number for line in told for _, some in numbers(line) for number in some}
    for number in named:
        gone(core, core.tasks[number])
    keys = {one.key: one for line in told for one in messages(line)}
    for key in ("quota_reached", "runs_enough"):
        if key in keys:
            core.people.edit("ann", quota=Quota())
    if "array_runs_enough" in keys:
        core.edit_array(int(str(keys["array_runs_enough"].args["id"])), cap=None)
    if "card_tasks" in keys:
        core.tuning.set("scheduler.max_tasks_per_gpu", None, "root", NOW)
    return bool(named or keys.keys() & {"quota_reached", "runs_enough", "array_runs_enough", "card_tasks"})


def gone(core: Core, task: Task) -> None:
    if task.state in ACTIVE:
        for part in task.allocation:
            core.exited(part.node, Exit(part.launch_id, "exited", NOW, 0), NOW)
    elif task.state is TaskState.WAITING:
        core.cancel(task.id, NOW)


def busy_lab(chance: random.Random) -> Core:
    """Owners with quotas, arrays with caps, forced tasks, and more than there is room for."""
    counted = count(1)
    core = Core(NODES, lambda task, attempt: f"{task}.{attempt}.{next(counted)}", licences={"matlab": 2})
    for node in NODES:
        core.node_state(node.name, NodeState.ONLINE, None, BOOT)
    core.people.add("ann")
    most = Quota(max_total_gpus=chance.choice([None, 2, 4]), max_running=chance.choice([None, 3]))
    core.people.edit("ann", quota=most)
    if chance.random() < 0.3:
        core.tuning.set("scheduler.max_tasks_per_gpu", 2, "root", NOW)
    for _ in range(chance.randrange(4, 20)):
        wish = {**chance.choice(WISHES), "urgent": chance.random() < 0.1}
        owner = chance.choice(["ann", "bob"])
        if chance.random() < 0.2:
            first = core.next_id
            drafts = [Task(id=0, owner=owner, command="x", array=ArrayPlace(first, at), **wish) for at in range(3)]
            tried(core.submit_array, drafts, NOW, cap=chance.choice([None, 1]))
        else:
            tried(submit, core, owner=owner, **wish)
        if chance.random() < 0.4:
            core.plan(NOW)
        if chance.random() < 0.1 and core.queue():
            core.force(chance.choice(core.queue()).id)
    core.plan(NOW)
    return core


def tried(what: Any, *args: Any, **wants: Any) -> None:
    """A submit; what can never start is refused."""
    with suppress(ImpossibleError):
        what(*args, **wants)


@settings(max_examples=CASES, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.integers(min_value=0, max_value=1 << 30))
def test_once_all_that_why_names_is_away_the_task_starts(seed: int) -> None:
    chance = random.Random(seed)
    core = busy_lab(chance)
    waits = [task for task in core.queue() if task.state is TaskState.WAITING]
    if not waits:
        return
    task = chance.choice(waits)
    before = core.queue_order.before(task)
    for other in core.queue()[:before]:
        gone(core, other)
    rounds = 0
    while core.plan(NOW) or task.state is TaskState.WAITING:
        if task.state is not TaskState.WAITING:
            return
        told = core.wait(task).obstacles
        assert take_away(core, told), f"it waits, and nothing is named that is in its way: {[*map(str, told)]}"
        rounds += 1
        assert rounds < ROUNDS
