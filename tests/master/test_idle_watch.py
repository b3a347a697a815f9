"""Tasks that hold GPU memory and do nothing: which are marked, which are not, and who is told."""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from master import idle_desk
from master.files_threads import STUCK, Threads
from master.gpu_watch import FREE_MIB, GpuReport, Holder
from master.heard import Passed
from master.idle_desk import IdleDesk, last_written
from master.idle_watch import AGAIN_S, BUSY_PERCENT, GAP_S, IdleWatch, Step
from master.registry import NodeConfig
from master.streams import TASKS
from master.task import Allocation, Task, TaskState

from .in_process import run, settled
from .test_fleet import Agent, Field

AFTER_S = 600.0
BEGIN = 1_000_000.0
EVERY_S = 10.0
LAUNCH = "1.1.x"
ME = pwd.getpwuid(os.getuid()).pw_name


def report(index: int, utilization: float | None = 0.0, *, mib: int | None = 9000, launch: str = LAUNCH) -> GpuReport:
    ours = (Holder(pid=8, user="lab", memory_mib=mib, launch_id=launch),) if launch else ()
    return GpuReport(index=index, utilization=utilization, memory_used_mib=mib, processes=ours)


class Story:
    """A task on GPUs 0 and 1 of node a, and its time. `log_at`: when its log was last written; None: nobody can say."""

    def __init__(self) -> None:
        self.warnings: dict[int, str] = {}
        self.watch = IdleWatch(AFTER_S, self.warnings)
        self.task = Task(id=1, command="true", state=TaskState.RUNNING, allocation=[Allocation("a", [0, 1])])
        self.now = BEGIN
        self.log_at: float | None = BEGIN - 1
        self.looks: list[float] = []
        self.told: list[Step] = []

    def sees(self, *reports: GpuReport, launch: str = LAUNCH, node: str = "a") -> None:
        """A sample."""
        gpus = {one.index: one for one in reports}
        step = self.watch.sampled(self.task, launch, node, gpus, self.now)
        if step is Step.LOOK:
            self.looks.append(self.now)
            step = self.watch.log_seen(self.task.id, launch, self.log_at, self.now)
        if step is not Step.NOTHING:
            self.told.append(step)

    def passes(self, seconds: float, *reports: GpuReport) -> None:
        """Time passes, with a sample now and then."""
        end = self.now + seconds
        while self.now < end:
            self.sees(*(reports or (report(0), report(1))))
            self.now += EVERY_S

    @property
    def marked(self) -> str:
        return self.warnings.get(1, "")


def test_a_task_that_does_nothing_for_long_is_marked_once_and_not_before_its_time() -> None:
    story = Story()
    story.passes(AFTER_S)
    assert (story.marked, story.looks) == ("", [])
    story.passes(5 * AFTER_S)
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(BEGIN))
    assert story.marked == f"idle since {since}: its GPUs (0, 1 on node a) do nothing and its log is silent"
    assert story.told == [Step.MARKED]


def test_one_gpu_is_told_of_as_one() -> None:
    story = Story()
    story.task.allocation = [Allocation("a", [5])]
    story.passes(2 * AFTER_S, report(5))
    assert "its GPU (5 on node a) does nothing" in story.marked


def test_a_burst_of_data_loading_is_not_marked() -> None:
    story = Story()
    for _ in range(10):
        story.passes(AFTER_S - EVERY_S)
        story.passes(EVERY_S, report(0), report(1, BUSY_PERCENT + 1))
    assert (story.told, story.looks) == ([], [])


def test_the_flicker_of_a_desktop_is_no_work() -> None:
    story = Story()
    story.passes(2 * AFTER_S, report(0, BUSY_PERCENT), report(1))
    assert story.marked


def test_a_log_that_grows_keeps_the_mark_away_and_is_looked_at_only_when_it_could_be_old_enough() -> None:
    story = Story()
    story.log_at = BEGIN + AFTER_S / 2
    story.passes(AFTER_S + EVERY_S)
    assert len(story.looks) == 1
    story.passes(AFTER_S / 2 - 2 * EVERY_S)
    assert (story.marked, len(story.looks)) == ("", 1)
    story.passes(3 * EVERY_S)
    assert "idle since " + time.strftime("%Y-%m-%d %H:%M", time.localtime(story.log_at)) in story.marked


def test_the_clock_of_the_logs_machine_may_be_ahead() -> None:
    story = Story()
    story.log_at = BEGIN + 100 * AFTER_S
    story.passes(5 * AFTER_S)
    assert not story.marked
    assert len(story.looks) < 6
    story.log_at = BEGIN
    story.passes(2 * AFTER_S)
    assert story.marked


def test_the_mark_goes_when_a_gpu_computes_and_the_waiting_begins_anew() -> None:
    story = Story()
    story.passes(2 * AFTER_S)
    story.sees(report(0, 80.0), report(1))
    assert (story.marked, story.told) == ("", [Step.MARKED, Step.WORKS])
    story.passes(AFTER_S)
    assert not story.marked
    story.passes(2 * EVERY_S)
    assert story.told == [Step.MARKED, Step.WORKS, Step.MARKED]


