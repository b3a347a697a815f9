"""The actions that the core wants done: on the nodes, by executors, and at a time, by the part that keeps the time. An
effect may leave only when the change that it belongs to is durable. `login`: the account on the node whose agent it is
for, "" where that is the node's own."""

from __future__ import annotations

import msgspec

from master.core.tasks.task import Task


class Start(msgspec.Struct, frozen=True):
    """Send this attempt to its node."""

    node: str
    task: Task


class Kill(msgspec.Struct, frozen=True):
    """End this attempt on its node."""

    node: str
    launch_id: str
    login: str = ""


class Pause(msgspec.Struct, frozen=True):
    """Have this attempt stand still on its node."""

    node: str
    launch_id: str
    login: str = ""


class Resume(msgspec.Struct, frozen=True):
    """Let it go on there."""

    node: str
    launch_id: str
    login: str = ""


class Ack(msgspec.Struct, frozen=True):
    """The node may forget this attempt."""

    node: str
    launch_id: str
    login: str = ""


class SeekCheckpoint(msgspec.Struct, frozen=True):
    """See on its node which of the files that match a task's `checkpoint` is the newest (`Core.checkpoint_seen`)."""

    node: str
    launch_id: str
    task: Task
    login: str = ""


class Rest(msgspec.Struct, frozen=True):
    """Let this node, or an account of it, be for so many seconds, then end its rest (`Core.rested`)."""

    node: str
    seconds: float
    login: str = ""


class WakeAt(msgspec.Struct, frozen=True):
    """Ask the planner again (`Core.woken`) at this time, in seconds since the epoch, though nothing else happens. It
    takes the place of an earlier one: whoever plans last knows best."""

    at: float


NodeEffect = Start | Kill | Pause | Resume | Ack | SeekCheckpoint | Rest
"""For the executor of a node."""
Effect = NodeEffect | WakeAt
