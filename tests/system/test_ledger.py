"""The books that a chaos run reads at every moment would see what they look for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.system.ledger import wrong
from tests.system.oracle import NARROW, NARROW_GPUS, UNIT_MIB, UNITS


def task(number: int, *gpus: int, mib: int | None = None, **more: Any) -> Any:
    """One that runs on node a."""
    part = {"node": "a", "gpus": list(gpus)} | ({} if mib is None else {"gpu_mib": mib})
    fields = {"id": number, "state": "running", "nodes": 1, "project": "", "array": None, "allocation": [part]}
    fields |= {"elastic": False, "gpus": len(gpus), "gpus_max": None}
    return {**fields, **more}


def of_array(number: int, **more: Any) -> Any:
    return task(number, array={"id": 1, "index": number}, **more)


HALF = UNITS * UNIT_MIB // 2
PARTS = [{"node": "a", "gpus": [0]}, {"node": "b", "gpus": [0]}]


@pytest.mark.parametrize(
    "tasks",
    [
        [task(1, 0, 1), task(2, 2)],
        [task(1, 0, mib=HALF), task(2, 0, mib=HALF)],
        [task(1, nodes=2, allocation=PARTS)],
        [task(1, 0), task(2, allocation=[{"node": "a", "gpus": [0], "is_free": True}])],
        [task(1, *range(NARROW_GPUS), project=NARROW), task(2, 7, project="")],
        [of_array(1), of_array(2), of_array(3, state="waiting")],
        [task(1, state="waiting", nodes=2, allocation=[])],
        [task(1, 0, 1, elastic=True, gpus=1, gpus_max=2)],
    ],
    ids=["whole", "shares", "gang", "a part that is over", "quota", "array", "waits", "elastic"],
)
def test_what_adds_up_is_no_problem(tasks: list[Any]) -> None:
    assert wrong(tasks) == []


@pytest.mark.parametrize(
    ("tasks", "told"),
    [
        ([task(1, 0), task(2, 0)], "GPU ('a', 0) is held as {1: None, 2: None}"),
        ([task(1, 0), task(2, 0, mib=1)], "GPU ('a', 0) is held as {1: None, 2: 1}"),
        ([task(1, 0, mib=HALF), task(2, 0, mib=HALF + 1)], "GPU ('a', 0) is held as"),
        ([task(1, nodes=2)], "task 1 is running on ['a'], and asked for 2 nodes"),
        ([task(1, nodes=2, allocation=PARTS[:1] * 2)], "task 1 is running on ['a', 'a']"),
        ([task(1, *range(NARROW_GPUS), project=NARROW), task(2, 7, project=NARROW)], "project narrow has 4 GPUs"),
        ([of_array(number) for number in (1, 2, 3)], "3 tasks of array 1 run, and 2 may"),
        ([task(1, 0, 1, 2, elastic=True, gpus=1, gpus_max=2)], "task 1 has 3 GPUs, of 1 to 2"),
    ],
    ids=["whole", "whole and shared", "memory", "half a gang", "a gang on one node", "quota", "array", "elastic"],
)
def test_what_is_more_than_there_is_is_seen(tasks: list[Any], told: str) -> None:
    assert any(told in problem for problem in wrong(tasks)), wrong(tasks)
