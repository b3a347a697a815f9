"""The watch over idle tasks at work, with a real engine, ports and links: who is told, and what a hung storage does."""

from __future__ import annotations

import logging
import os
import pwd
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from master.core.attempts.agent_messages import EncodedSample
from master.core.tasks.attempt import AskedEnd
from master.core.tasks.task import TaskState
from master.files.threads import STUCK, Threads
from master.nodes.registry import NodeConfig
from master.nodes.samples import Samples
from master.ports.connection import TASKS
from master.watchers import idle_watcher
from master.watchers.idle_watcher import IdleWatcher, last_written
from tests.master.in_process import run
from tests.master.nodes.played_fleet import Agent, Field
from tests.waiting import settled

AFTER_S = 600.0
BEGIN = 1_000_000.0
EVERY_S = 10.0
ME = pwd.getpwuid(os.getuid()).pw_name


class Played(Agent):
    """An agent with GPUs."""

    def samples(self, utilization: float, memory_mib: int = 9000, **more: Any) -> None:
        """Send a sample: GPU 0 is held by what runs there, with so much of its memory."""
        process = {"pid": 8, "user": "u", "memory_mib": memory_mib, "launch_id": self.running[0]}
        processes = [process] if memory_mib else []
        gpu = {"index": 0, "utilization": utilization, "memory_used_mib": memory_mib, "processes": processes}
        self.say(op="sample", at=1.0, gpus=[gpu, {"index": 1}], **{"gpu_source": "nvml", "gpu_fault": "", **more})


class Watched(Field):
    """A fleet over a machine with GPUs, a task with a log that runs there, and the time of the watcher."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.one = self.agent = Played(folder, "10.0.0.1")
        self.now = BEGIN
        self.log = folder / "1.log"
        self.passed: list[str] = []
        self.samples = Samples(lambda node, sample: self.watcher.sample(node, sample), self.sample)  # noqa: PLW0108  (it comes later)

    async def begins(self, **spec: Any) -> Any:
        """The node comes and the task runs; who watches tasks."""
        self.watcher = IdleWatcher(self.master.engine, lambda: AFTER_S, lambda: self.now)
        self.fleet.apply((NodeConfig(name="n", ip="10.0.0.1", user_name="u", gpu_count=2),))
        peer = await self.master.peer()
        self.log.touch()
        os.utime(self.log, (BEGIN, BEGIN))
        await peer.call("task.submit", command="true", **{"gpus": 1, "log": str(self.log), **spec})
        await self.running(1)
        self.passed.clear()  # the first sample told that the GPUs may be given out
        watcher = await self.master.peer(TASKS)
        await watcher.call("subscribe", snapshot="none")
        return watcher

    def sample(self, node: str, sample: EncodedSample) -> None:  # noqa: ARG002
        """The watcher was told of a sample."""
        self.passed.append(node)

    async def sees(self, utilization: float = 0.0, **more: Any) -> None:
        """The watcher is told of the next sample."""
        before = len(self.passed)
        self.now += EVERY_S
        self.agent.samples(utilization, **more)
        await settled(lambda: len(self.passed) > before)

    async def passes(self, seconds: float, utilization: float = 0.0, **more: Any) -> None:
        """Time passes, with samples; what they make the watcher look at, it has seen."""
        end = self.now + seconds
        while self.now < end:
            await self.sees(utilization, **more)
            await settled(lambda: not self.watcher.looking)

    async def samples_until(self, condition: Callable[[], object]) -> None:
        """Samples come until something holds that takes time of its own."""
        while not condition():
            await self.sees()


def test_who_watches_is_told_once_of_the_mark_and_once_that_it_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def story() -> None:
        async with Watched(tmp_path) as here:
            watcher = await here.begins(name="bert")
            core = here.master.core
            syncs = here.master.disk.syncs
            await here.passes(AFTER_S)
            assert core.warned() == []
            await here.passes(2 * AFTER_S)
            assert core.warned() == [1]
            peer = await here.master.peer()
            shown = await peer.call("task.show", id=1)
            listed = (await peer.call("task.list"))["tasks"][0]
            sparse = await peer.call("task.list", sparse=True)
            why = await peer.call("task.why", id=1)
            assert shown["warning_key"] == "idle"
            assert listed["warning"] == why["warning"] == shown["warning"]
            assert sparse["warnings"] == {shown["warning"]: [1]}
            assert sparse["defaults"]["warning"] is None
            assert (await peer.call("server.info"))["warned"] == [1]
            await here.sees(90.0)
            assert core.warned() == []
            told = [(await watcher.notification())["params"]["task"]["warning"] for _ in range(2)]
            assert told == [shown["warning"], None]
            assert here.master.disk.syncs == syncs, "nothing of it is durable"
            here.agent.end(here.agent.running[0])
            last = await watcher.notification()
            assert (last["params"]["task"]["state"], last["params"]["task"]["warning"]) == ("succeeded", None)

    run(story())
    said = [record.getMessage() for record in caplog.records if record.name == "muster.idle"]
    assert [text.split(": ")[0] for text in said] == [
        f"task 1 of {ME} (bert)",
        f"task 1 of {ME} works again",
    ]


def test_a_marked_task_that_ends_and_is_tried_again_has_no_mark(tmp_path: Path) -> None:
    async def story() -> None:
        async with Watched(tmp_path) as here:
            await here.begins()
            core = here.master.core
            await here.passes(2 * AFTER_S)
            assert core.warned() == [1]
            here.agent.end(here.agent.running[0])
            await settled(lambda: core.tasks[1].state is TaskState.SUCCEEDED)
            assert core.warning(core.tasks[1]) is None
            await settled(lambda: not core.warnings)

    run(story())


@pytest.mark.parametrize(
    "more",
    [{"gpu_source": "none"}, {"gpu_fault": "the driver does not answer"}],
    ids=["nobody looks at the GPUs", "the driver hangs"],
)
def test_samples_that_say_nothing_of_gpus_mark_nobody(tmp_path: Path, more: dict[str, Any]) -> None:
    async def story() -> None:
        async with Watched(tmp_path) as here:
            await here.begins()
            await here.passes(AFTER_S)
            await here.passes(2 * AFTER_S, **more)
            assert here.master.core.warned() == []

    run(story())


@pytest.mark.parametrize("state", [TaskState.STARTING, TaskState.PAUSED])
def test_only_a_task_that_runs_can_be_idle(tmp_path: Path, state: TaskState) -> None:
    async def story() -> None:
        async with Watched(tmp_path) as here:
            await here.begins()
            here.master.core.tasks[1].state = state
            await here.passes(2 * AFTER_S)
            assert here.master.core.warned() == []
            assert here.watcher.detector.tasks == set()
            here.master.core.tasks[1].state = TaskState.RUNNING

    run(story())


@pytest.mark.parametrize("memory_mib", [9000, 0])
def test_where_the_lab_says_so_a_task_that_is_still_idle_is_ended(tmp_path: Path, memory_mib: int) -> None:
    async def story() -> None:
        async with Watched(tmp_path) as here:
            await here.begins()
            core = here.master.core
            peer = await here.master.peer()
            await peer.call("setting.set", name="scheduler.idle_after_s", value=AFTER_S)
            await peer.call("setting.set", name="scheduler.idle_action", value="end")
            core.tasks[1].started_at = here.now
            await here.passes(AFTER_S + EVERY_S, memory_mib=memory_mib)
            assert (core.warned(), core.tasks[1].asked_end) == ([1], None)
            await here.passes(AFTER_S, memory_mib=memory_mib)
            assert core.tasks[1].asked_end == AskedEnd("limit")

    run(story())


def test_a_task_without_gpus_is_never_looked_at(tmp_path: Path) -> None:
    async def story() -> None:
        async with Watched(tmp_path) as here:
            await here.begins(gpus=0)
            await here.passes(2 * AFTER_S)
            assert here.watcher.detector.marks == {}, "that it uses a GPU of nobody's is told, and nothing else"
            assert here.watcher.detector.tasks == set()

    run(story())


class HungStorage:
    """Answers only when it is told to."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.asked = 0

    def last_written(self, path: str) -> float | None:
        self.asked += 1
        self.answers.wait()
        return last_written(path)


