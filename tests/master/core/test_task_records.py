"""Tasks on disk: what was written before still loads, and is written again byte for byte as it was."""

from __future__ import annotations

import zlib
from pathlib import Path

import msgspec
import pytest

from master.core.task import Change, Task, Terms, Wish
from master.verbs.spec import Editable, Spec

RECORDS = Path(__file__).parents[2] / "data/task_records"
QUEUES = ("wait_task.json", "exec_task.json", "hist_task.json")


def lines_of(queue: str) -> list[bytes]:
    return [line.rstrip(b",") for line in (RECORDS / queue).read_bytes().splitlines() if line.startswith(b"{")]


@pytest.mark.parametrize("queue", QUEUES)
def test_a_line_of_a_queue_is_written_as_it_was_read(queue: str) -> None:
    lines = lines_of(queue)
    assert len(lines) > 2
    for line in lines:
        assert msgspec.json.encode(msgspec.json.decode(line, type=Task)) == line


def test_a_record_of_the_journal_is_written_as_it_was_read() -> None:
    records = [line.split(b" ", 3) for line in (RECORDS / "journal.jsonl").read_bytes().splitlines()]
    assert len(records) > 20
    for crc, seq, before, record in records:
        assert int(crc, 16) == zlib.crc32(b" ".join((seq, before, record)))
        assert msgspec.json.encode(msgspec.json.decode(record, type=Change)) == record


def test_every_field_of_a_task_is_in_those_files_and_a_new_one_stands_behind_them() -> None:
    tasks = [msgspec.json.decode(line) for queue in QUEUES for line in lines_of(queue)]
    names = {name for task in tasks for name in task}
    assert len(names) == 35
    assert names == set(Task.__struct_fields__[:35])


def test_a_submit_can_say_just_what_a_wish_holds() -> None:
    on_the_wire = {"log": "log_path"}
    said = {on_the_wire.get(name, name) for name in Editable.__struct_fields__} - {"hold", "share"}
    assert said == set(Wish.__struct_fields__)
    assert set(Terms.__struct_fields__) < set(Spec.__struct_fields__)


def test_what_is_narrower_on_the_wire_still_loads_from_disk() -> None:
    old = b'{"id":1,"name":"%s","command":"true","after":[{"id":0,"on":"any"}],"priority":1000000000}' % (b"x" * 300)
    assert msgspec.json.encode(msgspec.json.decode(old, type=Task)) == old
