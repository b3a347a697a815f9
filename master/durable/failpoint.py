"""Named points at which the chaos run kills the master, as etcd's failpoints do: exact crashes, not lucky ones.

`MUSTER_FAILPOINT=NAME` ends the process with SIGKILL when it comes to that point; `NAME:3` at the third time. Unset,
a point costs one dictionary look-up.
"""

from __future__ import annotations

import os
import signal

TRAFFIC = (
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
"""Where tasks come by."""
START = (
    "start.locked",
    "start.torn_kept",
    "start.loaded",
    "start.numbered",
    "start.listening",
    "start.serving",
    "start.welcomed",
    "start.reconciled",
)
"""From the lock of the folder to the agents' inventories: once a start, but for `torn_kept`, which only a torn tail
comes to, and for the last two, which every agent comes to."""
COMPACTION = (
    "compaction.archived",
    "compaction.drafted",
    "compaction.drafts_synced",
    "compaction.renamed",
    "compaction.folder_synced",
    "compaction.journal_copied",
    "compaction.journal_renamed",
    "compaction.done",
)
"""While one of these is armed, every commit is a reason to compact. Each of the four files comes to `renamed`; to
`archived` only a queue with more ended tasks than `keep_history`."""
TURNS = (
    "again.before_sync",
    "again.after_sync",
    "cancel.before_sync",
    "cancel.after_sync",
    "cancel.after_send",
)
"""Where a task comes by that is tried again, and one that is cancelled while it runs."""
NAMES = TRAFFIC + START + COMPACTION + TURNS
"""Where the life of any master comes by."""
FORMAT = ("format.copied", "format.kept", "format.renamed", "format.begun")
"""Once in the life of a folder that an earlier version made; each of its files comes to `copied`."""

_armed: dict[str, int] = {}
if _setting := os.environ.get("MUSTER_FAILPOINT"):
    _name, _, _count = _setting.partition(":")
    _armed[_name] = int(_count or 1)
armed = bool(_armed)
"""Whether any point is armed: spares the hot path the look at what it commits."""


def compaction_wanted() -> bool:
    """Whether a point of the compaction is armed, which else would come after megabytes only."""
    return any(name in _armed for name in COMPACTION)


def reach(name: str) -> None:
    """Die here if this point is armed and its count is reached."""
    if name in _armed:
        _armed[name] -= 1
        if _armed[name] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
