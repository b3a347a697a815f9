"""Files of the store that somebody changed, emptied or damaged while no master ran: told, and never simply believed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from master.core.tasks.records import Change
from master.core.tasks.task import Task, TaskState
from master.durable.disk import OsDisk
from master.durable.journal import encode_record
from master.durable.store import Image, Permit, Store
from master.edited_files.json_file import NOT_UTF8
from tests.faults import refusing, said, says
from wire.errors import StoreChangedError, StoreCorruptError
from wire.message import Message, revived

if TYPE_CHECKING:
    from wire.message import Value

WAIT = "wait_task.json"


def started(folder: Path, permit: Permit | None = None) -> tuple[Store, Image]:
    store = Store(folder, OsDisk(), permit=permit)
    return store, store.open()


def record(store: Store, *tasks: Task) -> None:
    store.append(Change(tasks=list(tasks)))
    store.commit()


def compact(store: Store, tasks: dict[int, Task]) -> None:
    for step in store.compact(tasks, {}):
        if step is not None:
            step()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Thirty tasks in the files, two more in the journal only, one of the thirty changed since."""
    store, _ = started(tmp_path)
    tasks = {number: Task(id=number, command=f"python {number}.py") for number in range(1, 31)}
    record(store, *tasks.values())
    compact(store, tasks)
    record(store, Task(id=31, command="x"), Task(id=32, command="x"))
    tasks[5].name = "renamed"
    record(store, tasks[5])
    store.close()
    return tmp_path


def edit(folder: Path, change: Any) -> None:
    path = folder / WAIT
    tasks = json.loads(path.read_bytes())
    path.write_text(json.dumps(change(tasks) or tasks))


def everything(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}


def refused(folder: Path) -> Message:
    before = everything(folder)
    with pytest.raises(StoreChangedError) as refusal:
        started(folder)
    assert everything(folder) == before
    message = said(refusal.value)
    assert (message.key, message.args["folder"]) == ("queue_files_changed", str(folder))
    return message


def changed(folder: Path, name: str, key: str, /, **values: Value) -> bool:
    """Is a start refused for this difference of this file?"""
    [of_file] = [one for one in parts(refused(folder), "files") if one.args["name"] == name]
    return any(says(change, key, **values) for change in parts(of_file, "changes"))


def parts(message: Message, name: str) -> list[Message]:
    found = message.args[name]
    assert isinstance(found, tuple)
    return [one for one in found if isinstance(one, Message)]


def test_a_byte_that_would_run_another_command_is_told_with_task_and_command(folder: Path) -> None:
    path = folder / WAIT
    path.write_bytes(path.read_bytes().replace(b"python 7.py", b"python 9.py"))
    assert changed(folder, WAIT, "task_edited", id=7, command="python 9.py")


@pytest.mark.parametrize("change", [(b'"fan"', b'"fun"'), (b'"drained":', b'"drained": '), (b'"own":', b'"own": ')])
def test_a_byte_of_what_is_not_a_task_is_told_too(tmp_path: Path, change: tuple[bytes, bytes]) -> None:
    store, _ = started(tmp_path)
    store.append(Change(state={"nodes": msgspec.Raw(b'{"a":{"drained":"fan"}}')}))
    compact(store, {1: Task(id=1, command="x")})
    store.close()
    path = tmp_path / "state.json"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(*change))
    assert path.read_bytes() != whole
    assert changed(tmp_path, "state.json", "state_changed")
    store, image = started(tmp_path, Permit(edits=True))
    assert b'"drained"' in bytes(image.state["nodes"])
    store.close()
    started(tmp_path)[0].close()


def test_a_state_of_a_version_that_made_no_digest_of_it_loads(tmp_path: Path) -> None:
    store, _ = started(tmp_path)
    compact(store, {1: Task(id=1, command="x")})
    store.close()
    path = tmp_path / "state.json"
    before = path.read_bytes()
    path.write_bytes(re.sub(rb',"own":"[0-9a-f]+"', b"", before))
    assert path.read_bytes() != before
    started(tmp_path)[0].close()


def test_tasks_that_vanished_are_not_dropped_without_a_yes(folder: Path) -> None:
    (folder / WAIT).write_text("[]")
    # The fifth has a newer record in the journal: nothing of it is lost.
    assert changed(folder, WAIT, "tasks_missing", count=29, ids="1-4, 6-30")
    store, image = started(folder, Permit(edits=True))
    assert set(image.tasks) == {5, 31, 32}
    assert says(store.notes[0], "edits_taken", name=WAIT)
    assert says(store.notes[0], "tasks_missing", count=29)
    store.close()
    again, image = started(folder)
    assert set(image.tasks) == {5, 31, 32}
    again.close()


def test_a_task_that_somebody_wrote_into_a_file_is_told_and_taken_with_a_yes(folder: Path) -> None:
    edit(folder, lambda tasks: [*tasks, {"id": 90, "command": "y"}])
    assert changed(folder, WAIT, "tasks_new", count=1, ids="90")
    store, image = started(folder, Permit(edits=True))
    assert (image.tasks[90].command, image.next_id) == ("y", 91)
    store.close()


