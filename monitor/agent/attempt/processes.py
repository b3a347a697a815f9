"""Whether more processes are to be had, for a command that has none yet. It owns the trying, by threads."""

from __future__ import annotations

import _thread
import socket

from . import blame

SPARE_PROCESSES = 3
"""So many more must be possible: next to no command does without, and what bash says of it would look like its own."""
STACK = 64 << 10


def check_processes() -> None:
    """Raises StartError where the account, or the machine, has next to all that it may have. Threads count as processes
    do, cost a hundredth, and end by themselves."""
    gate = _thread.allocate_lock()
    gate.acquire()
    usual = _thread.stack_size(STACK)
    try:
        for _ in range(SPARE_PROCESSES):
            _thread.start_new_thread(_pass, (gate,))
    except RuntimeError:
        raise none_left() from None
    finally:
        _thread.stack_size(usual)
        gate.release()


def none_left() -> blame.StartError:
    """Return the error for that case."""
    text = f"no process could be made for the command on {socket.gethostname()}: the account, or the machine, has all"
    return blame.StartError(f"{text} that it may have", blame.NODE)


def _pass(gate: _thread.LockType) -> None:
    with gate:
        """All are there at once, and then none."""
