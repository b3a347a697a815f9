"""Tasks that hold GPUs and do nothing: which are marked, and which are not."""

from __future__ import annotations

import time

import pytest

from master.config.settings import ROWS
from master.core.nodes.gpu_watch import GpuReport, Holder
from master.core.tasks.attempt import Part
from master.core.tasks.task import Task, TaskState
from master.watchers.idle_detector import AGAIN_S, BUSY_PERCENT, GAP_S, IdleDetector, Step
from wire.message import Message

AFTER_S = 600.0
BEGIN = 1_000_000.0
EVERY_S = 10.0
LAUNCH = "1.1.x"


def report(index: int, utilization: float | None = 0.0, *, mib: int | None = 9000, launch: str = LAUNCH) -> GpuReport:
    ours = (Holder(pid=8, user="lab", memory_mib=mib, launch_id=launch),) if launch else ()
    return GpuReport(index=index, utilization=utilization, memory_used_mib=mib, processes=ours)


class Story:
    """A task on GPUs 0 and 1 of node a, and its time. `log_at`: when its log was last written; None: nobody can say."""

    def __init__(self) -> None:
        self.detector = IdleDetector(AFTER_S)
        self.marks = self.detector.marks
        self.task = Task(id=1, command="true", state=TaskState.RUNNING, allocation=[Part("a", [0, 1])])
        self.now = BEGIN
        self.log_at: float | None = BEGIN - 1
        self.looks: list[float] = []
        self.told: list[Step] = []
        self.still: list[float] = []

    def sees(self, *reports: GpuReport, launch: str = LAUNCH, node: str = "a") -> None:
        """A sample."""
        gpus = {one.index: one for one in reports}
        step = self.detector.sampled(self.task, launch, node, gpus, self.now)
        if step is Step.LOOK:
            self.looks.append(self.now)
            step = self.detector.log_seen(self.task.id, launch, self.log_at, self.now)
        if step is Step.STILL:
            self.still.append(self.now)
        elif step is not Step.NOTHING:
            self.told.append(step)

    def passes(self, seconds: float, *reports: GpuReport) -> None:
        """Time passes, with a sample now and then."""
        end = self.now + seconds
        while self.now < end:
            self.sees(*(reports or (report(0), report(1))))
            self.now += EVERY_S

    @property
    def marked(self) -> str:
        return str(self.marks.get(1, ""))


def test_a_task_that_does_nothing_for_long_is_marked_once_and_not_before_its_time() -> None:
    story = Story()
    story.passes(AFTER_S)
    assert (story.marked, story.looks) == ("", [])
    story.passes(5 * AFTER_S)
    where = (Message("gpus_on_node", numbers=(0, 1), node="a"),)
    assert story.marked == str(Message("idle", since=BEGIN, gpus=2, where=where))
    assert story.told == [Step.MARKED]


def test_one_gpu_is_told_of_as_one() -> None:
    story = Story()
    story.task.allocation = [Part("a", [5])]
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


def test_the_mark_stays_when_the_memory_is_given_back() -> None:
    story = Story()
    story.passes(2 * AFTER_S)
    story.passes(AFTER_S, *UNUSED["no memory"])
    assert story.told == [Step.MARKED]


UNUSED = {
    "no memory": (report(0, launch="", mib=3), report(1, launch="", mib=3)),
    "nothing told of memory": (report(0, launch="", mib=None), report(1, launch="", mib=None)),
    "somebody else's memory": (report(0, launch="9.1.z"), report(1, launch="9.1.z")),
}
"""What samples say of GPUs of which the task uses no memory."""


@pytest.mark.parametrize("gpus", UNUSED.values(), ids=UNUSED)
def test_who_holds_gpus_without_using_their_memory_is_marked_like_others(gpus: tuple[GpuReport, ...]) -> None:
    story = Story()
    story.passes(AFTER_S, *gpus)
    assert (story.marked, story.looks) == ("", [])
    story.passes(2 * AFTER_S, *gpus)
    where = (Message("gpus_on_node", numbers=(0, 1), node="a"),)
    assert story.marked == str(Message("idle", since=BEGIN, gpus=2, where=where))
    assert story.told == [Step.MARKED]
    assert story.still, "a later look finds nothing either, so that the lab may end it"


