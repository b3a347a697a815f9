"""The newest ended tasks that desktop clients see: always those that a look through all tasks would give."""

from __future__ import annotations

import random

import pytest

from master.core.core import Core
from master.core.tasks.task import ENDED
from master.desktop import ended
from master.desktop.ended import NewestEnded
from tests.master.core.small_core import core_with, submit
from wire.errors import MusterError

MOST = 5


def looked_for(core: Core) -> list[int]:
    over = [task for task in core.tasks.values() if task.state in ENDED]
    return [task.id for task in sorted(over, key=lambda task: (task.ended_at or 0.0, task.id))][-MOST:]


def _something(core: Core, chance: random.Random, now: float) -> None:
    task_id = chance.choice(list(core.tasks))
    try:
        what = chance.choice(("cancel", "cancel", "cancel", "retry", "remove", "submit"))
        if what == "cancel":
            core.cancel(task_id, now)
        elif what == "retry":
            core.retry(task_id)
        elif what == "remove" and len(core.tasks) > MOST:
            core.remove(task_id, now)
        else:
            submit(core, gpus=0)
    except MusterError:
        pass  # it is in a state in which this cannot be done: then nothing has changed


@pytest.mark.parametrize("seed", range(3))
def test_it_has_the_newest_whatever_ends_is_tried_again_or_is_removed(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ended, "SHOWN", MOST)
    chance, core = random.Random(seed), core_with()
    newest = NewestEnded(core)
    for _ in range(3 * MOST):
        submit(core, gpus=0)
    for step in range(200):
        _something(core, chance, 2.0 + step // 3)  # several end at one moment
        outcome = core.take_outcome()
        if outcome is not None:
            newest.note(outcome.moves)
        assert [task.id for task in newest.list()] == looked_for(core), f"step {step}"
