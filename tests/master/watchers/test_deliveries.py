"""Deliveries of moves to a consumer: in order, again after a failure, and none lost."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

import pytest

from master.core.tasks.task import TaskState
from master.core.tasks.transitions import State
from master.durable.outbox import Event, Reader
from master.engine.engine import Observer
from master.watchers.deliveries import GATHER_S, RETRY_S, Deliveries
from master.watchers.refusals import RefusedForGoodError
from tests.faults import says
from tests.leaps import Leap
from tests.master.durable.simulated_disk import SimulatedDisk
from tests.master.durable.small_outbox import NAME, Lab, again, ids, is_end
from tests.master.in_process import run
from tests.waiting import settled


class Listener:
    """A consumer that fails as often as it is told, refuses `refuses` for good, and keeps what it was given."""

    def __init__(self, *failures: bool | Exception, refuses: Collection[int] = ()) -> None:
        self.failures = list(failures)
        self.refuses = refuses
        self.given: list[list[int]] = []

    def wants(self, before: State, after: State) -> bool:
        return is_end(before, after)

    async def deliver(self, events: Sequence[Event]) -> bool:
        self.given.append(ids(list(events)))
        failure = self.failures.pop(0) if self.failures else False
        if isinstance(failure, Exception):
            raise failure
        if any(one in self.refuses for one in self.given[-1]):
            raise RefusedForGoodError("550 no such user")
        return not failure


class Desk:
    """Deliveries of one lab, in the loop of the test."""

    def __init__(self, lab: Lab, listener: Listener, leap: Leap) -> None:
        self.observers: list[Observer] = []
        self.lab = lab
        self.listener = listener
        self.leap = leap
        self.deliveries = Deliveries(self.observers, lab.reader, listener)

    def committed(self) -> None:
        [observer] = self.observers
        observer.published([(self.lab.tasks[1], None, None)], set())

    async def given(self, *expected: list[int], after: float = GATHER_S) -> None:
        await asyncio.sleep(0)
        self.leap(after)
        await settled(lambda: len(self.listener.given) >= len(expected), "the consumer was given all")
        assert self.listener.given == list(expected)


def finished(reader: Reader) -> int:
    """The last record that a restart would not read again."""
    return reader.place.next_missing - 1


def test_what_is_there_at_the_start_and_what_comes_is_delivered_together_and_in_order(leap: Leap) -> None:
    lab = Lab(SimulatedDisk())
    lab.end(1)
    lab.end(2)

    async def story() -> None:
        desk = Desk(lab, Listener(), leap)
        await desk.given([1, 2])
        lab.end(3)
        lab.end(4, 5)
        desk.committed()
        await desk.given([1, 2], [3, 4, 5])
        await settled(lambda: finished(lab.reader) == lab.store.journal.seq)
        await desk.deliveries.close()
        assert desk.observers == []

    run(story())
    assert again(lab.cut()).hear() == []


@pytest.mark.parametrize("failure", [None, OSError("no way"), ValueError("a defect")])
def test_after_a_failure_the_same_events_come_again_one_by_one_first(leap: Leap, failure: Exception | None) -> None:
    lab = Lab(SimulatedDisk())
    lab.end(1, 2, 3, 4)
    before = lab.store.journal.seq - 1

    async def story() -> None:
        desk = Desk(lab, Listener(failure or True, failure or True), leap)
        await desk.given([1, 2, 3, 4])
        assert finished(lab.reader) <= before
        await settled(lambda: lab.reader.reached is None)
        since = desk.deliveries.failing_since
        assert since is not None
        await desk.given([1, 2, 3, 4], [1], after=RETRY_S)
        await settled(lambda: lab.reader.reached is None)
        assert desk.deliveries.failing_since == since
        await desk.given([1, 2, 3, 4], [1], [1], [2, 3], [4], after=2 * RETRY_S)
        await settled(lambda: finished(lab.reader) == lab.store.journal.seq)
        assert desk.deliveries.failing_since is None
        await desk.deliveries.close()

    run(story())


def test_what_is_refused_for_good_is_found_out_passed_over_and_told_once(
    leap: Leap, caplog: pytest.LogCaptureFixture
) -> None:
    lab = Lab(SimulatedDisk())
    lab.end(1, 2, 3, 4)

    async def story() -> None:
        desk = Desk(lab, Listener(refuses=(2, 4)), leap)
        await desk.given([1, 2, 3, 4], [1], [2, 3], [2], [3, 4], [3], [4])
        await settled(lambda: finished(lab.reader) == lab.store.journal.seq)
        [told] = desk.deliveries.troubles(NAME)
        assert says(told, "hook_refuses", hook=NAME, count=1)
        lab.end(5)
        desk.committed()
        await desk.given([1, 2, 3, 4], [1], [2, 3], [2], [3, 4], [3], [4], [5])
        await settled(lambda: not desk.deliveries.troubles(NAME))
        await desk.deliveries.close()

    run(story())
    assert [record.getMessage().partition(" was ")[2] for record in caplog.records] == [
        "refused for good and is not delivered again: 550 no such user"
    ] * 2
    assert again(lab.cut()).hear() == []


def test_a_delivery_that_is_cut_short_comes_again(leap: Leap) -> None:
    lab = Lab(SimulatedDisk())
    lab.end(1)

    class Slow(Listener):
        async def deliver(self, events: Sequence[Event]) -> bool:
            await super().deliver(events)
            await asyncio.Event().wait()
            return True

    async def story() -> None:
        desk = Desk(lab, Slow(), leap)
        await desk.given([1])
        await desk.deliveries.close()

    run(story())
    assert ids(again(lab.cut()).hear()) == [1]


def test_others_have_their_turn_while_there_is_much_to_read_that_nobody_wants(leap: Leap) -> None:
    lab = Lab(SimulatedDisk())
    for _ in range(1500):
        lab.move((1, None, TaskState.WAITING))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while finished(lab.reader) < lab.store.journal.seq:
            await asyncio.sleep(0)
            turns += 1

    async def story() -> None:
        desk = Desk(lab, Listener(), leap)
        await asyncio.sleep(0)
        leap(GATHER_S)
        await count()
        await desk.deliveries.close()

    run(story())
    assert turns >= 2