@pytest.mark.parametrize("gpus", UNUSED.values(), ids=UNUSED)
def test_a_task_that_starts_or_fetches_data_and_tells_so_now_and_then_is_not_marked(
    gpus: tuple[GpuReport, ...],
) -> None:
    story = Story()
    for _ in range(20):
        story.log_at = story.now
        story.passes(AFTER_S / 2, *gpus)
    assert (story.told, story.still) == ([], [])
    story.passes(AFTER_S - EVERY_S, report(0, 80.0), report(1))
    story.log_at = BEGIN
    story.passes(AFTER_S - EVERY_S, *gpus)
    assert story.told == [], "who has begun to compute has all of the time again"


@pytest.mark.parametrize(
    "gpus",
    [
        (report(0, None), report(1)),
        (report(0, None, launch="", mib=3), report(1, None, launch="", mib=3)),
        (report(0),),
    ],
    ids=["no utilisation told", "neither utilisation nor memory", "a GPU is not there"],
)
def test_what_cannot_be_known_is_not_marked(gpus: tuple[GpuReport, ...]) -> None:
    story = Story()
    story.passes(3 * AFTER_S, *gpus)
    assert (story.told, story.looks) == ([], [])


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


def test_no_pace_of_the_samples_makes_a_gap_of_each_pause() -> None:
    most = ROWS["scheduler.sample_s"].most
    assert most is not None
    assert 3 * most <= GAP_S


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
    assert story.detector.log_seen(1, LAUNCH, BEGIN, story.now + 10 * AFTER_S) is Step.NOTHING
    assert not story.marked


def test_of_a_task_on_two_nodes_all_gpus_must_do_nothing() -> None:
    story = Story()
    story.task.allocation = [Part("a", [0]), Part("b", [3])]
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
    story.task.allocation = [Part("a", [0]), Part("b", [3])]
    story.passes(3 * AFTER_S, report(0))
    assert (story.marked, story.looks) == ("", [])


def test_the_parts_of_a_task_on_two_nodes_have_launch_ids_of_their_own() -> None:
    story = Story()
    story.task.allocation = [Part("a", [0], launch_id=LAUNCH), Part("b", [3], launch_id="1.1.y")]
    for _ in range(int(AFTER_S / EVERY_S) + 2):
        story.sees(report(0))
        story.sees(report(3, launch="1.1.y"), node="b", launch="1.1.y")
        story.now += EVERY_S
    assert "(0 on node a; 3 on node b) do nothing" in story.marked


def test_a_node_that_falls_silent_keeps_the_mark_from_a_task_on_two() -> None:
    story = Story()
    story.task.allocation = [Part("a", [0]), Part("b", [3])]
    story.sees(report(3), node="b")
    story.passes(3 * AFTER_S, report(0))
    assert (story.marked, story.looks) == ("", []), "nobody knows whether it works there"


def test_a_log_that_grows_between_two_looks_is_not_silent_whatever_its_machines_clock_says() -> None:
    story = Story()
    story.log_at = BEGIN - 100 * AFTER_S
    story.passes(AFTER_S + EVERY_S)
    assert story.told == [Step.MARKED]
    story.log_at += 20
    story.passes(2 * AGAIN_S)
    assert (story.told, story.still) == ([Step.MARKED, Step.WORKS], [])


def test_a_later_look_says_so_where_nothing_has_changed() -> None:
    story = Story()
    story.passes(AFTER_S + EVERY_S)
    assert (story.told, story.still) == ([Step.MARKED], [])
    story.passes(AGAIN_S + EVERY_S)
    assert len(story.still) == 1
    story.log_at = None
    story.passes(3 * AGAIN_S)
    assert len(story.still) == 1, "a log that cannot be looked at says nothing"


def test_a_later_look_says_nothing_until_all_of_the_time_was_watched() -> None:
    story = Story()
    story.passes(AFTER_S + EVERY_S)
    story.now += 2 * GAP_S
    story.passes(AFTER_S)
    assert (story.told, story.still) == ([Step.MARKED], [])
    story.passes(AGAIN_S + EVERY_S)
    assert story.still
