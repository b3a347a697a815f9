"""Programs of the master's in sessions of their own, with real processes."""

from __future__ import annotations

from asyncio.subprocess import PIPE

from master.loop import own_session
from tests.agent.small_master import alive
from tests.master.in_process import run
from tests.waiting import until

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
