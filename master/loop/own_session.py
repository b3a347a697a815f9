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
    as long as a file server hangs. If it is over, the rest of its group is killed, if there is one."""
    if process.returncode is not None and _is_somebody_elses(process.pid):
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _is_somebody_elses(number: int) -> bool:
    """Has another process the number of a program that is over? The kernel gives a number again once nothing is left
    that has it, a process group neither: what left the group may still hold a pipe to the master."""
    try:
        os.getsid(number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


async def end(process: Process) -> None:
    """The same, and wait until the program is gone."""
    kill(process)
    await process.wait()
