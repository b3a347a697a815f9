"""Programs that the master starts in a session of their own, and ends with their whole process group."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import Process
from contextlib import suppress
from typing import Any


async def start(*words: str, **how: Any) -> Process:
    """Start a program; `how` is what `asyncio.create_subprocess_exec` takes. Raises OSError.

    A caller that is cancelled meanwhile leaves nothing behind: asyncio would end the program alone, not what that may
    have started by then.
    """
    starting = asyncio.ensure_future(asyncio.create_subprocess_exec(*words, start_new_session=True, **how))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(OSError):  # it could not be started, which nobody waits to hear
            await end(await starting)
        raise


def kill(process: Process) -> None:
    """Kill a program of `start` and everything in its process group, and do not wait: the kernel may hold it back for
    as long as a file server hangs. It must not be over, or another process of its group must hold a pipe to the master:
    else the number of the group may be another's."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def end(process: Process) -> None:
    """The same, and wait until the program is gone."""
    kill(process)
    await process.wait()
