"""The outbox: each move reaches each consumer at least once, whatever ends the master, and a gap is told."""

from __future__ import annotations

import os
import random
from pathlib import Path

import msgspec
import pytest

from master.core.tasks.records import Change, read_tasks
from master.core.tasks.task import Task, TaskState
from master.durable import outbox as outbox_module
from master.durable import store as store_module
from master.durable.cursor import Cursor, Place
from master.durable.disk import OsDisk
from master.durable.outbox import Moved
from master.durable.store import Store
from tests.faults import refusing, says
from tests.master.durable.simulated_disk import Fate, SimulatedDisk
from tests.master.durable.small_outbox import CURSOR, FOLDER, NAME, Lab, again, gaps, ids, is_end
from wire.errors import StoreChangedError

FATES: list[Fate] = ["dropped", "kept", "torn", "torn"]


@pytest.fixture(autouse=True)
def _small_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "RESERVE_BYTES", 4096)


def test_moves_come_in_order_with_the_task_as_it_was_and_only_those_that_are_wanted() -> None:
    lab = Lab(SimulatedDisk())
    lab.move((1, None, TaskState.WAITING))
    lab.move((1, TaskState.WAITING, TaskState.STARTING), (2, TaskState.RUNNING, TaskState.FAILED))
    lab.end(3, 4)
    heard = lab.hear()
    assert ids(heard) == [2, 3, 4]
    assert [event.task.state for event in heard if isinstance(event, Moved) and event.task] == [
        TaskState.FAILED, TaskState.SUCCEEDED, TaskState.SUCCEEDED
    ]  # fmt: skip
    assert lab.hear() == []


def test_a_consumer_begins_at_the_present_and_is_forgotten_once_nobody_names_it() -> None:
    lab = Lab(SimulatedDisk(), "other")
    lab.end(1)
    lab = again(lab.cut(), "other", NAME)
    lab.end(2)
    assert ids(lab.hear()) == [2]
    lab.end(3)
    lab = again(lab.cut(), "other")
    assert CURSOR not in lab.disk.files
    lab.end(4)
    lab = again(lab.cut(), "other", NAME)
    lab.end(5)
    assert ids(lab.hear()) == [5]


def test_what_was_not_finished_comes_again_under_the_same_id_and_what_was_does_not() -> None:
    lab = Lab(SimulatedDisk())
    lab.end(1)
    lab.hear()
    lab.end(2, 3)
    read = lab.reader.read(is_end)
    lab = again(lab.cut())
    assert lab.hear() == read
    lab = again(lab.cut())
    assert lab.hear() == []


def test_a_record_with_many_moves_goes_on_in_its_middle() -> None:
    lab = Lab(SimulatedDisk())
    lab.end(*range(1, 8))
    lab.heard += lab.reader.read(is_end, 3)
    lab.reader.finish()
    after = again(lab.cut())
    assert ids(lab.heard) == [1, 2, 3]
    assert ids(after.hear(2)) == [4, 5, 6, 7]


def test_back_gives_again_what_was_read_and_not_finished() -> None:
    lab = Lab(SimulatedDisk())
    lab.end(1, 2)
    lab.end(3)
    assert ids(lab.reader.read(is_end)) == [1, 2, 3]
    lab.reader.back()
    assert ids(lab.reader.read(is_end, 1)) == [1]
    lab.reader.finish()
    lab.reader.back()
    assert ids(lab.reader.read(is_end)) == [2, 3]


def test_a_record_that_is_not_on_the_disk_yet_is_not_read() -> None:
    lab = Lab(SimulatedDisk())
    lab.end(1, commit=False)
    assert lab.hear() == []
    lab.store.commit()
    assert ids(lab.hear()) == [1]


def test_a_cut_of_the_journal_keeps_what_a_consumer_has_not_finished() -> None:
    lab = Lab(SimulatedDisk())
    lab.end(1)
    lab.hear()
    lab.end(2)
    lab.compact()
    lab.end(3)
    lab.compact()
    assert ids(lab.hear()) == [2, 3]
    lab.compact()
    assert lab.store.journal.first_record() == lab.reader.place.seq
    lab = again(lab.cut())
    assert lab.hear() == []
    assert set(lab.image.tasks) == {1, 2, 3}


def test_beyond_the_bound_one_gap_is_told_and_the_newest_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "KEPT_BYTES", 2000)
    lab = Lab(SimulatedDisk())
    lab.end(1)
    lab.hear()
    last = lab.reader.place.seq
    for number in range(2, 30):
        lab.end(number)
    lab.compact()
    first = lab.store.journal.first_record()
    assert first is not None
    for heard in (lab.hear(), again(lab.cut("dropped")).hear()):
        assert gaps(heard[:1]) == [(last + 1, first - 1)]
        assert gaps(heard[1:]) == []
        assert ids(heard)[-1] == 29
        assert 1 < len(ids(heard)) < 10
        assert lab.store.journal.size < 2000 + 1500


