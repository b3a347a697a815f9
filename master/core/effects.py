"""What the core wants done on the nodes. An effect may leave only when the change that it belongs to is durable."""

from __future__ import annotations

import msgspec

from master.core.task import Task


class Start(msgspec.Struct, frozen=True):
    """Send this attempt to its node."""

    node: str
    task: Task


class Kill(msgspec.Struct, frozen=True):
    """End this attempt on its node."""

    node: str
    launch_id: str


class Ack(msgspec.Struct, frozen=True):
    """The node may forget this attempt."""

    node: str
    launch_id: str


Effect = Start | Kill | Ack