def test_a_file_that_was_only_laid_out_anew_holds_nothing_up_but_is_told(folder: Path) -> None:
    path = folder / WAIT
    edit(folder, lambda _tasks: None)
    text = path.read_text()
    path.write_text(json.dumps(json.loads(text), indent=2))
    store, image = started(folder)
    assert set(image.tasks) == set(range(1, 33))
    assert says(store.notes[0], "edits_known_better", name=WAIT)
    store.close()
    assert not started(folder)[0].notes


def test_without_its_checksums_a_changed_file_is_told_by_its_counts(folder: Path) -> None:
    (folder / "queues.sums").write_bytes(b"\xff\x00")
    (folder / WAIT).write_text("[]")
    assert changed(folder, WAIT, "task_count_changed", before=30, count=0)


def test_an_edit_after_a_clean_start_of_a_new_folder_is_told(tmp_path: Path) -> None:
    started(tmp_path)[0].close()
    (tmp_path / WAIT).write_text('[{"id": 3, "command": "x"}]')
    assert changed(tmp_path, WAIT, "tasks_new", count=1, ids="3")


def as_before_checksums(folder: Path) -> None:
    """Make of the folder what an earlier version would have left: no digests, no checksums, an empty journal."""
    state = json.loads((folder / "state.json").read_bytes())
    del state["state"]["files"]
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "queues.sums").unlink()
    (folder / "ids").unlink()
    (folder / "journal.jsonl").write_bytes(b"")


def test_a_folder_of_an_earlier_version_loads_and_is_watched_from_then_on(tmp_path: Path) -> None:
    store, _ = started(tmp_path)
    tasks = {number: Task(id=number, command="x") for number in (1, 2)}
    record(store, *tasks.values())
    compact(store, tasks)
    store.close()
    as_before_checksums(tmp_path)
    store, image = started(tmp_path)
    assert set(image.tasks) == {1, 2}
    store.close()
    (tmp_path / WAIT).write_text("[]")
    assert changed(tmp_path, WAIT, "tasks_missing", count=2, ids="1-2")
    (tmp_path / "journal.jsonl").write_bytes(b"")
    with refusing(StoreCorruptError, "journal_without_records", path=str(tmp_path / "journal.jsonl")):
        started(tmp_path)


def test_files_that_an_earlier_version_wrote_since_are_not_called_changed(folder: Path) -> None:
    state = json.loads((folder / "state.json").read_bytes())
    state["seq"] += 1  # it cut the journal at a later record, and carried the piece along
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "journal.jsonl").write_bytes(b"")
    (folder / WAIT).write_text(json.dumps([{"id": 1, "command": "x"}]))
    assert set(started(folder)[1].tasks) == {1}


@pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"garbage\n"])
@pytest.mark.parametrize("compacted", [True, False])
def test_a_journal_that_was_emptied_is_refused_like_a_missing_one(
    tmp_path: Path, content: bytes, *, compacted: bool
) -> None:
    store, _ = started(tmp_path)
    tasks = {1: Task(id=1, command="x")}
    record(store, *tasks.values())
    if compacted:
        compact(store, tasks)
    store.close()
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(content)
    with refusing(StoreCorruptError, "journal_without_records", path=str(journal)):
        started(tmp_path)
    journal.unlink()
    with refusing(StoreCorruptError, "journal_missing", path=str(journal)):
        started(tmp_path)


def damage(folder: Path, number: int) -> None:
    journal = folder / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[number] = b"?" + lines[number][1:]
    journal.write_bytes(b"".join(lines))


def test_past_a_damaged_record_all_others_are_used_and_only_what_it_may_have_started_is_held(tmp_path: Path) -> None:
    store, _ = started(tmp_path)
    record(store, Task(id=1, command="x"))
    record(store, Task(id=2, command="lost"))
    record(store, Task(id=3, command="x"))
    record(store, Task(id=4, command="x", state=TaskState.RUNNING))
    store.close()
    damage(tmp_path, 2)  # behind the line that every journal begins with
    before = (tmp_path / "journal.jsonl").read_bytes()
    with refusing(StoreCorruptError, "journal_line_wrong", line=3):
        started(tmp_path)
    store, image = started(tmp_path, Permit(damage=True))
    assert {task.id: task.state.value for task in image.tasks.values()} == {1: "held", 3: "waiting", 4: "running"}
    assert image.next_id > 4
    assert bytes(image.state["start_over"]) == b"true"
    assert store.damage[0].tells("journal_lines_lost", lines="3", kept="journal.damaged")
    assert store.damage[0].tells("journal_tasks_held", ids="1", release="1")
    assert (tmp_path / "journal.damaged").read_bytes() == before
    store.close()
    again, image = started(tmp_path)
    assert {task.id: task.state.value for task in image.tasks.values()} == {1: "held", 3: "waiting", 4: "running"}
    assert len(again.damage) == 1
    again.close()


