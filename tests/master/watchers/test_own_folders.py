"""Which of the shared folders the master's machine has, although they come, go and hang."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from master.watchers import own_folders
from master.watchers.own_folders import OwnFolders
from tests.master.in_process import run


def test_a_folder_that_is_mounted_later_counts_from_then_on_and_also_when_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(own_folders, "AGAIN_MISSING_S", 0.0)
    caplog.set_level("INFO")
    here, late = str(tmp_path), tmp_path / "data"

    async def story() -> None:
        own = OwnFolders([here, str(late)])
        assert await own.here() == (here,)
        late.mkdir()
        assert await own.here() == (here, str(late))
        assert f"{late}: here now" in caplog.text
        late.rmdir()
        assert await own.here() == (here, str(late))

    run(story())


def test_one_look_serves_all_who_ask() -> None:
    looked: list[str] = []

    def noted(folder: str) -> bool:
        looked.append(folder)
        return False

    async def story() -> None:
        own = OwnFolders(["/a", "/b"], noted)
        assert await asyncio.gather(*(own.here() for _ in range(300))) == [()] * 300
        assert sorted(looked) == ["/a", "/b"]

    run(story())


def test_a_folder_that_hangs_is_one_that_the_lab_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_folders, "HERE_S", 0.01)
    over = threading.Event()

    async def story() -> None:
        assert await OwnFolders(["/hangs"], lambda _: over.wait(60)).here() == ("/hangs",)
        over.set()

    run(story())
