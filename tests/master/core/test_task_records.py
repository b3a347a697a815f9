"""Tasks on disk: what was written before still loads, and is written again byte for byte as it was, but for its
attempt, of which this version says more."""

from __future__ import annotations

import zlib
from pathlib import Path

import msgspec
import pytest

from master.core.tasks.records import read_change, read_task
from master.core.tasks.task import Task, TaskState, Terms, Wish
from master.verbs.spec import Editable, Spec
from master.verbs.submit import Submit
from tests.landed import as_now

RECORDS = Path(__file__).parents[2] / "data/task_records"
QUEUES = ("wait_task.json", "exec_task.json", "hist_task.json")


def lines_of(queue: str) -> list[bytes]:
    return [line.rstrip(b",") for line in (RECORDS / queue).read_bytes().splitlines() if line.startswith(b"{")]


@pytest.mark.parametrize("queue", QUEUES)
def test_a_line_of_a_queue_is_written_as_it_was_read_but_for_what_was_sent_to_its_node(queue: str) -> None:
    lines = lines_of(queue)
    assert len(lines) > 2
    for line in lines:
        written = msgspec.json.encode(read_task(line))
        assert written == msgspec.json.encode(as_now(msgspec.json.decode(line)))
        assert written == line or b'"launch":' in line or b'"cancel_requested":' in line


def test_a_record_of_the_journal_is_written_as_it_was_read_but_for_what_was_sent_to_nodes() -> None:
    records = [line.split(b" ", 3) for line in (RECORDS / "journal.jsonl").read_bytes().splitlines()]
    assert len(records) > 20
    for crc, seq, before, record in records:
        assert int(crc, 16) == zlib.crc32(b" ".join((seq, before, record)))
        said = msgspec.json.decode(record)
        if "tasks" in said:
            said["tasks"] = [as_now(task) for task in said["tasks"]]
        assert msgspec.json.encode(read_change(record)) == msgspec.json.encode(said)


def test_the_moves_of_a_record_are_arrays_of_three_and_have_names_once_they_are_read() -> None:
    record = b'{"moves":[[7,"waiting","starting"],[8,null,"held"],[9,"lost",null]]}'
    change = read_change(record)
    assert isinstance(change.moves, list)
    assert [(move.id, move.before, move.after) for move in change.moves] == [
        (7, TaskState.WAITING, TaskState.STARTING), (8, None, TaskState.HELD), (9, TaskState.LOST, None)
    ]  # fmt: skip
    assert msgspec.json.encode(change) == record


def test_what_was_sent_to_a_node_is_read_as_one_attempt_of_one_part() -> None:
    lines = [line for queue in ("exec_task.json", "hist_task.json") for line in lines_of(queue)]
    tasks = [(msgspec.json.decode(line), read_task(line)) for line in lines]
    sent = [(before, task) for before, task in tasks if before.get("launch")]
    assert len(sent) > 2
    for before, task in sent:
        ((part,),) = (attempt.parts for attempt in task.attempts)
        (place,) = before["allocation"]
        assert (part.node, part.gpus) == (place["node"], place["gpus"])
        assert {key: getattr(part, key) for key in before["launch"]} == before["launch"]
        (attempt,) = task.attempts
        ends = (attempt.no, attempt.started_at, attempt.ended_at, attempt.exit_code)
        assert ends == tuple(before.get(key) for key in ("attempt", "started_at", "ended_at", "exit_code"))
        assert task.cancel_requested == before.get("cancel_requested", False)


def test_every_key_of_a_task_is_in_those_files_and_a_new_one_stands_behind_them() -> None:
    tasks = [msgspec.json.decode(line) for queue in QUEUES for line in lines_of(queue)]
    names = {name for task in tasks for name in task}
    assert len(names) == 35
    assert names == {field.encode_name for field in msgspec.structs.fields(Task)[:35]}


def test_a_submit_can_say_just_what_a_wish_holds() -> None:
    on_the_wire = {"log": "log_path"}
    said = {on_the_wire.get(name, name) for name in Editable.__struct_fields__} - {"hold"}
    assert said == set(Wish.__struct_fields__)
    assert set(Terms.__struct_fields__) < set(Spec.__struct_fields__)


def test_what_is_narrower_on_the_wire_still_loads_from_disk() -> None:
    old = b'{"id":1,"name":"%s","command":"true","after":[{"id":0,"on":"any"}],"priority":1000000000}' % (b"x" * 300)
    assert msgspec.json.encode(read_task(old)) == old


def test_what_a_submit_leaves_unsaid_is_what_a_task_has_that_says_nothing() -> None:
    said, has = msgspec.structs.asdict(Spec()), msgspec.structs.asdict(Task(id=1, command="true"))
    assert {name for name in Terms.__struct_fields__ if said[name] != has[name]} == {"gpus", "nodes"}, (
        "which are worked out"
    )
    assert msgspec.to_builtins(Submit(command="true")) == {"command": "true"}
