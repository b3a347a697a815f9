"""The right to report as a node from this machine. Two processes with it would put each other out without end."""

from __future__ import annotations

import fcntl
import os
from typing import Optional


def take(path: str) -> Optional[int]:
    """Ours until the descriptor is closed; None if somebody else has it. Raises OSError."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def is_taken(path: str) -> bool:
    """Has somebody else got it? Not to be asked by who has it: a look ends that. Raises OSError."""
    lock = take(path)
    if lock is not None:
        os.close(lock)
    return lock is None
