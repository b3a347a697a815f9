"""A real file, a real thread, a real loop: what changes in the registry is told soon, once, and never half written."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest

from master.durable import json_file
from master.nodes import registry_watch
from master.nodes.registry import NodeConfig
from master.nodes.registry_watch import RegistryWatch

SOON_S = 1.0
DEADLINE_S = 10.0

Sights = list[str | None]


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


class Watched:
    """`with Watched(path) as watched`: a loop in a thread, and what was told in it: names, or a fault as text."""

    def __init__(self, path: Path, **how: Any) -> None:
        self.path = path
        self.how = how
        self.told: list[list[str] | str] = []
        self.loop = asyncio.new_event_loop()
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self.loop.run_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        self.watch = RegistryWatch(self.path, self.loop, self._nodes, self._add, **self.how)
        return self

    def __exit__(self, *_: object) -> None:
        self.watch.close()
        self.watch._thread.join(DEADLINE_S)
        assert not self.watch._thread.is_alive()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def _nodes(self, nodes: tuple[NodeConfig, ...]) -> None:
        self._add([node.name for node in nodes])

    def _add(self, news: list[str] | str) -> None:
        assert asyncio.get_running_loop() is self.loop
        with self._news:
            self.told.append(news)
            self._news.notify_all()

    def next(self, count: int) -> list[str] | str:
        """The `count`th news, once it is there."""
        self.until(lambda: len(self.told) >= count)
        return self.told[count - 1]

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until what was told fulfils the condition."""
        with self._news:
            assert self._news.wait_for(condition, DEADLINE_S), self.told


@pytest.fixture(autouse=True)
def _quicker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is promised about the time is tested at its real pace."""
    if "within_a_second" not in request.node.name:
        monkeypatch.setattr(registry_watch, "LOOK_S", 0.05)
        monkeypatch.setattr(registry_watch, "RECENT_S", 0.2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "gpu_slaver_info.json"
    replace(made, "a")
    return made


@pytest.fixture
def sights(monkeypatch: pytest.MonkeyPatch) -> Sights:
    """What each reading of the whole file found wrong with it."""
    seen: Sights = []
    see = RegistryWatch._see

    def remember(watch: RegistryWatch) -> Any:
        sight = see(watch)
        seen.append(sight.fault)
        return sight

    monkeypatch.setattr(RegistryWatch, "_see", remember)
    return seen


def wait_for(condition: Callable[[], object]) -> None:
    """Wait until another thread has done something that tells nobody."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.001)


def test_a_change_is_told_within_a_second_however_it_is_written(path: Path) -> None:
    changes: list[tuple[Callable[..., None], list[str]]] = [
        (replace, ["a", "b"]), (write, ["in place"]), (write, ["节点 三"]), (replace, []),
    ]  # fmt: skip
    with Watched(path) as watched:
        assert watched.next(1) == ["a"]
        waits = []
        for number, (change, names) in enumerate(changes, 2):
            begin = time.monotonic()
            change(path, *names)
            assert watched.next(number) == names
            waits.append(time.monotonic() - begin)
    assert min(waits) < SOON_S


def test_nothing_is_told_while_nothing_changes_and_nothing_after_the_end(path: Path, sights: Sights) -> None:
    with Watched(path, whole_s=0.0) as watched:
        wait_for(lambda: len(sights) >= 4)
        assert watched.told == [["a"]]
        watched.watch.close()
        replace(path, "b")
    assert watched.told == [["a"]]


def test_what_was_on_its_way_when_the_watch_was_closed_is_not_told(path: Path) -> None:
    with Watched(path) as watched:
        watched.next(1)
        busy = threading.Event()
        watched.loop.call_soon_threadsafe(busy.wait, DEADLINE_S)
        replace(path, "b")
        wait_for(lambda: b'"b"' in (watched.watch._told or (None, b""))[1])
        watched.watch.close()
        busy.set()
    assert watched.told == [["a"]]


@pytest.mark.parametrize("half", ["", "[", '[{"name": "a", "driver": "loc'])
def test_a_file_that_is_just_being_written_raises_no_alarm(path: Path, sights: Sights, half: str) -> None:
    with Watched(path) as watched:
        watched.next(1)
        path.write_text(half, encoding="utf-8")
        wait_for(lambda: sights[-1] is not None)
        write(path, "whole")
        watched.next(2)
    assert watched.told == [["a"], ["whole"]]


def test_a_broken_file_is_told_once_and_its_recovery_too(path: Path, sights: Sights) -> None:
    good = path.read_bytes()
    with Watched(path, whole_s=0.0) as watched:
        watched.next(1)
        path.write_text('[{"name": "a", "gpu_count": -1}]', encoding="utf-8")
        assert watched.next(2) == f"{path}: [0] (a).gpu_count: found -1, expected a whole number >= 0"
        again = len(sights)
        os.utime(path)
        wait_for(lambda: len(sights) >= again + 3)
        path.write_text("[", encoding="utf-8")
        assert str(watched.next(3)).startswith(f"{path}: line 1, column 2: not JSON")
        path.write_bytes(good)
        assert watched.next(4) == ["a"]
    assert len(watched.told) == 4


def test_a_file_that_never_stands_still_is_told_in_the_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_watch, "PATIENCE_S", 0.3)
    monkeypatch.setattr(registry_watch, "AGAIN_S", 0.02)
    numbers = itertools.count()
    # However busy the machine is: no two readings find the same.
    monkeypatch.setattr(json_file, "read_bytes", lambda *_, **__: f"[{next(numbers)}".encode())
    with Watched(path) as watched:
        assert "not JSON" in watched.next(1)
    assert next(numbers) > 2


def test_a_file_that_is_removed_or_unreadable_is_a_fault_and_its_return_is_told(path: Path) -> None:
    with Watched(path) as watched:
        watched.next(1)
        path.rename(path.with_name("away"))
        assert "there is no such file" in watched.next(2)
        path.mkdir()
        assert "Is a directory" in watched.next(3)
        path.rmdir()
        path.with_name("away").rename(path)
        watched.until(lambda: watched.told[-1] == ["a"])


def test_a_change_that_leaves_no_mark_is_found_by_reading_the_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RegistryWatch, "_mark", lambda _self: (1,))
    with Watched(path, whole_s=0.6) as watched:
        watched.next(1)
        replace(path, "b")
        assert watched.next(2) == ["b"]


def test_between_whole_readings_an_unchanged_file_is_only_looked_at(path: Path, sights: Sights) -> None:
    marks = 0
    mark = RegistryWatch._mark

    def count(watch: RegistryWatch) -> Any:
        nonlocal marks
        marks += 1
        return mark(watch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RegistryWatch, "_mark", count)
        with Watched(path):
            wait_for(lambda: marks >= 4)
    assert sights == [None]


def test_a_link_to_the_file_is_followed(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(path)
    with Watched(link) as watched:
        watched.next(1)
        replace(path, "b")
        assert watched.next(2) == ["b"]


def test_a_defect_while_looking_does_not_end_the_watch(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    see = RegistryWatch._see
    defects = iter([ValueError("a defect")])

    def stumble(watch: RegistryWatch) -> Any:
        for defect in defects:
            raise defect
        return see(watch)

    monkeypatch.setattr(RegistryWatch, "_see", stumble)
    with Watched(path) as watched:
        assert watched.next(1) == ["a"]
    assert "could not be looked at" in caplog.text
