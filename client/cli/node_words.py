"""How a node's condition is told in a word and in a line, the same way wherever nodes are listed."""

from __future__ import annotations

from client.cli.context import coloured
from client.cli.text import cut, harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.shapes import Node

_NEVER_CUT_BELOW = 20


def word(node: Node) -> str:
    """The state as people need it: an online node that takes no tasks says which kind of that."""
    if node["state"] != "online" or node["schedulable"]:
        return node["state"]
    if node.get("registry") == "leaving":
        return "leaving"
    if node.get("drained") is not None:
        return "draining" if node.get("tasks") else "drained"
    return "closed"


def trouble(node: Node, room: int | None) -> str | None:
    """What is the matter with a node, in a line of `room` columns (None: as long as it takes); None if nothing is."""
    if not node.get("reason"):
        return None
    line = f"{harmless(node['name'])}: {harmless(node['reason'] or '')}"
    return line if room is None else cut(line, max(room, _NEVER_CUT_BELOW))


def gpu_troubles(node: Node, room: int | None) -> list[str]:
    """What keeps GPUs of an online node from tasks, and which are not as the registry says: lines as `trouble` has."""
    if node["state"] != "online":
        return []
    which: dict[str, list[str]] = {}
    for gpu in node["gpus"]:
        if gpu.get("health") not in ("ok", None):
            which.setdefault(gpu["health"] or "", []).append(str(gpu["index"]))
    told = [f"GPU {', '.join(numbers)}: {health}" for health, numbers in which.items()]
    lines = [f"{harmless(node['name'])}: {harmless(text)}" for text in (node.get("mismatch"), *told) if text]
    return [line if room is None else cut(line, max(room, _NEVER_CUT_BELOW)) for line in lines]


def registry_fault(fault: str) -> str:
    """The line about a registry that cannot be read, in red on a terminal. It is never cut: it holds the cure."""
    line = f"the registry is broken, the last good one is in force: {harmless(fault)}"
    return f"\x1b[31m{line}\x1b[0m" if coloured() else line


def load_text(load: object) -> str:
    """A load average (the first of three, or one number); empty where it is not known."""
    first = load[0] if isinstance(load, list) and load else load
    return f"{first:.1f}" if isinstance(first, int | float) else ""
