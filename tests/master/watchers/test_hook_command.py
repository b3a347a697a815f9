"""The lab's command at work, with real processes: what it reads and has, and what becomes of one that goes wrong."""

from __future__ import annotations

import asyncio
import gc
import logging
from asyncio.subprocess import Process
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from master.loop import own_session
from master.watchers.hook_command import LONGEST_S, REFUSED, HookCommand
from master.watchers.refusals import RefusedForGoodError
from tests.leaps import Leap
from tests.master.in_process import run
from tests.waiting import settled, until

SAID = b'{"event": "gpus_free"}\n'


@pytest.fixture(autouse=True)
def _no_pipe_is_left() -> Iterator[None]:
    """What was not closed is told when it is collected, which fails the test that is at work then."""
    yield
    gc.collect()


def script(folder: Path, text: str) -> str:
    path = folder / "tell"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def faults(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "muster.hooks"]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_it_reads_what_is_said_has_its_words_and_nothing_of_the_masters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MUSTER_SECRET", "hunter2")
    path = script(tmp_path, f'cd {tmp_path} && cat > said && printf "%s\\n" "$@" > words && env > env; echo out')
    run(HookCommand("hooks.gpus_free", [path, "--to", "a $HOME; b"]).run(SAID))
    assert (tmp_path / "said").read_bytes() == SAID
    assert (tmp_path / "words").read_text(encoding="ascii").splitlines() == ["--to", "a $HOME; b"]
    names = {line.partition("=")[0] for line in (tmp_path / "env").read_text(encoding="ascii").splitlines()}
    assert names - {"PWD", "OLDPWD", "SHLVL", "_"} == {"LANG", "PATH"}
    assert faults(caplog) == []


def test_what_goes_wrong_is_told_once_and_again_after_it_went_well(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = script(tmp_path, f"[ -e {tmp_path}/well ] || {{ echo no channel >&2; echo more >&2; exit 3; }}")
    command = HookCommand("hooks.gpus_free", [path])

    async def story() -> None:
        for well in (False, False, True, False):
            (tmp_path / "well").touch() if well else (tmp_path / "well").unlink(missing_ok=True)
            await command.run(SAID)

    run(story())
    assert faults(caplog) == [f"hooks.gpus_free ({path}): it ended with 3: no channel"] * 2


def test_one_that_refuses_for_good_is_told_apart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = script(tmp_path, f"echo 550 no such user >&2; exit {REFUSED}")
    with pytest.raises(RefusedForGoodError, match="it ended with 65: 550 no such user"):
        run(HookCommand("hooks.task_ended", [path]).run(SAID))
    assert faults(caplog) == [f"hooks.task_ended ({path}): it ended with 65: 550 no such user"]


def test_one_that_is_not_there_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(HookCommand("hooks.gpus_free", [str(tmp_path / "nothing")]).run(SAID))
    [told] = faults(caplog)
    assert "it ended with 127: " in told
    assert "nothing: not found" in told


def test_one_that_reads_nothing_and_says_a_lot_holds_nobody_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = script(tmp_path, "exec <&-; head -c 3000000 /dev/zero | tr '\\0' x >&2; exit 1")
    run(HookCommand("hooks.gpus_free", [path]).run(SAID * 100_000))
    [told] = faults(caplog)
    assert told.endswith("x" * 2000)
    assert len(told) < 2200


def test_one_that_hangs_is_ended_with_what_it_started_and_the_loop_runs_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, leap: Leap
) -> None:
    path = script(tmp_path, f"sleep 1000 & echo $! > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; wait")

    async def story() -> None:
        hook = asyncio.create_task(HookCommand("hooks.gpus_free", [path]).run(SAID))
        await settled((tmp_path / "pid").exists)
        assert not hook.done()
        leap(LONGEST_S)
        await hook

    run(story())
    assert faults(caplog) == [f"hooks.gpus_free ({path}): it was ended, for it took longer than {LONGEST_S:g} s"]
    pid = int((tmp_path / "pid").read_text(encoding="ascii"))
    until("what it started is gone", lambda: not is_alive(pid))


@pytest.mark.parametrize("code", [0, 3])
def test_its_own_end_counts_and_not_that_of_what_it_left_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, leap: Leap, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    path = script(tmp_path, f"sleep 1000 & echo $! > {tmp_path}/pid; exit {code}")
    begun: list[Process] = []
    start = own_session.start

    async def noted(*words: str, **how: Any) -> Process:
        begun.append(await start(*words, **how))
        return begun[0]

    monkeypatch.setattr(own_session, "start", noted)

    async def story() -> bool:
        hook = asyncio.create_task(HookCommand("hooks.task_ended", [path]).run(SAID))
        await settled(lambda: begun and begun[0].returncode is not None)
        leap(LONGEST_S)
        return await hook

    assert run(story()) is (code == 0)
    left = f"what it left behind was ended, for that took longer than {LONGEST_S:g} s"
    assert faults(caplog) == [f"hooks.task_ended ({path}): it ended with {code}; {left}"]
    until("what it left is ended", lambda: not is_alive(int((tmp_path / "pid").read_text(encoding="ascii"))))


def test_it_goes_with_whoever_gives_it_up(tmp_path: Path) -> None:
    path = script(tmp_path, f"echo $$ > {tmp_path}/pid; sleep 1000")

    def pid() -> str:
        return (tmp_path / "pid").read_text(encoding="ascii").strip() if (tmp_path / "pid").exists() else ""

    async def story() -> None:
        hook = asyncio.create_task(HookCommand("hooks.gpus_free", [path]).run(SAID))
        await settled(pid)
        hook.cancel()
        with suppress(asyncio.CancelledError):
            await hook

    run(story())
    until("it is gone", lambda: not is_alive(int(pid())))


def test_it_goes_also_when_it_is_given_up_while_it_starts(tmp_path: Path) -> None:
    path = script(tmp_path, f"sleep 1000 & echo $! > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; wait")

    async def story() -> None:
        before = set(psutil.Process().children())
        hook = asyncio.create_task(HookCommand("hooks.gpus_free", [path]).run(SAID))
        while set(psutil.Process().children()) <= before:  # noqa: ASYNC110  (each turn counts: the start goes on in it)
            await asyncio.sleep(0)
        until("it has started another program", (tmp_path / "pid").exists)  # meanwhile the loop stands still
        hook.cancel()
        with suppress(asyncio.CancelledError):
            await hook

    run(story())
    pid = int((tmp_path / "pid").read_text(encoding="ascii"))
    until("what it started is gone", lambda: not is_alive(pid))
