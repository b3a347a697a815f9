"""A real file, a real thread, a real loop: what changes in the registry is told soon, once, and never half written."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest

from master.edited_files import json_file
from master.nodes.registry import NodeConfig
from master.watchers.file_watcher import PACE, Mark, Pace, Sight
from master.watchers.registry_watcher import RegistryWatcher
from tests.faults import wrong
from tests.waiting import PATIENCE_S, until
from wire.message import Message

QUICK = Pace(look=0.05, recent=0.2)


class Sights:
    """What was seen. `faults`: what each reading of the whole file found wrong with it; `marks`: how many looks there
    were at its marks; `at_fault` is called by the thread that found something, before it goes on."""

    def __init__(self) -> None:
        self.faults: list[Message | None] = []
        self.marks = 0
        self.at_fault: Callable[[], None] = lambda: None

    @property
    def watcher(self) -> type[RegistryWatcher]:
        """A watcher that notes what it sees."""
        sights = self

        class Noting(RegistryWatcher):
            def mark(self) -> Mark:
                sights.marks += 1
                return super().mark()

            def see(self) -> Sight:
                sight = super().see()
                sights.faults.append(sight.fault)
                if sight.fault is not None:
                    sights.at_fault()
                return sight

        return Noting


def entry(name: str, **keys: Any) -> dict[str, Any]:
    return {"name": name, "driver": "local", "gpu_count": 0, **keys}


def write(path: Path, *names: str) -> None:
    """In place, as some editors do."""
    path.write_text(json.dumps([entry(name) for name in names], ensure_ascii=False), encoding="utf-8")


def replace(path: Path, *names: str) -> None:
    """As an editor does that writes beside it and renames."""
    beside = path.with_name("new")
    write(beside, *names)
    beside.replace(path)


def fault_told(told: list[str] | Message, path: Path) -> Message:
    """What was told to be wrong with the file."""
    assert isinstance(told, Message)
    assert (told.key, told.args["path"]) == ("in_file", str(path))
    fault = told.args["fault"]
    assert isinstance(fault, Message)
    return fault


class Watched:
    """`with Watched(path) as watched`: a loop in a thread, and what was told in it: names, or a fault."""

    def __init__(self, path: Path, watcher: type[RegistryWatcher] = RegistryWatcher, pace: Pace = QUICK) -> None:
        self.path = path
        self.watcher = watcher
        self.pace = pace
        self.told: list[list[str] | Message] = []
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        self.watch = self.watcher(self.path, self.loop, self._nodes, self._add, pace=self.pace)
        return self

    def __exit__(self, *_: object) -> None:
        self.watch.close()
        self.watch.thread.join(PATIENCE_S)
        assert not self.watch.thread.is_alive()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def _nodes(self, nodes: tuple[NodeConfig, ...]) -> None:
        self._add([node.name for node in nodes])

    def _add(self, news: list[str] | Message) -> None:
        assert asyncio.get_running_loop() is self.loop
        self.told.append(news)

    def next(self, count: int) -> list[str] | Message:
        """The `count`th news, once it is there."""
        self.until(lambda: len(self.told) >= count)
        return self.told[count - 1]

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until what was told fulfils the condition."""
        until("news that fit", condition, seen=lambda: self.told)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "gpu_slaver_info.json"
    replace(made, "a")
    return made


@pytest.fixture
def sights() -> Sights:
    return Sights()


def test_the_file_is_looked_at_twice_within_a_second() -> None:
    assert PACE.look + PACE.again < 1.0


def test_a_change_is_told_however_it_is_written(path: Path) -> None:
    changes: list[tuple[Callable[..., None], list[str]]] = [
        (replace, ["a", "b"]), (write, ["in place"]), (write, ["节点 三"]), (replace, []),
    ]  # fmt: skip
    with Watched(path) as watched:
        assert watched.next(1) == ["a"]
        for number, (change, names) in enumerate(changes, 2):
            change(path, *names)
            assert watched.next(number) == names


def test_nothing_is_told_while_nothing_changes_and_nothing_after_the_end(path: Path, sights: Sights) -> None:
    with Watched(path, sights.watcher, QUICK._replace(whole=0.0)) as watched:
        until("four looks", lambda: len(sights.faults) >= 4)
        assert watched.told == [["a"]]
        watched.watch.close()
        replace(path, "b")
    assert watched.told == [["a"]]


