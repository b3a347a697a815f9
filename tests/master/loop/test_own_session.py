"""Programs of the master's in sessions of their own, with real processes."""

from __future__ import annotations

import os
from asyncio.subprocess import PIPE, Process
from types import SimpleNamespace
from typing import cast

import pytest

from master.loop import own_session
from tests.agent.small_master import alive
from tests.master.in_process import run
from tests.waiting import settled, until

STARTS_ANOTHER = ("/bin/sh", "-c", "sleep 1000 & echo $!; wait")


def test_what_a_program_started_is_killed_with_it() -> None:
    async def story() -> int:
        process = await own_session.start(*STARTS_ANOTHER, stdout=PIPE)
        assert process.stdout is not None
        pid = int(await process.stdout.readline())
        own_session.kill(process)
        assert await process.wait() < 0
        return pid

    pid = run(story())
    until("what it started is gone", lambda: not alive(pid))


def test_what_is_left_of_a_group_is_killed_though_its_first_process_is_over() -> None:
    async def story() -> int:
        process = await own_session.start("/bin/sh", "-c", "sleep 1000 & echo $!", stdout=PIPE)
        assert process.stdout is not None
        pid = int(await process.stdout.readline())
        await settled(lambda: process.returncode is not None)
        own_session.kill(process)
        assert await process.stdout.read() == b""  # nobody has it any more
        return pid

    pid = run(story())
    until("what it left is gone", lambda: not alive(pid))


def test_a_group_whose_number_another_process_has_by_now_is_not_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda group, _signal: killed.append(group))
    is_over, is_alive = (cast("Process", SimpleNamespace(pid=os.getpid(), returncode=code)) for code in (0, None))
    own_session.kill(is_over)
    assert killed == []
    own_session.kill(is_alive)
    assert killed == [os.getpid()]
