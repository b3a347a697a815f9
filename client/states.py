"""The states of tasks and nodes as the wire has them, and what follows from them for whoever shows or counts them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.shapes import Node

STATES = (
    "waiting", "held", "starting", "running", "paused", "succeeded", "failed", "cancelled", "timed_out", "lost",
)  # fmt: skip
"""Of tasks."""
ALIVE = frozenset({"starting", "running", "paused"})
"""It has, or is getting, a process on a node."""
ENDED = frozenset({"succeeded", "failed", "cancelled", "timed_out", "lost"})


def node_condition(node: Node) -> str:
    """A node's state as people need it: one that is online and takes no tasks says which kind of that."""
    if node["state"] != "online" or node["schedulable"]:
        return node["state"]
    if node.get("registry") == "leaving":
        return "leaving"
    if node.get("drained") is not None:
        return "draining" if node.get("tasks") else "drained"
    if node.get("sick") is not None:
        return "aside"
    return "closed"


def free_gpus(node: Node) -> int:
    """How many GPUs a task could get now: none of a node that takes no tasks."""
    if node["state"] != "online" or not node["schedulable"]:
        return 0
    return sum(not gpu.get("held_by") and gpu.get("health") in ("ok", None) for gpu in node["gpus"])
