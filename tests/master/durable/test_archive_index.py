"""Finding tasks in the monthly files, whatever was done to them or to the index."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from pathlib import Path

import pytest

from master.core.tasks.task import Task, TaskState
from master.durable import history
from master.durable.archive import Archive
from master.durable.archive_index import FILE, ArchiveIndex, Wanted
from master.durable.disk import OsDisk
from wire.errors import NotFoundError

DAY = 86_400.0
BEGIN = 1_767_225_600.0
"""The first moment of 2026."""
ALL = Wanted(states=("succeeded", "failed"), limit=1000)


def ended(number: int, **more: object) -> Task:
    fields = {"state": TaskState.SUCCEEDED, "ended_at": BEGIN + number * DAY, "owner": "ana", **more}
    return Task(id=number, command=f"python {number}.py", **fields)  # type: ignore[arg-type]


def archive(folder: Path, *tasks: Task) -> None:
    history.extend(OsDisk(), folder, tasks)


def ids(index: ArchiveIndex, wanted: Wanted = ALL) -> list[int]:
    return [task.id for task in index.page(wanted).tasks]


def test_tasks_of_many_months_are_found_by_id_and_listed_with_the_newest_end_first(tmp_path: Path) -> None:
    archive(tmp_path, *(ended(number) for number in range(1, 101)))
    index = ArchiveIndex(tmp_path)
    assert index.find(7) == ended(7)
    assert index.find(101) is None
    assert ids(index) == list(range(100, 0, -1))
    page = index.page(Wanted(states=("succeeded",), limit=3, offset=2))
    assert ([task.id for task in page.tasks], page.total) == ([98, 97, 96], 100)
    assert ids(index, Wanted(states=("succeeded",), sort="id", limit=2)) == [1, 2]
    assert ids(index, Wanted(states=("succeeded",), reverse=True, limit=2)) == [1, 2]
    index.close()


def test_filters_are_those_of_the_queue(tmp_path: Path) -> None:
    archive(tmp_path, ended(1), ended(2, owner="bo"), ended(3, state=TaskState.FAILED), ended(4, name="BERT"))
    index = ArchiveIndex(tmp_path)
    assert ids(index, Wanted(states=("succeeded",), owners=("ana",), limit=9)) == [4, 1]
    assert ids(index, Wanted(states=("failed",), limit=9)) == [3]
    assert ids(index, Wanted(states=("succeeded",), search="Bert", limit=9)) == [4]
    assert ids(index, Wanted(states=("succeeded",), search="%' OR 1", limit=9)) == []
    assert ids(index, Wanted(states=("succeeded", "failed"), since=BEGIN + 3 * DAY, limit=9)) == [4, 3]
    index.close()


def test_what_is_added_later_is_found_and_of_equal_ids_the_last_line_counts(tmp_path: Path) -> None:
    archive(tmp_path, ended(1))
    index = ArchiveIndex(tmp_path)
    assert ids(index) == [1]
    archive(tmp_path, ended(2), ended(1, state=TaskState.FAILED))
    assert index.find(1) == ended(1, state=TaskState.FAILED)
    history.forget(OsDisk(), tmp_path / "2026-01.jsonl", 1)
    assert ids(index) == [2]
    index.close()
    (tmp_path / FILE).unlink()
    assert ids(ArchiveIndex(tmp_path)) == [2]


def test_damaged_lines_are_counted_and_all_others_are_there(tmp_path: Path) -> None:
    archive(tmp_path, *(ended(number) for number in range(1, 6)))
    path = tmp_path / "2026-01.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b'{"id":2,"comm\n', b"\xff\xfe\n", b"\n", *lines[3:], b'{"id":9,"command"']))
    index = ArchiveIndex(tmp_path)
    page = index.page(ALL)
    assert [task.id for task in page.tasks] == [5, 4, 1]
    assert page.unreadable == {"2026-01.jsonl": 2}
    archive(tmp_path, ended(6))  # the cut line gets its end, and counts
    assert index.page(ALL).unreadable == {"2026-01.jsonl": 3}
    assert index.find(6) == ended(6)
    index.close()


def test_a_line_that_a_kill_cut_is_no_loss_once_its_task_was_archived_again(tmp_path: Path) -> None:
    archive(tmp_path, ended(1), ended(2))
    path = tmp_path / "2026-01.jsonl"
    index = ArchiveIndex(tmp_path)
    assert ids(index) == [2, 1]
    path.write_bytes(path.read_bytes() + b'{"id":3,"owner":"ana","comm')
    archive(tmp_path, ended(3), ended(4))  # what the next start does with all that the kill left in the journal
    assert index.page(ALL).unreadable == {}
    path.write_bytes(path.read_bytes() + b'{"id":4,"owner":"ana","comm')
    archive(tmp_path, ended(5))
    assert index.page(ALL).unreadable == {"2026-01.jsonl": 1}  # a later attempt of 4 is gone
    history.forget(OsDisk(), path, 4)
    assert (ids(index), index.page(ALL).unreadable) == ([5, 3, 2, 1], {})
    index.close()


@pytest.mark.parametrize("spoil", ["garbage", "gone", "another"])
def test_an_index_that_is_wrong_is_made_anew(tmp_path: Path, spoil: str) -> None:
    archive(tmp_path, ended(1), ended(2))
    index = ArchiveIndex(tmp_path)
    assert ids(index) == [2, 1]
    index.close()
    if spoil == "garbage":
        (tmp_path / FILE).write_bytes(b"no data base at all" * 999)
    elif spoil == "gone":
        (tmp_path / FILE).unlink()
    else:
        (tmp_path / FILE).rename(tmp_path / "x")
        other = ArchiveIndex(tmp_path)
        other.close()
    assert ids(ArchiveIndex(tmp_path)) == [2, 1]


def test_files_that_somebody_shortened_or_edited_are_read_again(tmp_path: Path) -> None:
    archive(tmp_path, *(ended(number) for number in range(1, 4)))
    index = ArchiveIndex(tmp_path)
    assert ids(index) == [3, 2, 1]
    path = tmp_path / "2026-01.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[2])
    assert ids(index) == [3, 1]
    path.write_bytes(lines[2] + lines[0])
    assert index.find(3) == ended(3)
    path.unlink()
    assert ids(index) == []
    index.close()


def test_a_hundred_thousand_archived_tasks_do_not_pass_through_memory_at_once(tmp_path: Path) -> None:
    for first in range(0, 100_000, 10_000):
        lines = (json.dumps({"id": number, "command": "x" * 200, "state": "failed", "ended_at": BEGIN + number})
                 for number in range(first + 1, first + 10_001))  # fmt: skip
        with (tmp_path / "2026-01.jsonl").open("a", encoding="ascii") as file:
            file.write("\n".join(lines) + "\n")
    assert (tmp_path / "2026-01.jsonl").stat().st_size > 25_000_000
    index = ArchiveIndex(tmp_path)
    tracemalloc.start()
    try:
        assert index.page(ALL).total == 100_000
        assert index.find(50_000) is not None
        assert tracemalloc.get_traced_memory()[1] < 12_000_000
    finally:
        tracemalloc.stop()
    index.close()


def test_a_lab_without_history_has_no_archived_tasks_and_gets_no_folder(tmp_path: Path) -> None:
    archive = Archive(tmp_path, OsDisk())

    async def ask() -> None:
        assert (await archive.page(ALL)).total == 0
        with pytest.raises(NotFoundError, match="no task 3"):
            await archive.find(3)
        await archive.forget([3])

    asyncio.run(ask())
    archive.close()
    assert list(tmp_path.iterdir()) == []