@pytest.fixture
def hung(monkeypatch: pytest.MonkeyPatch) -> Iterator[HungStorage]:
    storage = HungStorage()
    monkeypatch.setattr(idle_watcher, "last_written", storage.last_written)
    yield storage
    storage.answers.set()


def test_a_hung_storage_blocks_nothing_and_is_asked_once_until_it_answers(tmp_path: Path, hung: HungStorage) -> None:
    async def story() -> None:
        async with Watched(tmp_path) as here:
            await here.begins()
            await here.samples_until(lambda: hung.asked)
            for _ in range(100):
                await here.sees()
            peer = await here.master.peer()
            assert (await peer.call("task.show", id=1))["warning"] is None
            assert hung.asked == 1
            hung.answers.set()
            await here.samples_until(lambda: here.master.core.warned() == [1])

    run(story())


def test_a_storage_that_never_answers_marks_nobody_and_the_log_says_why(
    tmp_path: Path, hung: HungStorage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "muster.idle")

    async def story() -> None:
        async with Watched(tmp_path) as here:
            await here.begins()
            here.watcher.threads = Threads(patience_s=0.02)
            await here.samples_until(lambda: hung.asked == STUCK)
            for _ in range(100):
                await here.sees()
            assert here.master.core.warned() == []
            assert hung.asked == STUCK

    run(story())
    said = [record.getMessage() for record in caplog.records if record.name == "muster.idle"]
    assert len(said) == 1
    assert said[0].startswith("task 1 may be idle, but its log cannot be looked at: ")


def test_when_a_log_was_written_is_told_of_files_only(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch()
    os.utime(path, (5.0, 7.0))
    assert last_written(str(path)) == 7.0
    assert last_written(str(tmp_path)) is None
    assert last_written(str(tmp_path / "missing")) is None
    assert last_written("/dev/null") is None
    link = tmp_path / "link"
    link.symlink_to(path)
    assert last_written(str(link)) == 7.0
    if os.geteuid() == 0:  # who alone makes links of others
        os.lchown(link, 4321, 4321)
        assert last_written(str(link)) is None
