"""The size of a task: what it takes in memory, as it is measured."""

from __future__ import annotations

import gc
import itertools
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from master.config.settings import Caps, Settings
from master.core.core import Core
from master.core.nodes.inventory import NodeState
from master.core.tasks import size as sizes
from master.core.tasks.attempt import Attempt, Part
from master.core.tasks.size import SMALL, large_size, large_sizes
from master.core.tasks.task import After, ArrayPlace, Task, TaskState, Wish
from tests.master.core.small_core import BOOT, EIGHT, core_with, run, submit

_wish = msgspec.json.Decoder(Wish)


def core() -> Core:
    """A core that does not compare its parts at each event, which would be measured, too."""
    numbers = itertools.count(1)
    limits = Caps(waiting_tasks=10**6, task_bytes=1 << 40)
    made = Core((EIGHT,), lambda task, attempt: f"{task}.{attempt}.{next(numbers)}", Settings(limits=limits))
    made.node_state("a", NodeState.ONLINE, None, BOOT)
    made.take_outcome()
    return made


def written(core: Core) -> None:
    """The changes are written down, and nobody keeps them."""
    outcome = core.take_outcome()
    if outcome is not None and outcome.change is not None:
        msgspec.json.encode(outcome.change.tasks)


def asked(number: int, wish: dict[str, Any]) -> Task:
    """A task as a request brings it: nothing of it is anybody else's."""
    told = {"cwd": "/home/wang/project", "log_path": f"/data/logs/wang/{number}.log", **wish}
    read = _wish.decode(msgspec.json.encode(told))
    return Task(id=0, owner="wang", **{name: getattr(read, name) for name in Wish.__struct_fields__})


def of_each(make: Callable[[int], dict[str, Any]]) -> Callable[[Core, int], None]:
    """They are submitted one by one."""

    def submit_all(core: Core, count: int) -> None:
        for number in range(count):
            core.submit([asked(number, make(number))], 1.0)
            written(core)

    return submit_all


def an_array(core: Core, count: int) -> None:
    """They are one array with a value each."""
    draft, first = asked(0, {"command": ""}), core.next_id
    core.submit_array(
        [
            msgspec.structs.replace(
                draft,
                command=f"python train.py --lr 0.{n}",
                array=ArrayPlace(first, n),
                sweep={"lr": f"0.{n}"},
                log_path=f"/data/logs/wang/{first + n}.log",
            )
            for n in range(count)
        ],
        1.0,
    )
    written(core)


def attempts(number: int, count: int, parts: int = 1) -> list[Attempt]:
    """As many attempts as are kept; each but for what it has in common with all of a node."""
    return [
        Attempt(
            no=number % 1000 + no,
            parts=[
                Part(
                    node="a",
                    gpus=[0, 1],
                    launch_id=f"{number}.{no}.{part}.0123456789",
                    boot_id=BOOT.boot_id,
                    state_id=BOOT.state_id,
                    pid=10**5 + number,
                    pid_start=10**7 + number + no,
                    run_as="wang",
                )
                for part in range(parts)
            ],
            asked_end=None,
            started_at=1.7e9 + number + no,
            ended_at=1.7e9 + number + no + 0.5,
            exit_code=1,
            reason=f"exit code {1}",
            reason_key="exit_code",
            reason_args={"code": 1},
            last_line=f"RuntimeError: {number} and {no}",
        )
        for no in range(count)
    ]


def tried_often(core: Core, count: int) -> None:
    """They ended as often as is kept, and wait again."""
    tasks = {}
    for number in range(1, count + 1):
        tasks[number] = asked(number, {"command": f"python train.py --lr 0.{number}"})
        tasks[number].id, tasks[number].earlier = number, attempts(number, 31)
    core.load(tasks, {}, count + 1)


