"""Attempts in memory: an agent's promises, without an agent."""

from __future__ import annotations

from master.core.core import Core
from master.core.effects import Ack, Kill, NodeEffect, Start, WakeAt
from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.tasks.task import Task, TaskState
from master.executors.memory import MemoryExecutor, Run


class Lab:
    """One node `a` with two GPUs, a clock that is moved by hand, tasks that take ten seconds unless said."""

    def __init__(self, run: Run = Run(10.0)) -> None:  # noqa: B008  (it is frozen)
        self.now = 1000.0
        self.run = run
        self.core = Core((NodeSpec(name="a", gpu_models=("GPU",) * 2),), "{}.{}".format)
        self.executor = MemoryExecutor(self.core, lambda _task: self.run, lambda: self.now, runs_as="owners")
        self.executor.connect("a")

    def submit(self, gpus: int = 1) -> Task:
        (task,) = self.core.submit([Task(id=0, command="train", gpus=gpus)], self.now)
        self.carry_out()
        return task

    def carry_out(self) -> list[NodeEffect]:
        self.core.plan(self.now)
        outcome = self.core.take_outcome()
        told = outcome.effects if outcome is not None else []
        effects = [effect for effect in told if not isinstance(effect, WakeAt)]
        self.executor.perform(effects)
        return effects

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.executor.advance()
        self.carry_out()


def test_a_task_runs_as_long_as_it_was_said_and_ends_as_it_was_said() -> None:
    lab = Lab(Run(10.0, code=3))
    task = lab.submit()
    lab.wait(0.0)
    assert (task.state, task.started_at) == (TaskState.RUNNING, 1000.0)
    lab.wait(9.9)
    assert task.state is TaskState.RUNNING
    lab.wait(0.1)
    assert (task.state, task.exit_code, task.ended_at) == (TaskState.FAILED, 3, 1010.0)
    assert lab.executor.next_at is None


def test_an_attempt_that_is_sent_twice_is_begun_once() -> None:
    lab = Lab()
    task = lab.submit()
    lab.executor.perform([Start("a", task)])
    lab.wait(10.0)
    lab.executor.perform([Start("a", task)])
    lab.wait(10.0)
    assert (task.state, task.ended_at) == (TaskState.SUCCEEDED, 1010.0)


def test_a_kill_ends_it_at_once_and_what_has_ended_is_not_killed() -> None:
    lab = Lab()
    task, other = lab.submit(), lab.submit()
    lab.wait(4.0)
    lab.core.cancel(task.id, lab.now)
    lab.carry_out()
    lab.wait(0.0)
    assert (task.state, task.ended_at) == (TaskState.CANCELLED, 1004.0)
    assert other.allocation
    lab.wait(6.0)
    lab.executor.perform([Kill("a", other.allocation[0].launch_id)])
    lab.wait(1.0)
    assert other.state is TaskState.SUCCEEDED


def test_what_ended_while_nobody_heard_is_told_when_the_node_is_back_until_it_is_acknowledged() -> None:
    lab = Lab()
    task = lab.submit()
    lab.wait(1.0)
    lab.executor.disconnect("a")
    lab.wait(20.0)
    assert task.state is TaskState.RUNNING
    lab.executor.connect("a")
    assert (task.state, task.ended_at) == (TaskState.SUCCEEDED, 1010.0)
    assert [type(effect) for effect in lab.carry_out()] == [Ack]
    lab.executor.connect("a")
    assert lab.carry_out() == []


def test_a_node_that_was_started_anew_has_lost_what_ran_there() -> None:
    lab = Lab()
    task = lab.submit()
    lab.wait(1.0)
    lab.executor.disconnect("a")
    lab.executor.connect("a", boot_id="another")
    assert task.state is TaskState.LOST
    lab.wait(20.0)
    assert task.state is TaskState.LOST
    assert lab.core.inventory.nodes["a"].state is NodeState.ONLINE
    assert lab.submit().state is TaskState.STARTING


def test_a_node_that_can_start_nothing_is_let_be_for_a_while_and_the_task_waits() -> None:
    lab = Lab(Run(1.0, not_started="no space left"))
    task = lab.submit()
    lab.wait(0.0)
    assert task.state is TaskState.WAITING
    assert "no space left" in str(lab.core.inventory.nodes["a"].closed_because)
    lab.run = Run(1.0)
    lab.wait(60.0)
    lab.wait(1.0)
    assert task.state in {TaskState.RUNNING, TaskState.SUCCEEDED}


def test_what_stands_still_ends_so_much_later() -> None:
    lab = Lab()
    task = lab.submit()
    lab.wait(4.0)
    lab.core.pause(task.id, "kim", lab.now)
    lab.carry_out()
    lab.wait(0.0)
    assert task.state is TaskState.PAUSED
    lab.wait(100.0)
    lab.executor.disconnect("a")
    lab.executor.connect("a")
    assert task.state is TaskState.PAUSED
    lab.core.resume_task(task.id)
    lab.carry_out()
    lab.wait(5.9)
    assert task.state is TaskState.RUNNING
    lab.wait(0.1)
    assert (task.state, task.ended_at) == (TaskState.SUCCEEDED, 1110.0)
