"""Named points at which the chaos run kills the master, as etcd's failpoints do: exact crashes, not lucky ones.

`MUSTER_FAILPOINT=NAME` ends the process with SIGKILL when it comes to that point; `NAME:3` at the third time. Unset,
a point costs one dictionary look-up.
"""

from __future__ import annotations

import os
import signal

NAMES = (
    "submit.before_sync",
    "submit.after_sync",
    "launch.before_sync",
    "launch.after_sync",
    "launch.after_send",
    "started.received",
    "started.before_sync",
    "started.after_sync",
    "exit.received",
    "exit.before_sync",
    "exit.after_sync",
    "exit.after_ack",
)

_armed: dict[str, int] = {}
if _setting := os.environ.get("MUSTER_FAILPOINT"):
    _name, _, _count = _setting.partition(":")
    _armed[_name] = int(_count or 1)


def armed() -> bool:
    """Whether any point is armed: spares the hot path the look at what it commits."""
    return bool(_armed)


def reach(name: str) -> None:
    """Die here if this point is armed and its count is reached."""
    if name in _armed:
        _armed[name] -= 1
        if _armed[name] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