KINDS: dict[str, tuple[int, Callable[[Core, int], None]]] = {
    "words": (2000, of_each(lambda n: {"command": ["python", "train.py", "--lr", f"0.{n}"]})),
    "a text": (2000, of_each(lambda n: {"command": f"python train.py --lr 0.{n}"})),
    "3 KB": (500, of_each(lambda n: {"command": f"{n:06}" * 512})),
    "100 KB": (50, of_each(lambda n: {"command": f"{n:05}" * 20_000})),
    "100 KB, partly Chinese": (20, of_each(lambda n: {"command": f"{n:04}节" * 20_000})),
    "100 KB of Chinese": (20, of_each(lambda n: {"command": f"{n}" + "节" * 100_000})),
    "100 KB of French": (20, of_each(lambda n: {"command": f"{n:04}é" * 20_000})),
    "100 KB with a smile": (20, of_each(lambda n: {"command": f"{n:04}😀" * 20_000})),
    "5000 words": (20, of_each(lambda n: {"command": [f"{n}-{one}-word" for one in range(5000)]})),
    "5000 words, one Chinese": (
        20,
        of_each(lambda n: {"command": [f"{n}-{one}-word" for one in range(5000)] + ["节"]}),
    ),
    "5 variables": (
        500,
        of_each(lambda n: {"command": "x", "variables": {f"V{k}": f"value {n} {k}" for k in range(5)}}),
    ),
    "100 variables": (
        200,
        of_each(lambda n: {"command": "x", "variables": {f"V{k}": f"value {n} {k}" for k in range(100)}}),
    ),
    "10 variables of 1 KB": (
        200,
        of_each(lambda n: {"command": "x", "variables": {f"V{k}": f"{n:05}" * 200 for k in range(10)}}),
    ),
    "100 nodes left out": (200, of_each(lambda n: {"command": "x", "exclude": [f"node-{n}-{k}" for k in range(100)]})),
    "all GPUs of a node": (500, of_each(lambda _: {"command": "x", "gpu_ids": [*range(8)], "node": "a"})),
    "a chain": (200, of_each(lambda n: {"command": "x", "after": [{"id": n}] if n else []})),
    "an array": (2000, an_array),
    "31 attempts": (200, tried_often),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_size_of_many_is_about_what_they_take(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    count, fill = KINDS[kind]
    fill(core(), 1)  # what is made once
    of = core()
    gc.collect()
    tracemalloc.start()
    try:
        fill(of, count)
        gc.collect()
        real = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    monkeypatch.setattr(sizes, "SMALL", 0)
    assert len(of.tasks) == count
    assert 0.7 < sum(map(large_size, of.tasks.values())) / real < 1.3


LARGE: tuple[dict[str, Any], ...] = (
    {"command": "x" * 5000},
    {"command": ["x"] * 100},
    {"variables": {"a": "y" * 5000}},
    {"sweep": {"a": "y" * 5000}},
    {"after": [After(1)] * 100},
    {"gpu_ids": [1] * 1000},
    {"gpus_on": {"a": [1] * 1000}},
    {"exclude": ["n" * 200] * 100},
    {"node_list": ["n" * 200] * 100},
    {"setup": "s" * 5000},
    {"cwd": "/" * 2000, "env": "/" * 2000},
    {"log_path": "/" * 2000, "checkpoint": "/" * 2000},
    {"command": "节" * 1000},
    {"command": ["x", "节" * 1000]},
    {"earlier": attempts(1, 4)},
    {"earlier": attempts(1, 1, parts=8)},
)


@pytest.mark.parametrize("said", LARGE, ids=",".join)
def test_each_field_that_may_be_long_makes_a_task_large(said: dict[str, Any]) -> None:
    task = Task(id=1, **{"command": "x", **said})
    assert large_size(Task(id=1, command="x")) == 0
    assert large_size(task) > SMALL
    assert large_sizes([task, task]) == [large_size(task)] * 2


def test_an_attempt_counts_from_the_moment_on_in_which_its_task_waits_again() -> None:
    core = core_with()  # which compares the counts with a recount after each event
    retried = submit(core, owner="ann", max_retries=9, retry_on=["fail"], variables={"A": "b" * 5000})
    sizes = [core.share_of("ann").size]
    for _ in range(3):
        run(core, retried, code=1)
        assert retried.state is TaskState.WAITING
        core.force(retried.id)
        sizes.append(core.share_of("ann").size)
    more = {after - before for before, after in itertools.pairwise(sizes)}
    assert len(more) == 1
    assert more.pop() > 500
    run(core, retried)
    assert core.share_of("ann").size == 0
    core.retry(retried.id)
    assert core.share_of("ann").size > sizes[-1]


def test_a_small_task_that_was_tried_often_is_a_large_one() -> None:
    core = core_with()
    task = submit(core, owner="ann")
    for _ in range(40):
        run(core, task, code=1)
        core.retry(task.id)
    assert len(task.earlier) == 31
    assert core.share_of("ann").size == large_size(task) > 31 * 500
    core.cancel(task.id, 1.0)
    assert core.share_of("ann").size == 0
    assert core.large_ended(0) == [task]


def test_an_old_task_of_one_attempt_that_waits_again_costs_no_more_than_the_number_says() -> None:
    core = core_with()
    task = submit(core, max_retries=1, retry_on=["fail"], exclude=["n" * 100] * 10)
    run(core, task, code=1)
    assert (task.state, len(task.earlier), core.share_of("").size) == (TaskState.WAITING, 1, 0)
