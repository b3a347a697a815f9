"""The store in a real folder, and on simulated disks that are full, read-only, broken or tampered with."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from master.core.tasks.attempt import Part
from master.core.tasks.records import Change
from master.core.tasks.task import Task, TaskState
from master.durable import queue_files as snapshot
from master.durable import recovery
from master.durable import store as store_module
from master.durable.disk import OsDisk, SyncFailedError
from master.durable.store import Image, Permit, Store
from tests.faults import refusing, said, says
from tests.master.durable.simulated_disk import SimulatedDisk
from wire.errors import LockedError, StoreChangedError, StoreCorruptError, StoreUnavailableError

FOLDER = Path("task_info")
QUEUES = ["wait_task.json", "exec_task.json", "hist_task.json"]


def started(folder: Path, permit: Permit | None = None) -> tuple[Store, Image]:
    store = Store(folder, OsDisk(), permit=permit)
    return store, store.open()


def record(store: Store, *tasks: Task) -> int:
    seq = store.append(Change(tasks=list(tasks)))
    store.commit()
    return seq


def compact(store: Store, tasks: dict[int, Task], answered: dict[str, msgspec.Raw] | None = None) -> None:
    for step in store.compact(tasks, answered or {}):
        if step is not None:
            step()


def read_queues(folder: Path) -> list[list[int]]:
    return [[task["id"] for task in json.loads((folder / name).read_text())] for name in QUEUES]


def test_a_new_folder_has_all_its_files_and_no_tasks(tmp_path: Path) -> None:
    store, image = started(tmp_path / "deep" / "task_info")
    assert (image.tasks, image.seq, image.next_id) == ({}, 0, 1)
    assert read_queues(store.folder) == [[], [], []]
    assert json.loads((store.folder / "state.json").read_text())["next_id"] == 1
    store.close()


class NeverWalked(dict[int, Task]):
    """What is known by now, while the journal is read."""

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("all that is known is looked through")


def test_for_a_record_of_the_journal_not_all_that_is_known_is_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = started(tmp_path)
    for number in range(1, 20):
        record(store, Task(id=number, command="true"), Task(id=number + 1, command="true"))
    store.close()
    monkeypatch.setattr(recovery, "Image", lambda _, *rest: Image(NeverWalked(), *rest))
    again, image = started(tmp_path)
    assert [*image.tasks.keys()] == [*range(1, 21)]
    again.close()


def test_of_more_answers_than_are_kept_the_newest_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "ANSWERS_KEPT", 2)
    store, image = started(tmp_path)
    compact(store, image.tasks, {name: msgspec.Raw(b'{"id":1}') for name in ("first", "second", "third")})
    store.close()
    again, image = started(tmp_path)
    assert list(image.answered) == ["second", "third"]
    again.close()


def test_what_was_committed_is_back_and_what_was_not_is_gone(tmp_path: Path) -> None:
    store, _ = started(tmp_path)
    parts = [Part("local", [], "1.1.abc", "boot", "state")]
    record(store, Task(id=1, command=["a", "字"], state=TaskState.RUNNING, allocation=parts))
    store.append(Change(state={"epoch": msgspec.Raw(b"3")}, answered={"r": msgspec.Raw(b'{"id":1}')}))
    store.commit()
    store.append(Change(tasks=[Task(id=2, command="b")]))
    store.close()
    again, image = started(tmp_path)
    assert image.tasks == {1: Task(id=1, command=["a", "字"], state=TaskState.RUNNING, allocation=parts, seq=1)}
    assert bytes(image.state["epoch"]) == b"3"
    assert bytes(image.answered["r"]) == b'{"id":1}'
    assert (image.seq, image.next_id) == (2, 2)
    again.close()


def test_a_piece_of_state_that_is_gone_is_not_kept(tmp_path: Path) -> None:
    store, _ = started(tmp_path)
    for value in (b"3", b"null"):
        store.append(Change(state={"epoch": msgspec.Raw(b"3"), "user/1": msgspec.Raw(value)}))
    store.commit()
    store.close()
    again, image = started(tmp_path)
    assert "user/1" not in image.state
    compact(again, {}, {})
    assert "user/1" not in (tmp_path / "state.json").read_text()
    again.close()


def test_compaction_files_each_task_by_its_state_and_cuts_the_journal(tmp_path: Path) -> None:
    store, _ = started(tmp_path)
    states = [TaskState.RUNNING, TaskState.WAITING, TaskState.LOST, TaskState.HELD, TaskState.PAUSED]
    tasks = {i: Task(id=i, command="x", state=state) for i, state in enumerate(states, 1)}
    record(store, *tasks.values())
    store.append(Change(state={"epoch": msgspec.Raw(b"4")}))
    store.commit()
    compact(store, tasks, {"r": msgspec.Raw(b"7")})
    assert read_queues(tmp_path) == [[2, 4], [1, 5], [3]]
    assert (tmp_path / "wait_task.json").read_text().count("\n") == 4
    assert store.journal_bytes < 1000
    store.close()
    again, image = started(tmp_path)
    assert (image.tasks, image.seq, image.next_id) == (tasks, 3, 6)
    assert (bytes(image.state["epoch"]), bytes(image.answered["r"])) == (b"4", b"7")
    assert record(again, Task(id=6, command="x")) == 4
    again.close()


def test_changes_made_while_compacting_survive_the_cut(tmp_path: Path) -> None:
    store, _ = started(tmp_path)
    tasks = {i: Task(id=i, command="x") for i in range(1, 5001)}
    record(store, *tasks.values())
    for changed, step in enumerate(store.compact(tasks, {}), 1):
        tasks[changed * 400].name = "changed"
        record(store, tasks[changed * 400])
        del tasks[changed]
        store.append(Change(gone=[changed]))
        if step is not None:
            step()
    store.commit()
    store.close()
    again, image = started(tmp_path)
    assert image.tasks == tasks
    assert 0 < again.journal_bytes < 10_000
    again.close()


def test_ids_of_deleted_tasks_are_never_given_again(tmp_path: Path) -> None:
    store, _ = started(tmp_path)
    record(store, Task(id=5, command="x"))
    store.append(Change(gone=[5]))
    store.commit()
    compact(store, {})
    store.close()
    again, image = started(tmp_path)
    assert (image.tasks, image.next_id) == ({}, 6)
    again.close()


def test_a_second_master_is_sent_away(tmp_path: Path) -> None:
    store, _ = started(tmp_path)
    with pytest.raises(LockedError):
        started(tmp_path)
    store.close()
    started(tmp_path)[0].close()


def test_a_torn_tail_is_cut_and_kept_beside(tmp_path: Path) -> None:
    store, _ = started(tmp_path)
    record(store, Task(id=1, command="x"))
    store.close()
    with (tmp_path / "journal.jsonl").open("ab") as file:
        file.write(b"0badc0de 2 1 {")
    again, image = started(tmp_path)
    assert image.seq == 2, "the master had ended in order: what follows from the loss is recorded in the same write"
    assert again.access_is_to_end
    assert (tmp_path / "journal.torn").read_bytes() == b"0badc0de 2 1 {"
    assert says(again.notes[0], "torn_cut_off", kept="journal.torn")
    record(again, Task(id=2, command="y"))
    again.close()
    assert set(started(tmp_path)[1].tasks) == {1, 2}


def test_left_over_drafts_are_removed(tmp_path: Path) -> None:
    started(tmp_path)[0].close()
    (tmp_path / "wait_task.json.tmp").write_text("[{")
    started(tmp_path)[0].close()
    assert not list(tmp_path.glob("*.tmp"))


def spoilt(tmp_path: Path) -> None:
    """A folder with a compaction behind it and records since."""
    store, _ = started(tmp_path)
    tasks = {i: Task(id=i, command="x") for i in (1, 2)}
    record(store, *tasks.values())
    compact(store, tasks)
    for i in (3, 4, 5):
        record(store, Task(id=i, command="x"))
    store.close()


@pytest.mark.parametrize("name", [*QUEUES, "state.json"])
@pytest.mark.parametrize("content", [b"", b"garbage", b'{"id": 1', b"[\n{},\n5\n]", b"\xff\xfe[]", None])
def test_a_file_that_is_empty_missing_or_garbage_is_refused_by_name(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    spoilt(tmp_path)
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.json*")}
    with pytest.raises(StoreCorruptError) as caught:
        started(tmp_path)
    assert said(caught.value).args["path"] == str(tmp_path / name)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.json*")} == before


def test_a_missing_or_damaged_journal_is_refused(tmp_path: Path) -> None:
    spoilt(tmp_path)
    journal = tmp_path / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)[1:]  # behind what the compaction noted of its files
    for content in (b"".join(lines[1:]), lines[0] + lines[2], lines[0] + b"?" + lines[1][1:] + lines[2]):
        journal.write_bytes(content)
        with refusing(StoreCorruptError, "journal_line_wrong", path=str(journal)):
            started(tmp_path)
    journal.unlink()
    with refusing(StoreCorruptError, "journal_missing", path=str(journal)):
        started(tmp_path)


def test_a_queue_newer_than_the_journal_is_refused(tmp_path: Path) -> None:
    spoilt(tmp_path)
    (tmp_path / "wait_task.json").write_text('[{"id":1,"command":"x","seq":99}]')
    with refusing(StoreCorruptError, "queue_beyond_journal", newest=99):
        started(tmp_path)


@pytest.mark.parametrize("newer_in", ["wait_task.json", "hist_task.json"])
def test_of_a_task_that_stands_in_two_files_and_the_journal_the_newest_copy_is_taken(
    tmp_path: Path, newer_in: str
) -> None:
    store, _ = started(tmp_path)
    record(store, Task(id=7, command="the oldest"), Task(id=8, command="of the journal alone"))
    for _ in range(3):
        last = record(store, Task(id=9, command="what else happened"))
    store.close()
    lines = {"wait_task.json": "the older", "hist_task.json": "the older", newer_in: "the newer"}
    for name, command in lines.items():
        seq = last if name == newer_in else last - 1
        fresh = Task(id=11 + (name == newer_in), command="of this file alone", seq=seq)
        (tmp_path / name).write_bytes(msgspec.json.encode([Task(id=7, command=command, seq=seq), fresh]))
    store, image = started(tmp_path, Permit(edits=True))
    store.close()
    assert image.tasks[7].command == "the newer"
    assert sorted(image.tasks) == [7, 8, 9, 11, 12]
    assert image.next_id == 13


def test_files_of_the_old_system_and_ours_may_be_mixed_if_somebody_says_so(tmp_path: Path) -> None:
    spoilt(tmp_path)
    old = {"task_id": "26112106053964", "exec": "python a.py", "need_gpus": "1", "state": "wait"}
    mixed = json.dumps([old, {"id": 1, "command": "x", "seq": 1}, {"id": 2, "command": "x", "seq": 1}])
    (tmp_path / "wait_task.json").write_text(mixed)
    with refusing(StoreChangedError, "tasks_new", count=1, ids="26112106053964"):
        started(tmp_path)
    for permit in (Permit(edits=True), None):
        store, image = started(tmp_path, permit)
        assert set(image.tasks) == {1, 2, 3, 4, 5, 26112106053964}
        assert image.next_id == 6
        assert (tmp_path / "wait_task.json.old").read_text() == mixed
        store.close()
    store, image = started(tmp_path)
    compact(store, image.tasks)
    store.close()
    assert read_queues(tmp_path)[0] == [1, 2, 3, 4, 5, 26112106053964]
    assert len(list(tmp_path.glob("*.old*"))) == 1


def test_archived_tasks_go_to_the_month_in_which_they_ended(tmp_path: Path) -> None:
    store, _ = started(tmp_path)
    tasks = [Task(id=i, command="x", ended_at=at) for i, at in ((1, 1767225599.0), (2, 1767225600.0))]
    store.archive(tasks)
    december, january = (tmp_path / "history" / f"{month}.jsonl" for month in ("2025-12", "2026-01"))
    january.write_bytes(january.read_bytes() + b'{"id":9,"comm')
    store.archive(tasks[1:])
    assert [json.loads(line)["id"] for line in december.read_text().splitlines()] == [1]
    lines = january.read_text().splitlines()
    assert json.loads(lines[0]) == json.loads(lines[2])
    store.close()


@pytest.fixture
def small_reserve(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(store_module, "RESERVE_BYTES", 4096)
    return 4096


def refusal(store: Store) -> str:
    return store.fault.key if store.fault else ""


def fill(disk: SimulatedDisk) -> None:
    disk.capacity = sum(len(content.now) for content in disk.files.values())


def test_a_full_disk_still_takes_ends_from_the_reserve_and_says_that_it_is_full(small_reserve: int) -> None:
    disk = SimulatedDisk()
    store = Store(FOLDER, disk)
    store.open()
    assert not refusal(store)
    fill(disk)
    record(store, Task(id=1, command="x"))
    assert refusal(store) == "store_full"
    store.probe()
    assert refusal(store)
    assert not store.room_for(1)
    disk.capacity = None
    store.probe()
    assert not refusal(store)
    assert store.room_for(1)
    assert disk.size(FOLDER / "reserve") == small_reserve


def test_a_disk_full_beyond_the_reserve_keeps_the_records_for_later(small_reserve: int) -> None:
    disk = SimulatedDisk()
    store = Store(FOLDER, disk)
    store.open()
    fill(disk)
    store.append(Change(tasks=[Task(id=1, command="x" * 2 * small_reserve)]))
    for _ in range(2):
        with pytest.raises(StoreUnavailableError):
            store.commit()
    disk.capacity = None
    store.commit()
    assert set(Store(FOLDER, SimulatedDisk(disk.crash("dropped", random.Random(0)))).open().tasks) == {1}


@pytest.mark.usefixtures("small_reserve")
def test_a_read_only_disk_refuses_until_it_is_writable_again() -> None:
    disk = SimulatedDisk()
    store = Store(FOLDER, disk)
    store.open()
    disk.read_only = True
    store.append(Change(tasks=[Task(id=1, command="x")]))
    with refusing(StoreUnavailableError, "journal_unwritable", detail="Read-only file system"):
        store.commit()
    store.probe()
    assert refusal(store)
    disk.read_only = False
    store.probe()
    store.commit()
    assert not refusal(store)


@pytest.mark.usefixtures("small_reserve")
def test_a_full_disk_stops_a_compaction_and_nothing_else() -> None:
    disk = SimulatedDisk()
    store = Store(FOLDER, disk)
    store.open()
    tasks = {i: Task(id=i, command="x" * 100) for i in range(1, 4001)}
    record(store, *tasks.values())
    published = {name: disk.read(FOLDER / name) for name in (*QUEUES, "state.json", "journal.jsonl")}
    opened = disk.open_files
    fill(disk)
    for spare in (0, 1, 100_000, 500_000):
        disk.capacity = sum(len(content.now) for content in disk.files.values()) + spare
        with pytest.raises(StoreUnavailableError):
            compact(store, tasks)
        assert {name: disk.read(FOLDER / name) for name in published} == published
        assert not [name for name in disk.names(FOLDER) if name.endswith(".tmp")]
        assert disk.open_files == opened
    disk.capacity = None
    compact(store, tasks)
    assert store.journal_bytes < 1000
    assert disk.open_files == opened


@pytest.mark.usefixtures("small_reserve")
def test_a_failed_sync_ends_it() -> None:
    disk = SimulatedDisk()
    store = Store(FOLDER, disk)
    store.open()
    disk.broken_sync = True
    store.append(Change(tasks=[Task(id=1, command="x")]))
    with pytest.raises(SyncFailedError):
        store.commit()


def test_a_compaction_given_up_half_way_leaves_no_drafts(tmp_path: Path) -> None:
    store, _ = started(tmp_path)
    tasks = {1: Task(id=1, command="x")}
    record(store, *tasks.values())
    steps = store.compact(tasks, {})
    next(steps)
    assert list(tmp_path.glob("*.tmp"))
    del steps
    assert not list(tmp_path.glob("*.tmp"))
    store.close()


def test_it_is_compacted_when_the_journal_has_grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "COMPACT_BYTES", 1000)
    store, _ = started(tmp_path)
    assert not store.should_compact()
    task = Task(id=1, command="x" * 10_000_000)
    record(store, task)
    assert store.should_compact()
    compact(store, {1: task})
    assert not store.should_compact()
    record(store, Task(id=2, command="y" * 2000))
    assert not store.should_compact(), "twice the work must pay for itself"
    store.close()