def test_the_mark_goes_when_the_log_grows_again() -> None:
    story = Story()
    story.passes(2 * AFTER_S)
    story.log_at = story.now
    story.passes(AGAIN_S + EVERY_S)
    assert (story.marked, story.told) == ("", [Step.MARKED, Step.WORKS])


def test_the_mark_goes_with_the_memory() -> None:
    story = Story()
    story.passes(2 * AFTER_S)
    story.sees(report(0, launch="", mib=3), report(1, launch="", mib=3))
    assert story.told == [Step.MARKED, Step.WORKS]


@pytest.mark.parametrize(
    "gpus",
    [
        (report(0, launch="", mib=3), report(1, launch="", mib=3)),
        (report(0, launch="", mib=None), report(1, launch="", mib=None)),
        (report(0, launch="9.1.z"), report(1, launch="9.1.z")),
        (report(0, None), report(1)),
        (report(0),),
    ],
    ids=["no memory", "nothing told of memory", "somebody else's memory", "no utilisation told", "a GPU is not there"],
)
def test_what_holds_no_memory_or_cannot_be_known_is_not_marked(gpus: tuple[GpuReport, ...]) -> None:
    story = Story()
    story.passes(3 * AFTER_S, *gpus)
    assert (story.told, story.looks) == ([], [])


def test_memory_counts_also_where_nobody_tells_whose_it_is() -> None:
    story = Story()
    story.passes(2 * AFTER_S, report(0, launch="", mib=FREE_MIB + 1), report(1, launch="", mib=3))
    assert story.marked


def test_a_log_that_cannot_be_looked_at_makes_no_mark_and_takes_none_away() -> None:
    story = Story()
    story.log_at = None
    story.passes(3 * AFTER_S)
    assert not story.marked
    assert len(story.looks) <= 2 * AFTER_S / AGAIN_S + 1
    story.log_at = BEGIN
    story.passes(AGAIN_S + EVERY_S)
    assert story.marked
    story.log_at = None
    story.passes(3 * AFTER_S)
    assert story.told == [Step.MARKED]


def test_a_time_without_samples_is_no_time_without_work() -> None:
    story = Story()
    story.passes(AFTER_S - EVERY_S)
    story.now += GAP_S + 1
    story.passes(AFTER_S)
    assert not story.marked
    story.passes(2 * EVERY_S)
    assert story.marked
    story.now += 10 * GAP_S
    story.passes(2 * AFTER_S)
    assert story.told == [Step.MARKED], "who was idle before and is after has hardly worked in between"


def test_a_clock_that_is_set_back_only_begins_the_waiting_anew() -> None:
    story = Story()
    story.passes(AFTER_S - EVERY_S)
    story.now -= 100 * AFTER_S
    story.log_at = story.now
    story.passes(AFTER_S)
    assert not story.marked
    story.passes(2 * EVERY_S)
    assert story.marked


def test_another_attempt_of_the_task_begins_with_nothing() -> None:
    story = Story()
    story.passes(2 * AFTER_S)
    again = (report(0, launch="1.2.y"), report(1, launch="1.2.y"))
    story.sees(*again, launch="1.2.y")
    assert (story.marked, story.told) == ("", [Step.MARKED, Step.WORKS])
    assert story.watch.log_seen(1, LAUNCH, BEGIN, story.now + 10 * AFTER_S) is Step.NOTHING
    assert not story.marked


def test_of_a_task_on_two_nodes_all_gpus_must_do_nothing() -> None:
    story = Story()
    story.task.allocation = [Allocation("a", [0]), Allocation("b", [3])]
    end = story.now + AFTER_S
    while story.now < end:
        story.sees(report(0))
        story.sees(report(3, 70.0), node="b")
        story.now += EVERY_S
    for _ in range(int(AFTER_S / EVERY_S) + 2):
        story.sees(report(0))
        story.sees(report(3), node="b")
        story.now += EVERY_S
    assert "(0 on node a; 3 on node b) do nothing" in story.marked


def test_a_node_that_tells_nothing_keeps_the_mark_from_a_task_on_two() -> None:
    story = Story()
    story.task.allocation = [Allocation("a", [0]), Allocation("b", [3])]
    story.passes(3 * AFTER_S, report(0))
    assert (story.marked, story.looks) == ("", [])


# -- with a real engine, ports and links ----------------------------------------------------------------------


class Played(Agent):
    """An agent with GPUs."""

    def samples(self, utilization: float, **more: Any) -> None:
        """Send a sample: GPU 0 is held by what runs there."""
        process = {"pid": 8, "user": "u", "memory_mib": 9000, "launch_id": self.running[0]}
        gpu = {"index": 0, "utilization": utilization, "memory_used_mib": 9000, "processes": [process]}
        self.say(op="sample", at=1.0, gpus=[gpu, {"index": 1}], **{"gpu_source": "nvml", "gpu_fault": "", **more})


