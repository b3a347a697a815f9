"""What depends on time: the planner says when it wants to be asked again, and is; nobody looks at a clock before."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from master.core.effects import Effect, WakeAt
from master.core.planning.scheduler import Plan, Wait
from master.core.tasks.task import Task
from master.durable.disk import OsDisk
from master.durable.store import Store
from master.engine import engine as engine_module
from master.engine import plan_pace
from master.engine.engine import WATCH_S, Engine
from master.executors.memory import Run
from master.executors.simulation import Job, Simulation
from tests.master.core.small_core import EIGHT, core_with, submit
from tests.master.executor import played
from wire.message import Message

BEGUN = 1_000_000.0
"""When these stories begin, in seconds since the epoch."""


class _NoWaiting(selectors.SelectSelector):
    """Instead of waiting, the clock goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        self.now += timeout or 0.0
        return super().select(0)


class FakeTime:
    """A loop in which time passes only by what it waits for, and takes none."""

    def __init__(self) -> None:
        self.selector = _NoWaiting()
        self.loop = asyncio.SelectorEventLoop(self.selector)
        self.loop.time = lambda: self.selector.now  # type: ignore[method-assign]

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        try:
            self.loop.run_until_complete(story)
        finally:
            self.loop.close()


def wish_to_be_woken(at: float) -> Plan:
    return Plan(lambda _demand, _task_id: Wait(Message("next"), []), wake_at=at)


def test_the_engine_plans_again_at_the_time_that_the_planner_named_and_never_looks_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeTime()
    clock = SimpleNamespace(time=lambda: BEGUN + fake.selector.now, monotonic=lambda: fake.selector.now)
    for module in (engine_module, plan_pace):
        monkeypatch.setattr(module, "time", clock)
    core = core_with()
    core.plan(BEGUN)
    plan, planned = core.plan, list[float]()

    def recorded(now: float) -> int:
        planned.append(now)
        return plan(now)

    monkeypatch.setattr(core, "plan", recorded)
    told: list[Effect] = []

    async def story() -> None:
        store = Store(tmp_path, OsDisk())
        store.open()
        engine = Engine(core, store)
        engine.executor_of = played(told.extend)
        engine.event(lambda: core.carry_out(wish_to_be_woken(BEGUN + 3600.0), 0.0))
        await asyncio.sleep(3599.0)
        assert planned == []
        await asyncio.sleep(2.0)
        assert planned == [BEGUN + 3600.0]
        # Who plans last knows best: an earlier wish is forgotten.
        engine.event(lambda: core.carry_out(wish_to_be_woken(BEGUN + 5000.0), 0.0))
        engine.event(lambda: core.carry_out(wish_to_be_woken(BEGUN + 7200.0), 0.0))
        await asyncio.sleep(10_000.0)
        assert planned == [BEGUN + 3600.0, BEGUN + 7200.0]
        # What is over already is at once.
        engine.event(lambda: core.carry_out(wish_to_be_woken(BEGUN), 0.0))
        await asyncio.sleep(0.0)
        await asyncio.sleep(0.1)
        assert len(planned) == 3
        engine.event(lambda: core.carry_out(wish_to_be_woken(BEGUN + 10**6), 0.0))
        await engine.close()

    fake.run(story())
    assert told == [], "it is the engine's own matter, and no executor's"


@pytest.mark.parametrize("jump", [7200.0, -7200.0])
def test_the_engine_sees_within_seconds_that_the_clock_was_set_and_sets_its_timer_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    fake, ahead = FakeTime(), [0.0]
    clock = SimpleNamespace(time=lambda: BEGUN + ahead[0] + fake.selector.now, monotonic=lambda: fake.selector.now)
    for module in (engine_module, plan_pace):
        monkeypatch.setattr(module, "time", clock)
    core = core_with()
    task = core.submit([Task(id=0, command="true", begin_at=BEGUN + 3600.0)], BEGUN)[0]

    async def story() -> None:
        store = Store(tmp_path, OsDisk())
        store.open()
        engine = Engine(core, store)
        engine.executor_of = played(list[Effect]().extend)
        engine.watch()
        await asyncio.sleep(100.0)
        ahead[0] = jump
        await asyncio.sleep(WATCH_S + 1.0)
        assert task.state == ("starting" if jump > 0 else "waiting")
        await asyncio.sleep(3600.0)
        assert task.state == ("starting" if jump > 0 else "waiting"), "it does not show the time yet"
        await asyncio.sleep(7200.0)
        assert task.state == "starting"
        assert task.eligible_at == BEGUN + 3600.0
        await engine.close()

    fake.run(story())


def test_a_wish_to_be_woken_leaves_the_core_as_an_effect_and_being_woken_asks_for_a_plan() -> None:
    core = core_with()
    core.plan(1.0)
    core.carry_out(wish_to_be_woken(60.0), 0.0)
    outcome = core.take_outcome()
    assert outcome is not None
    assert (outcome.effects, bool(outcome.change), core.plan_needed) == ([WakeAt(60.0)], False, False)
    core.woken()
    assert core.plan_needed


def test_simulated_time_does_not_pass_by_what_the_planner_wanted() -> None:
    simulation = Simulation((EIGHT,), [Job(0.0, submit(core_with(), gpus=1), Run(10.0))])
    simulation.core.carry_out(wish_to_be_woken(5.0), 0.0)
    simulation.advance(1.0)
    assert simulation.next_at == 5.0
    simulation.advance(5.0)
    assert (simulation.next_at, simulation.core.plan_needed) == (10.0, False)