@pytest.mark.parametrize("content", [b"", None, b"cut"])
def test_with_a_yes_a_lost_journal_leaves_what_the_files_know_and_nothing_is_started_by_itself(
    folder: Path, content: bytes | None
) -> None:
    journal = folder / "journal.jsonl"
    whole = journal.read_bytes()
    journal.unlink()
    if content is not None:
        journal.write_bytes(content and whole[: len(whole) // 9])
    store, image = started(folder, Permit(damage=True))
    assert set(image.tasks) == set(range(1, 31))
    assert {task.state for task in image.tasks.values()} == {TaskState.HELD}
    assert image.next_id > 32  # ids that were given are not given again, though nobody knows to what
    store.close()
    store, image = started(folder)
    assert len(image.tasks) == 30
    record(store, Task(id=image.next_id, command="y"))
    compact(store, image.tasks)
    store.close()
    started(folder)[0].close()


@pytest.mark.parametrize("promises", [True, False])
def test_a_zeroed_tail_is_told_until_somebody_has_seen_it_and_gives_no_id_twice(
    tmp_path: Path, *, promises: bool
) -> None:
    store, _ = started(tmp_path)
    record(store, Task(id=1, command="x"))
    size = store.journal_bytes
    for number in (2, 3, 4):
        record(store, Task(id=number, command="x"))
    store.close()
    journal = tmp_path / "journal.jsonl"
    data = journal.read_bytes()
    journal.write_bytes(data[:size] + bytes(len(data) - size))
    if not promises:  # a folder of an earlier version
        (tmp_path / "ids").unlink()
    store, image = started(tmp_path)
    assert set(image.tasks) == {1}
    assert image.next_id > (4 if promises else 1)
    assert store.damage[0].tells("torn_end_lost", kept="journal.torn")
    assert store.damage[0].tells("ids_go_on", first=image.next_id)
    record(store, Task(id=image.next_id, command="y"))
    store.close()
    store, image = started(tmp_path)
    assert {1, image.next_id - 1} == set(image.tasks)
    assert len(store.damage) == 1
    compact(store, image.tasks)
    store.close()
    store, _ = started(tmp_path)
    assert len(store.damage) == 1
    store.append(Change(state={"damage": msgspec.Raw(b"[]")}))
    assert store.damage == []
    store.close()


def test_a_record_from_nowhere_is_damage_too(tmp_path: Path) -> None:
    store, _ = started(tmp_path)
    record(store, Task(id=1, command="x"))
    store.close()
    with (tmp_path / "journal.jsonl").open("ab") as file:
        file.write(encode_record(99, 98, b'{"tasks":[{"id":7,"command":"y","seq":99}]}'))
    with refusing(StoreCorruptError, "record_out_of_order", record=99, before=1):
        started(tmp_path)
    store, image = started(tmp_path, Permit(damage=True))
    assert set(image.tasks) == {1, 7}
    store.close()


@pytest.mark.parametrize("name", ["wait_task.json", "hist_task.json", "state.json"])
def test_a_byte_that_is_not_utf8_is_told_with_its_line_and_the_way_to_convert_the_file(
    tmp_path: Path, name: str
) -> None:
    store, _ = started(tmp_path)
    store.close()
    (tmp_path / name).write_bytes(
        b'[\n{"id": 1,\n"name": "\xca\xe9"}]' if name != "state.json" else b'{\n\n"format": "\xca"}'
    )
    with pytest.raises(StoreCorruptError) as caught:
        started(tmp_path)
    message = said(caught.value)
    assert (message.key, message.args["path"]) == ("queue_line_wrong", str(tmp_path / name))
    assert message.args["line"] == 3
    assert says(message, NOT_UTF8.key)


class LossBefore(msgspec.Struct, frozen=True):
    """What versions before messages kept of a loss."""

    at: float
    what: str


def test_a_loss_is_kept_as_a_message_and_as_the_sentence_that_earlier_versions_read(tmp_path: Path) -> None:
    store, _ = started(tmp_path)
    before = LossBefore(1.5, "words of another version")
    store.append(Change(state={"damage": msgspec.Raw(msgspec.json.encode([before]))}))
    record(store, Task(id=1, command="x"))
    size = store.journal_bytes
    record(store, Task(id=2, command="x"))
    store.close()
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[: size + 20])
    store, image = started(tmp_path)
    first, second = store.damage
    assert (first.at, first.what, first.key, first.args) == (before.at, before.what, None, None)
    assert not first.tells("people_lost")
    assert second.key is not None
    assert second.args is not None
    message = revived(second.key, second.args)
    assert says(message, "torn_end_lost", kept="journal.torn", size=20)
    assert second.what == str(message)
    store.close()
    read = msgspec.json.decode(image.state["damage"], type=list[LossBefore])
    assert read == [before, LossBefore(second.at, str(message))]
