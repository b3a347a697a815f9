"""Whoever looks for a checkpoint asks the node, in the task's folder and as its account, and tells the core."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from master.core.effects import SeekCheckpoint
from master.core.tasks.task import Task
from master.executors.checkpoints import Checkpoints
from tests.waiting import settled
from wire.errors import MusterError, NodeUnreachableError
from wire.message import Message

TASK = Task(id=3, command="true", owner="ann", cwd="/home/ann", checkpoint="out/*.pt")


def looked(output: str = "", error: MusterError | None = None) -> tuple[list[Any], list[Any]]:
    """What is asked of the node, and what the core is told, where the node answers so."""
    asked: list[Any] = []
    told: list[Any] = []

    async def ask(node: str, argv: list[str], **how: Any) -> Any:
        asked.append((node, argv[-1], how["cwd"], how["run_as"], how["asker"]))
        if error is not None:
            raise error
        return {"output": output}

    async def story() -> None:
        core = SimpleNamespace(checkpoint_seen=lambda launch, newest, _now: told.append((launch, newest)))
        engine: Any = SimpleNamespace(core=core, event=lambda change: change())
        checkpoints = Checkpoints(engine, ask, lambda owner: f"account of {owner}")
        checkpoints.seek(SeekCheckpoint("a", "3.1", TASK))
        await settled(lambda: bool(told))
        checkpoints.close()

    asyncio.run(story())
    return asked, told


def test_the_node_is_asked_in_the_tasks_folder_and_as_its_account() -> None:
    asked, told = looked("1234.5\nend\n")
    assert asked == [("a", "out/*.pt", "/home/ann", "account of ann", "ann")]
    assert told == [("3.1", 1234.5)]


@pytest.mark.parametrize("error", [NodeUnreachableError(Message("not_connected", node="a")), None])
def test_a_node_that_does_not_answer_has_none(error: MusterError | None) -> None:
    assert looked("", error)[1] == [("3.1", None)]
