"""The first steps of a fork of the agent: give up what it inherited, and say what becomes of it and of its own
forks."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Set

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)
RESET = (signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)
"""The signals that we handle or ignore; a command expects them unchanged."""


def close_all_but(kept: Set[int]) -> None:
    """After a fork: give up every descriptor except 0, 1, 2 and `kept`."""
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd > 2 and fd not in kept:  # noqa: PLR2004  (0, 1 and 2 are what they are)
            _close(fd)


def reset_signals() -> None:
    """As a command expects them."""
    for number in RESET:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def become_subreaper() -> None:
    """Orphans among our descendants become our children. Raises OSError."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Have this process killed as soon as its parent, which had that pid before the fork, ends. Raises OSError."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)  # it ended before we could ask


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _close(fd: int) -> None:
    try:
        os.close(fd)
    except OSError:
        return  # the descriptor of the listing itself