@pytest.mark.parametrize("damage", ["removed", "torn", "zeroed", "emptied", "foreign"])
def test_a_damaged_cursor_falls_back_to_the_floor_and_nothing_is_lost(damage: str) -> None:
    lab = Lab(SimulatedDisk())
    lab.end(1)
    lab.hear()
    lab.compact()
    lab.end(2)
    lab.hear()
    lab.end(3)
    left = lab.cut()
    line = left[CURSOR]
    bad = {"torn": line[:20], "zeroed": bytes(len(line)), "emptied": b"", "foreign": b"\xff one two\n"}
    if damage == "removed":
        del left[CURSOR]
    else:
        left[CURSOR] = bad[damage]
    heard = again(left).hear()
    assert ids(heard) == [2, 3]
    assert gaps(heard) == []
    assert heard[0] == lab.heard[-1]


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_a_cursor_that_is_no_file_of_ours_says_nothing_and_stops_no_start(tmp_path: Path, kind: str) -> None:
    path = tmp_path / NAME
    Cursor(OsDisk(), path).begin(Place(7, 8, 9, 10))
    assert Cursor(OsDisk(), path).load() == Place(7, 8, 9, 10)
    path.rename(tmp_path / "elsewhere")
    if kind == "link":
        path.symlink_to("elsewhere")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    assert Cursor(OsDisk(), path).load() is None


def test_a_folder_put_back_beside_newer_cursors_repeats_and_loses_nothing() -> None:
    lab = Lab(SimulatedDisk())
    lab.end(1)
    lab.hear()
    backup = lab.cut()
    for number in range(2, 6):
        lab.end(number)
    lab.hear()
    newer = lab.cut()[CURSOR]
    lab = again({**backup, CURSOR: newer})
    lab.end(7)
    assert ids(lab.hear())[-1] == 7  # its cursor says more than this journal has
    lab = again(backup)
    for number in range(12, 16):
        lab.end(number)
    lab = again({**lab.cut(), CURSOR: newer})
    assert set(ids(lab.hear())) >= {12, 13, 14, 15}  # the record of its cursor is another one now


def test_what_a_version_wrote_that_notes_no_moves_is_a_gap() -> None:
    lab = Lab(SimulatedDisk())
    lab.end(1)
    lab.hear()
    seq = lab.store.append(Change(tasks=[Task(id=2, command="true", state=TaskState.FAILED)]))
    lab.store.append(Change(state={"epoch": msgspec.Raw(b"2")}))  # a record that says nothing of tasks
    last = lab.store.append(Change(tasks=[Task(id=3, command="true", state=TaskState.FAILED)]))
    lab.end(4)
    heard = lab.hear()
    assert gaps(heard) == [(seq, last)]
    assert ids(heard) == [4]


def test_a_record_that_the_disk_spoiled_is_a_gap() -> None:
    lab = Lab(SimulatedDisk())
    lab.end(1)
    begin = lab.store.journal.size
    lab.end(2)
    lab.end(3)
    content = lab.disk.files[FOLDER / "journal.jsonl"]
    content.now = content.now[: begin + 30] + b"?" + content.now[begin + 31 :]
    heard = lab.hear()
    assert ids(heard) == [1, 3]
    assert len(gaps(heard)) == 1


def test_a_disk_that_takes_no_cursor_stops_nobody() -> None:
    lab = Lab(SimulatedDisk())
    lab.end(1)
    lab.hear()
    disk = SimulatedDisk(lab.cut())
    lab = Lab(disk)
    lab.end(2)
    disk.read_only = True
    assert ids(lab.hear()) == [2]
    disk.read_only = False
    assert ids(again(lab.cut()).hear()) == [2]


def test_a_cursor_that_could_not_be_made_is_told_and_made_later() -> None:
    disk = SimulatedDisk()
    Lab(disk, "other").store.close()
    store = Store(FOLDER, disk)
    store.open()
    disk.capacity = sum(len(content.now) for content in disk.files.values())
    store.serve([NAME])
    assert any(says(note, "in_file", path=str(CURSOR)) for note in store.notes)
    assert any(says(note, "file_unwritable", detail="No space left on device") for note in store.notes)
    disk.capacity = None
    store.outbox.floor()
    assert CURSOR in disk.files