def test_what_was_on_its_way_when_the_watch_was_closed_is_not_told(path: Path) -> None:
    with Watched(path) as watched:
        watched.next(1)
        busy = threading.Event()
        watched.loop.call_soon_threadsafe(busy.wait, PATIENCE_S)
        replace(path, "b")
        until("it is seen", lambda: b'"b"' in (watched.watch._told or (None, b""))[1])
        watched.watch.close()
        busy.set()
    assert watched.told == [["a"]]


@pytest.mark.parametrize("half", ["", "[", '[{"name": "a", "driver": "loc'])
def test_a_file_that_is_just_being_written_raises_no_alarm(path: Path, sights: Sights, half: str) -> None:
    with Watched(path, sights.watcher) as watched:
        watched.next(1)
        sights.at_fault = lambda: write(path, "whole")
        path.write_text(half, encoding="utf-8")
        watched.next(2)
    assert any(sights.faults), "half of it was seen"
    assert watched.told == [["a"], ["whole"]]


def test_a_broken_file_is_told_once_and_its_recovery_too(path: Path, sights: Sights) -> None:
    good = path.read_bytes()
    with Watched(path, sights.watcher, QUICK._replace(whole=0.0)) as watched:
        watched.next(1)
        path.write_text('[{"name": "a", "gpu_count": -1}]', encoding="utf-8")
        expected = Message("within_bound", what=Message("whole_number"), bound=">= 0")
        assert fault_told(watched.next(2), path) == wrong("[0] (a).gpu_count", found="-1", expected=expected)
        again = len(sights.faults)
        os.utime(path)
        until("three more looks", lambda: len(sights.faults) >= again + 3)
        path.write_text("[", encoding="utf-8")
        said = fault_told(watched.next(3), path)
        assert (said.key, said.args["line"], said.args["column"]) == ("not_json_at", 1, 2)
        path.write_bytes(good)
        assert watched.next(4) == ["a"]
    assert len(watched.told) == 4


def test_a_file_that_never_stands_still_is_told_in_the_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()
    # However busy the machine is: no two readings find the same.
    monkeypatch.setattr(json_file, "read_bytes", lambda *_, **__: f"[{next(numbers)}".encode())
    with Watched(path, pace=QUICK._replace(again=0.02, patience=0.3)) as watched:
        assert fault_told(watched.next(1), path).key == "not_json_at"
    assert next(numbers) > 2


def test_a_file_that_is_removed_or_unreadable_is_a_fault_and_its_return_is_told(path: Path) -> None:
    with Watched(path) as watched:
        watched.next(1)
        path.rename(path.with_name("away"))
        assert fault_told(watched.next(2), path).key == "file_missing"
        path.mkdir()
        assert fault_told(watched.next(3), path) == Message("file_unreadable", detail="Is a directory")
        path.rmdir()
        path.with_name("away").rename(path)
        watched.until(lambda: watched.told[-1] == ["a"])


class Unmarked(RegistryWatcher):
    """Of a file whose marks never change."""

    def mark(self) -> Mark:
        return (1,)


def test_a_change_that_leaves_no_mark_is_found_by_reading_the_whole(path: Path) -> None:
    with Watched(path, Unmarked, QUICK._replace(whole=0.6)) as watched:
        watched.next(1)
        replace(path, "b")
        assert watched.next(2) == ["b"]


def test_between_whole_readings_an_unchanged_file_is_only_looked_at(path: Path, sights: Sights) -> None:
    with Watched(path, sights.watcher):
        until("it is read once more, as it was just made", lambda: len(sights.faults) == 2)
        before = sights.marks
        until("four looks", lambda: sights.marks >= before + 4)
    assert sights.faults == [None, None]


def test_a_link_to_the_file_is_followed(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(path)
    with Watched(link) as watched:
        watched.next(1)
        replace(path, "b")
        assert watched.next(2) == ["b"]


def test_a_defect_while_looking_does_not_end_the_watch(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    defects = iter([ValueError("a defect")])

    class Stumbling(RegistryWatcher):
        def see(self) -> Sight:
            for defect in defects:
                raise defect
            return super().see()

    with Watched(path, Stumbling) as watched:
        assert watched.next(1) == ["a"]
    assert "could not be looked at" in caplog.text
