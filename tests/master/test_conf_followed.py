"""conf.json is followed while the master runs: settings change, the rest waits, a broken file changes nothing."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from master.app import Master
from master.config.conf_changes import at_start, changed_now, taken_over
from master.config.config import config_of, load_config
from master.config.settings import Scheduling
from master.start import followed_files
from master.watchers.file_watcher import Pace
from tests.conftest import LabMaker
from tests.faults import says
from tests.master.in_process import run
from tests.waiting import settled

QUICK = Pace(look=0.02, recent=0.05, again=0.02, patience=0.1)
FILE: dict[str, Any] = {"socket_info": {"monitor_port": 1, "data_port": 2, "train_state_port": 3}}


def both(tmp_path: Path, **keys: Any) -> tuple[Any, Any]:
    """What a master runs with, and what the file says after a change."""
    path = tmp_path / "conf.json"
    return config_of(FILE, path), config_of({**FILE, **keys}, path)


def test_settings_hold_at_once_and_other_keys_are_named_as_the_file_has_them(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    running, new = both(
        tmp_path,
        root="elsewhere",
        slaver_file="nodes.json",
        notify={"urls": ["x://y"]},
        scheduler={"grace_s": 3, "report_stale_s": 5},
        limits={"waiting_tasks": 7, "frame_bytes": 8192},
    )
    changed = {"scheduler.grace_s", "scheduler.report_stale_s", "limits.waiting_tasks", "limits.frame_bytes"}
    assert set(changed_now(running, new)) == changed
    assert sorted(at_start(running, new)) == ["root", "slaver_file"]
    taken = taken_over(running, new)
    assert (taken.scheduler.grace_s, taken.limits.waiting_tasks) == (3, 7)
    assert (taken.scheduler.report_stale_s, taken.limits.frame_bytes, taken.root) == (5, 8192, tmp_path)
    assert changed <= taken.said
    assert changed_now(taken, new) == []
    assert at_start(taken, new) == at_start(running, new)
    assert at_start(running, running) == []


Story = Callable[[Master, Path], Awaitable[None]]


def follow(make_lab: LabMaker, monkeypatch: pytest.MonkeyPatch, story: Story, **keys: Any) -> None:
    """A master that looks often, and what is done to its conf.json."""
    monkeypatch.setattr(followed_files, "PACE", QUICK)
    path = make_lab(nodes=[], **keys)

    async def whole() -> None:
        master = Master(load_config(path))
        running = asyncio.create_task(master.run())
        try:
            await settled(lambda: running.done() or hasattr(master, "served"))
            assert not running.done()
            await story(master, path)
        finally:
            master.stop()
            await running

    run(whole())


def write(path: Path, **keys: Any) -> None:
    """The file with these keys in it, put in the place of the old one."""
    conf = {**json.loads(path.read_text(encoding="utf-8")), **keys}
    beside = path.with_name("new.json")
    beside.write_text(json.dumps(conf), encoding="utf-8")
    beside.replace(path)


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def put(path: Path, text: str | None) -> None:
    """In place, as some editors do; None takes it away."""
    if text is None:
        path.unlink()
    else:
        path.write_text(text, encoding="utf-8")


def close(path: Path) -> None:
    """Let nobody else read it."""
    path.chmod(0o600)


def test_a_changed_file_is_followed_and_a_broken_one_changes_nothing(
    make_lab: LabMaker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(master: Master, path: Path) -> None:
        def settings() -> Scheduling:
            return master.engine.core.settings.scheduler

        master.engine.event(lambda: master.engine.core.tuning.set("scheduler.reservations", 1, "ann", 1.0))
        write(path, scheduler={"grace_s": 3, "reservations": 9}, privacy="own")
        await settled(lambda: settings().grace_s == 3)
        assert settings().reservations == 1, "what was set at run time outranks the file"
        assert master.engine.core.tuning.default("scheduler.reservations") == 9
        assert "scheduler.grace_s" in master.served.config.said
        assert (master.served.about().conf_fault, master.served.about().conf_at_start) == (None, ["privacy"])
        assert master.served.config.privacy == "open"

        good = text_of(path)
        for broken in (good.replace('"grace_s": 3', '"grace_s": -3'), good[:-1], ""):
            put(path, broken)
            await settled(lambda: master.served.about().conf_fault is not None)
            assert settings().grace_s == 3
            put(path, good)
            await settled(lambda: master.served.about().conf_fault is None)
        put(path, None)
        await settled(lambda: says(master.served.followed.conf_fault, "file_missing"))
        put(path, good)
        await settled(lambda: master.served.about().conf_fault is None)

        write(path, scheduler={}, privacy="open")
        await settled(lambda: settings().grace_s == 10 and not master.served.about().conf_at_start)
        assert settings().reservations == 1

    with caplog.at_level(logging.INFO, "muster"):
        follow(make_lab, monkeypatch, story)
    told = [record.getMessage() for record in caplog.records if "conf.json" in record.getMessage()]
    assert any("another value of scheduler.reservations, scheduler.grace_s" in one for one in told)
    assert any("privacy: takes effect at the next start" in one for one in told)
    assert any("not taken over, and its last good values hold" in one for one in told)
    assert any("taken over again" in one for one in told)
    assert any("which ann set with `muster set`" in one for one in told)


def test_what_a_start_would_refuse_for_its_rights_is_not_taken_over(
    make_lab: LabMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(master: Master, path: Path) -> None:
        influx = {"url": "http://lab:8086", "token": "secret-1"}
        write(path, influx=influx, scheduler={"grace_s": 3})
        await settled(lambda: says(master.served.followed.conf_fault, "token_open", key="influx.token"))
        assert "secret-1" not in (master.served.about().conf_fault or "")
        assert master.engine.core.settings.scheduler.grace_s == 10
        close(path)
        await settled(lambda: master.served.about().conf_fault is None)
        assert master.engine.core.settings.scheduler.grace_s == 3

    follow(make_lab, monkeypatch, story)