class Watched(Field):
    """A fleet over a machine with GPUs, and a task with a log that runs there."""

    def __init__(self, folder: Path, after_s: float) -> None:
        super().__init__(folder)
        self.one = self.agent = Played(folder, "10.0.0.1")
        self.after_s = after_s
        self.log = folder / "1.log"
        self.passed: list[str] = []

    async def begins(self, **spec: Any) -> Any:
        """The node comes and the task runs; who watches tasks."""
        self.desk = IdleDesk(self.master.engine, self, self.after_s)
        self.fleet._samples = self.desk
        self.fleet.apply((NodeConfig(name="n", ip="10.0.0.1", user_name="u", gpu_count=2),))
        peer = await self.master.peer()
        self.log.touch()
        await peer.call("task.submit", command="true", **{"gpus": 1, "log": str(self.log), **spec})
        await self.running(1)
        self.passed.clear()  # the first sample told that the GPUs may be given out
        watcher = await self.master.peer(TASKS)
        await watcher.call("subscribe", snapshot="none")
        return watcher

    def sample(self, node: str, sample: Passed) -> None:  # noqa: ARG002
        """Where samples go after the desk."""
        self.passed.append(node)

    async def samples_until(self, condition: Any, utilization: float = 0.0) -> None:
        """Samples come until something holds."""
        while not condition():
            self.agent.samples(utilization)
            await asyncio.sleep(0.01)


def test_who_watches_is_told_once_of_the_mark_and_once_that_it_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def story() -> None:
        async with Watched(tmp_path, 0.2) as here:
            watcher = await here.begins(name="bert")
            core = here.master.core
            syncs = here.master.disk.syncs
            await here.samples_until(lambda: core.warned() == [1])
            passed = len(here.passed)
            await here.samples_until(lambda: len(here.passed) > passed + 20)
            peer = await here.master.peer()
            shown = await peer.call("task.show", id=1)
            listed = (await peer.call("task.list"))["tasks"][0]
            sparse = await peer.call("task.list", sparse=True)
            why = await peer.call("task.why", id=1)
            assert re.fullmatch(
                r"idle since \d{4}-\d\d-\d\d \d\d:\d\d: its GPU \(0 on node n\) does nothing and its log is silent",
                shown["warning"],
            )
            assert listed["warning"] == why["warning"] == shown["warning"]
            assert sparse["warnings"] == {shown["warning"]: [1]}
            assert sparse["defaults"]["warning"] is None
            assert (await peer.call("server.info"))["warned"] == [1]
            await here.samples_until(lambda: not core.warned(), 90.0)
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
        async with Watched(tmp_path, 0.05) as here:
            await here.begins()
            core = here.master.core
            await here.samples_until(lambda: core.warned() == [1])
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
def test_samples_that_say_nothing_of_gpus_mark_nobody(tmp_path: Path, more: dict[str, str]) -> None:
    async def story() -> None:
        async with Watched(tmp_path, 0.01) as here:
            await here.begins()
            here.agent.samples(0.0)
            await settled(lambda: here.passed)
            await asyncio.sleep(0.02)
            for _ in range(20):
                here.agent.samples(0.0, **more)
            await settled(lambda: len(here.passed) == 21)
            assert here.desk._looking == {}
            assert here.master.core.warned() == []

    run(story())


@pytest.mark.parametrize("state", [TaskState.STARTING, TaskState.PAUSED])
def test_only_a_task_that_runs_can_be_idle(tmp_path: Path, state: TaskState) -> None:
    async def story() -> None:
        async with Watched(tmp_path, 0.001) as here:
            await here.begins()
            here.master.core.tasks[1].state = state
            for _ in range(20):
                here.agent.samples(0.0)
            await settled(lambda: len(here.passed) == 20)
            assert here.desk._watch._quiet == {}
            here.master.core.tasks[1].state = TaskState.RUNNING

    run(story())


def test_a_task_without_gpus_is_never_looked_at(tmp_path: Path) -> None:
    async def story() -> None:
        async with Watched(tmp_path, 0.001) as here:
            await here.begins(gpus=0)
            for _ in range(20):
                here.agent.samples(0.0)
            await settled(lambda: len(here.passed) == 20)
            assert here.desk._watch._quiet == {}

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
    monkeypatch.setattr(idle_desk, "last_written", storage.last_written)
    yield storage
    storage.answers.set()


def test_a_hung_storage_blocks_nothing_and_is_asked_once_until_it_answers(tmp_path: Path, hung: HungStorage) -> None:
    async def story() -> None:
        async with Watched(tmp_path, 0.001) as here:
            await here.begins()
            await here.samples_until(lambda: hung.asked)
            passed = len(here.passed)
            await here.samples_until(lambda: len(here.passed) > passed + 10)
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
        async with Watched(tmp_path, 0.001) as here:
            await here.begins()
            here.desk.threads = Threads(patience_s=0.02)
            await here.samples_until(lambda: hung.asked == STUCK)
            passed = len(here.passed)
            await here.samples_until(lambda: len(here.passed) > passed + 10)
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