def test_reading_costs_no_more_for_a_large_record_than_its_moves() -> None:
    lab = Lab(SimulatedDisk())
    lab.end(*range(1, 2001))
    before, calls = read_tasks, 0

    def counted(data: bytes) -> list[Task]:
        nonlocal calls
        calls += 1
        return before(data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outbox_module, "read_tasks", counted)
        assert len(lab.hear()) == 2000
    assert calls == 1


def test_of_a_record_of_very_many_bytes_few_are_read_at_once_and_none_is_lost() -> None:
    lab, decoded = Lab(SimulatedDisk()), list[int]()
    lab.end(*range(1, 2001))

    def counted(data: bytes) -> list[Task]:
        decoded.append(len(data))
        return read_tasks(data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outbox_module, "MOST_BYTES", 10_000)
        patch.setattr(outbox_module, "read_tasks", counted)
        heard = list[int]()
        while not lab.reader.is_at_end:
            decoded.clear()
            events = lab.reader.read(is_end, 100)
            assert sum(decoded) < 10_000 + 1_000
            assert all(isinstance(event, Moved) and event.task is not None for event in events)
            heard += [event.task_id for event in events if isinstance(event, Moved)]
            lab.reader.finish()
    assert heard == [*range(1, 2001)]


def test_a_consumer_costs_no_sync() -> None:
    syncs = []
    for names in ([NAME], ["other", NAME]):
        lab = Lab(SimulatedDisk(), *names)
        lab.disk.log.clear()
        for number in range(1, 20):
            lab.end(number)
            lab.hear()
        before = [what for what in lab.disk.log if what.startswith("sync")]
        assert len(before) == 19  # one a commit
        lab.compact()
        syncs.append([what for what in lab.disk.log if what.startswith("sync")])
    plain = Store(FOLDER, SimulatedDisk())
    image = plain.open()
    assert isinstance(plain.disk, SimulatedDisk)
    plain.disk.log.clear()
    for number in range(1, 20):
        image.tasks[number] = Task(id=number, command="x")
        plain.append(Change(tasks=[image.tasks[number]]))
        plain.commit()
    for step in plain.compact(image.tasks, {}):
        if step is not None:
            step()
    assert syncs == [[what for what in plain.disk.log if what.startswith("sync")]] * 2


class Storm(Lab):
    """Ends, delivers and compacts at random; knows what it may not lose."""

    def __init__(self, disk: SimulatedDisk, seed: int) -> None:
        super().__init__(disk)
        self.chance = random.Random(seed)
        self.safe: set[int] = set()
        self.last = 0

    def work(self, turns: int) -> None:
        for _ in range(turns):
            count = self.chance.choice((1, 1, 2, 5))
            new = range(self.last + 1, self.last + count + 1)
            self.last += count
            self.end(*new)
            self.safe.update(new)
            if self.chance.random() < 0.6:
                self.heard += self.reader.read(is_end, self.chance.choice((1, 3, 100)))
                if self.chance.random() < 0.8:
                    self.reader.finish()

    def compact(self) -> None:
        for step in self.store.compact(self.tasks, {}, next_id=self.last + 1):
            if step is not None:
                step()
            if self.chance.random() < 0.6:
                self.work(1)


@pytest.mark.parametrize("seed", range(4))
def test_power_cut_at_every_operation_loses_no_event_and_changes_no_id(seed: int) -> None:
    disk = SimulatedDisk()
    lab = Storm(disk, seed)
    cuts = 0

    def cut() -> None:
        nonlocal cuts
        for fate in FATES:
            after = again(disk.crash(fate, lab.chance))
            later = after.hear()
            cuts += 1
            assert gaps(later) == []
            assert set(ids(lab.heard)) | set(ids(later)) >= lab.safe
            names = {event.task_id: event.id for event in lab.heard if isinstance(event, Moved)}
            assert all(names.get(event.task_id, event.id) == event.id for event in later if isinstance(event, Moved))
            assert later == sorted(later, key=lambda event: ids([event]))

    disk.after_each = cut
    for _ in range(3):
        lab.work(6)
        lab.compact()
    lab.work(3)
    assert cuts > 400


def test_a_queue_file_of_the_time_before_a_cut_is_noticed_also_if_the_journal_keeps_records() -> None:
    lab = Lab(SimulatedDisk())
    lab.end(1)
    lab.compact()
    older = lab.cut()[FOLDER / "hist_task.json"]
    lab.end(2)
    lab.end(3)
    lab.hear()
    lab.end(4)
    lab.compact()
    assert lab.store.journal.first_record() == lab.reader.place.seq
    with refusing(StoreChangedError, "tasks_missing", count=1, ids="2"):
        again({**lab.cut(), FOLDER / "hist_task.json": older})
