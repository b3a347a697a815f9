"""Ids are never given again, whatever the journal lost, and go on without a gap where nothing was lost."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from master.core.tasks.records import Change
from master.core.tasks.task import Task
from master.durable.disk import Disk, OsDisk
from master.durable.ids import AHEAD, MOST_AHEAD
from master.durable.store import Image, Store
from tests.faults import says
from tests.master.durable.simulated_disk import SimulatedDisk

FOLDER = Path("task_info")


def started(folder: Path, disk: Disk | None = None) -> tuple[Store, Image]:
    store = Store(folder, disk or OsDisk())
    return store, store.open()


def submit(store: Store, *ids: int) -> int:
    """Make tasks durable; how long the journal is then."""
    for number in ids:
        store.append(Change(tasks=[Task(id=number, command="x")]))
        store.commit()
    return store.journal_bytes


def stopped(store: Store) -> Path:
    """The folder after the master was stopped."""
    store.close()
    return store.folder


def killed(store: Store) -> Path:
    """The folder as SIGKILL leaves it: all that was written, and nothing more."""
    left = store.folder.with_name(f"{store.folder.name}-left")
    shutil.copytree(store.folder, left)
    store.close()
    return left


def cut(folder: Path, size: int) -> None:
    with (folder / "journal.jsonl").open("r+b") as journal:
        journal.truncate(size)


EVERY_END = pytest.mark.parametrize("end", [stopped, killed])


@EVERY_END
def test_after_any_end_of_the_master_ids_go_on_without_a_gap(tmp_path: Path, end: Callable[[Store], Path]) -> None:
    store, _ = started(tmp_path / "task_info")
    submit(store, 1, 2, 3)
    folder = end(store)
    for _ in range(2):
        store, image = started(folder)
        assert image.next_id == 4
        assert not store.damage
        folder = end(store)


@EVERY_END
def test_a_journal_cut_where_a_record_ends_is_told_and_gives_no_id_twice(
    tmp_path: Path, end: Callable[[Store], Path]
) -> None:
    store, _ = started(tmp_path / "task_info")
    size = submit(store, 1, 2)
    submit(store, 3, 4, 5)
    folder = end(store)
    cut(folder, size)
    store, image = started(folder)
    assert set(image.tasks) == {1, 2}
    assert image.next_id == 7  # 6 stands in the journal, as a number that is gone
    assert store.damage[0].tells("journal_end_lost_by_ids", given=5, highest=2)
    submit(store, 7)
    store, image = started(end(store))
    assert set(image.tasks) == {1, 2, 7}
    assert image.next_id == 8
    assert len(store.damage) == 1


def test_after_a_power_cut_ids_go_on_beyond_all_that_were_promised() -> None:
    disk = SimulatedDisk()
    store, _ = started(FOLDER, disk)
    submit(store, 1)
    length = submit(store, 2)
    submit(store, 3)
    left = disk.crash("dropped", random.Random(0))
    left[FOLDER / "journal.jsonl"] = left[FOLDER / "journal.jsonl"][:length]  # a disk that forgot what it had synced
    store, image = started(FOLDER, SimulatedDisk(left))
    assert set(image.tasks) == {1, 2}
    assert 3 < image.next_id <= AHEAD + 3
    assert says(store.notes[0], "ids_unknown", first=image.next_id)
    store.close()
    store, again = started(FOLDER, store.disk)
    assert again.next_id == image.next_id
    assert not store.damage


def test_where_many_ids_are_given_at_once_not_each_commit_promises_anew() -> None:
    disk = SimulatedDisk()
    store, _ = started(FOLDER, disk)
    promised = set()
    for first in range(1, 8001, 1000):
        store.append(Change(tasks=[Task(id=number, command="x") for number in range(first, first + 1000)]))
        store.commit()
        promised.add(int(disk.read(FOLDER / "ids").split(b"\n")[0]))
    assert len(promised) == 2
    store.append(Change(tasks=[Task(id=100_000, command="x")]))
    store.commit()
    assert int(disk.read(FOLDER / "ids").split(b"\n")[0]) == 100_000 + MOST_AHEAD


def test_a_mark_that_was_written_in_half_is_not_read_as_a_number() -> None:
    disk = SimulatedDisk()
    store, _ = started(FOLDER, disk)
    submit(store, *range(1, 12))
    disk.files[FOLDER / "ids"].write(b"9")
    after = SimulatedDisk({path: content.now for path, content in disk.files.items()})
    after.boot = disk.boot  # type: ignore[method-assign]  # only the process ended
    assert started(FOLDER, after)[1].next_id == 12


def test_a_folder_that_an_earlier_version_left_goes_on_without_a_gap(tmp_path: Path) -> None:
    store, _ = started(tmp_path)
    submit(store, 1, 2)
    store.close()
    (tmp_path / "ids").write_text("1002\n")
    assert started(tmp_path)[1].next_id == 3
