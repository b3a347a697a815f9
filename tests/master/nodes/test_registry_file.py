"""Changing the registry as a person would: one entry changes, the rest of the file stays to the byte."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from master.edited_files import json_text, replaced_file
from master.nodes import registry_file
from master.nodes.registry import TURN, NodeConfig, load_registry
from tests import rights
from tests.faults import fault_in, part, refused, refusing, said, wrong
from tests.waiting import PATIENCE_S
from wire.errors import BadRequestError, ConflictError, NotFoundError, StorageError
from wire.message import Message

BY_HAND = """\
[
    {   "#": "the loud one, beside the door",
        "name": "Slaver1", "ip": "192.168.36.130",
        "user_name": "aaaaa",
        "gpu_count": 3,
        "gpu_info": ["RTX3090", "RTX3090", "RTX1080ti"]
    },
    {"name": "节点二", "driver": "local", "gpu_count": 0, "_bought": {"year": 2021}}
]
"""
ENTRY: dict[str, Any] = {"name": "新的", "ip": "10.0.0.9", "user_name": "lab", "gpu_count": 1, "gpu_info": ["A100"]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "gpu_slaver_info.json"
    made.write_text(BY_HAND, encoding="utf-8")
    return made


def text(path: Path) -> str:
    return path.read_bytes().decode()


def names(nodes: tuple[NodeConfig, ...]) -> list[str]:
    return [node.name for node in nodes]


def test_a_new_node_comes_last_and_the_rest_stays_as_it_was_written(path: Path) -> None:
    assert names(registry_file.add(path, ENTRY)) == ["Slaver1", "节点二", "新的"]
    added = '{"name": "新的", "ip": "10.0.0.9", "user_name": "lab", "gpu_count": 1, "gpu_info": ["A100"]}'
    assert text(path) == BY_HAND.replace("}}\n]", "}},\n    " + added + "\n]")
    assert load_registry(path)[2].gpu_info == ("A100",)


def test_a_new_node_is_laid_out_like_the_one_before_it(path: Path) -> None:
    path.write_text('[\r\n\t{\r\n\t\t"name" : "a",\r\n\t\t"driver" : "local",\r\n\t\t"gpu_count" : 0\r\n\t}\r\n]')
    registry_file.add(path, {"name": "b", "driver": "local", "gpu_count": 0})
    entry = '{\r\n\t\t"name" : "X",\r\n\t\t"driver" : "local",\r\n\t\t"gpu_count" : 0\r\n\t}'
    first, second = entry.replace("X", "a"), entry.replace("X", "b")
    assert text(path) == f"[\r\n\t{first},\r\n\t{second}\r\n]"


@pytest.mark.parametrize("before", ["[]", "[ ]\n", "[\n\n]\n", "\ufeff[]"])
def test_the_first_node_of_an_empty_registry(path: Path, before: str) -> None:
    path.write_text(before, encoding="utf-8")
    assert names(registry_file.add(path, ENTRY)) == ["新的"]
    assert '[\n  {"name": "新的"' in text(path)
    assert text(path).startswith("\ufeff") == before.startswith("\ufeff")


def test_an_edit_changes_the_value_where_it_stands_adds_keys_at_the_end_and_drops_others(path: Path) -> None:
    nodes = registry_file.edit(path, "Slaver1", {"ip": "10.0.0.1", "port": 2222, "gpu_info": None})
    assert (nodes[0].ip, nodes[0].port, nodes[0].gpu_info) == ("10.0.0.1", 2222, ())
    expected = BY_HAND.replace("192.168.36.130", "10.0.0.1").replace(
        ',\n        "gpu_info": ["RTX3090", "RTX3090", "RTX1080ti"]', ',\n        "port": 2222'
    )
    assert text(path) == expected


def test_an_edit_may_drop_the_first_key_and_what_is_not_there(path: Path) -> None:
    registry_file.edit(path, "Slaver1", {"#": None, "port": None})
    assert text(path) == BY_HAND.replace('"#": "the loud one, beside the door",\n        ', "")


def test_an_edit_that_changes_nothing_does_not_touch_the_file(path: Path) -> None:
    before = path.stat()
    registry_file.edit(path, "节点二", {"gpu_count": 0})
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_nodes_leave_one_by_one_until_the_list_is_empty(path: Path) -> None:
    assert names(registry_file.remove(path, "Slaver1")) == ["节点二"]
    assert text(path).startswith('[\n    {"name": "节点二"')
    assert registry_file.remove(path, "节点二") == ()
    assert text(path) == "[]\n"
    assert names(registry_file.add(path, ENTRY)) == ["新的"]


def test_a_name_that_is_taken_or_missing_is_told(path: Path) -> None:
    with refusing(ConflictError, "node_is_there", node="节点二"):
        registry_file.add(path, {**ENTRY, "name": "节点二"})
    for change in (partial(registry_file.edit, path, "x", {}), partial(registry_file.remove, path, "x")):
        with pytest.raises(NotFoundError, match=r"no node 'x' in the registry \(nodes: Slaver1, 节点二\)"):
            change()
    with pytest.raises(BadRequestError, match="keeps its name"):
        registry_file.edit(path, "节点二", {"name": "other"})
    assert text(path) == BY_HAND


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda path: registry_file.add(path, {**ENTRY, "gpu_count": -1}), wrong("[2] (新的).gpu_count", found="-1")),
        (lambda path: registry_file.add(path, {"name": "z"}), Message("missing_key", where="[2] (z)", key="gpu_count")),
        (
            lambda path: registry_file.add(path, {**ENTRY, "ip": "-oProxyCommand=x"}),
            wrong("[2] (新的).ip", expected=Message("one_plain_word")),
        ),
        (
            lambda path: registry_file.edit(path, "节点二", {"gpus": 3}),
            Message("unknown_key_but", where="[1] (节点二)", key="gpus"),
        ),
        (
            lambda path: registry_file.edit(path, "节点二", {"gpu_count": None}),
            Message("missing_key", where="[1] (节点二)", key="gpu_count"),
        ),
        (
            lambda path: registry_file.edit(path, "Slaver1", {"gpu_count": 2}),
            wrong("[0] (Slaver1).gpu_info", expected=Message("as_many_as_gpus", count=2, found=3)),
        ),
    ],
)
def test_a_change_that_would_make_the_file_wrong_is_refused_and_not_written(
    path: Path, change: Callable[[Path], object], fault: Message
) -> None:
    with pytest.raises(BadRequestError) as caught:
        change(path)
    assert part(said(caught.value), fault) == fault
    assert text(path) == BY_HAND
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("broken", ["", "[", "{}", '[{"name": "a"}]', "\udcff"])
def test_a_file_that_is_broken_already_is_not_touched(path: Path, broken: str) -> None:
    path.write_bytes(broken.encode(errors="surrogateescape"))
    assert refused(lambda: registry_file.add(path, ENTRY)).args["path"] == str(path)
    assert path.read_bytes() == broken.encode(errors="surrogateescape")


def test_a_file_that_is_gone_is_told_with_its_cure(path: Path) -> None:
    path.unlink()
    missing = Message("file_missing", cure=Message("init_writes_registry"))
    assert fault_in(path, lambda: registry_file.add(path, ENTRY)) == missing
    assert not path.exists()


def test_mode_and_owner_stay_and_a_link_stays_a_link(path: Path, tmp_path: Path) -> None:
    owner = (1234, 1235) if rights.has_users() else (os.getuid(), os.getgid())
    os.chown(path, *owner)
    path.chmod(0o640)
    link = tmp_path / "elsewhere" / "registry.json"
    link.parent.mkdir()
    link.symlink_to(os.path.relpath(path, link.parent))
    registry_file.add(link, ENTRY)
    info = path.stat()
    assert (info.st_uid, info.st_gid, info.st_mode & 0o7777) == (*owner, 0o640)
    assert link.is_symlink()
    assert len(load_registry(path)) == 3


def test_a_file_of_somebody_else_is_left_to_him(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    own = path.stat()
    his = os.stat_result((*own[:4], own.st_uid + 1, *own[5:]))
    monkeypatch.setattr(os, "fchown", refuse)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", lambda _: his)
        with refusing(StorageError, "registry_not_ours", path=str(path)):
            registry_file.add(path, ENTRY)
    assert text(path) == BY_HAND
    assert [child.name for child in path.parent.iterdir()] == [path.name]


def test_a_reader_at_any_moment_sees_a_whole_file(path: Path) -> None:
    end, seen = threading.Event(), set()

    def read() -> None:
        while not end.is_set():
            seen.add(len(load_registry(path)))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(30):
            registry_file.add(path, {**ENTRY, "name": f"n{number}"})
    finally:
        end.set()
        reader.join()
    assert seen <= set(range(2, 33))


def test_many_writers_at_once_lose_nothing_and_are_told_in_the_files_order(path: Path) -> None:
    told: list[int] = []

    def write(number: int) -> None:
        registry_file.add(path, {**ENTRY, "name": f"n{number}"}, told=lambda nodes: told.append(len(nodes)))

    writers = [threading.Thread(target=write, args=(number,)) for number in range(12)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(load_registry(path)) == 14
    assert told == list(range(3, 15))


def test_another_programs_lock_is_waited_for_and_then_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaced_file, "LOCK_S", 0.05)
    with path.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ConflictError, match="keeps it locked"):
            registry_file.add(path, ENTRY)
        monkeypatch.setattr(replaced_file, "LOCK_S", PATIENCE_S)
        release = threading.Timer(0.1, lambda: fcntl.flock(other, fcntl.LOCK_UN))
        release.start()
        assert len(registry_file.add(path, ENTRY)) == 3
        release.join()


def test_a_reader_that_hangs_does_not_leave_the_writer_without_an_answer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_file, "LOCK_S", 0.05)
    with TURN, refusing(StorageError, "registry_hangs", path=str(path)):
        registry_file.add(path, ENTRY)
    assert len(registry_file.add(path, ENTRY)) == 3


def test_the_lock_of_a_file_that_was_just_replaced_is_no_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = threading.Semaphore(0)
    try_lock = replaced_file._try_lock
    new = path.with_name("theirs")
    new.write_text(json.dumps([{"name": "theirs", "driver": "local", "gpu_count": 0}]), encoding="utf-8")

    def slowly(fd: int) -> bool:
        if new.exists():
            new.replace(path)
        locked = try_lock(fd)
        tries.release()
        return locked

    monkeypatch.setattr(replaced_file, "_try_lock", slowly)
    with new.open() as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        writer = threading.Thread(target=registry_file.add, args=(path, ENTRY))
        writer.start()
        for _ in range(4):
            assert tries.acquire(timeout=60)
        assert names(load_registry(path)) == ["theirs"]
    writer.join()
    assert names(load_registry(path)) == ["theirs", "新的"]


def test_an_editor_that_knows_no_locks_is_not_overwritten(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = replaced_file._write

    def write(beside: Path, place: Path, data: bytes) -> None:
        mine(beside, place, data)
        path.write_text("[]", encoding="utf-8")

    monkeypatch.setattr(replaced_file, "_write", write)
    with refusing(ConflictError, "registry_changed", path=str(path)):
        registry_file.add(path, ENTRY)
    assert text(path) == "[]"
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_folder_that_takes_no_file_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(replaced_file, "_write", full)
    with pytest.raises(StorageError, match="cannot be written: No space left on device"):
        registry_file.add(path, ENTRY)
    assert text(path) == BY_HAND


def test_what_a_killed_writer_left_is_in_nobodys_way(path: Path) -> None:
    path.with_name(f".{path.name}.new").write_text("half", encoding="utf-8")
    registry_file.add(path, ENTRY)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_escapes_and_brackets_in_texts_do_not_lead_astray() -> None:
    document = ' [ {"a]\\"}": "[{\\\\", "b":{"c":[1,{"d":2}]}} , 3.5e1 ]\n'
    begin = json_text.start(document)
    first, second = json_text.parts(document, begin)
    assert document[second.value : second.end] == "3.5e1"
    assert [part.key for part in json_text.parts(document, first.value)] == ['a]"}', "b"]
    changed = json_text.set_member(document, first.value, "b", [1, "x"])
    assert json.loads(changed) == [{'a]"}': "[{\\", "b": [1, "x"]}, 35.0]
    assert json.loads(json_text.drop(document, begin, 0)) == [35.0]
