"""Lines about problems of nodes and their GPUs, the same wherever nodes are listed."""

from __future__ import annotations

from client.text.colours import painted
from client.text.columns import cut
from client.text.quantities import by_minute
from wire.harmless import harmless
from wire.ranges import ids_in_short, impersonal, names_in_short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.shapes import Node

_NEVER_CUT_BELOW = 20
_NAMES = 6
"""How many names, or ranges of them, stand before one trouble."""
_LINES = 20
"""How many different troubles are shown."""


def told_together(nodes: list[Node], room: int | None) -> list[str]:
    """Return lines of `room` columns (None: no limit) about problems of nodes and their GPUs. Nodes with the same
    problem share a line; if there are too many lines, the most frequent problems are shown."""
    alike: dict[str, dict[str, str]] = {}
    for node in nodes:
        for text in (node.get("reason"), *gpu_troubles(node), keeps_out(node)):
            if text:
                kind = impersonal(text, node.get("address") or "")
                alike.setdefault(kind, {})[harmless(node["name"])] = text
    entries = list(alike.items())
    if len(entries) > _LINES:
        entries.sort(key=lambda entry: -len(entry[1]))
    lines = [f"{names_in_short(texts, _NAMES)}: {harmless(_common(kind, texts))}" for kind, texts in entries[:_LINES]]
    if left := entries[_LINES:]:
        count = len({name for _, texts in left for name in texts})
        lines.append(f"and {count} more node{'s' if count > 1 else ''} for other reasons: `muster node show NAME`")
    return [line if room is None else cut(line, max(room, _NEVER_CUT_BELOW)) for line in lines]


def _common(kind: str, texts: dict[str, str]) -> str:
    """The very words where they are the same of all, else what they have in common."""
    different = set(texts.values())
    return different.pop() if len(different) == 1 else kind


def gpu_troubles(node: Node) -> list[str]:
    """Return what keeps GPUs of an online node from tasks, and which GPUs are not as the registry says."""
    if node["state"] != "online":
        return []
    which: dict[str, list[str]] = {}
    for gpu in node["gpus"]:
        if gpu.get("health") not in ("ok", None):
            which.setdefault(gpu["health"] or "", []).append(str(gpu["index"]))
    told = [f"GPU {', '.join(numbers)}: {health}" for health, numbers in which.items()]
    return [text for text in (node.get("mismatch"), *told) if text]


def keeps_out(node: Node) -> str:
    """Say that a node does not run other users' tasks, which would have the master's own account there, else ""."""
    return "admins' tasks only" if node.get("own_account") == "admins" and node["state"] == "online" else ""


def gpus_aside(node: Node) -> list[str]:
    """Each GPU that gets no tasks, with the reason: `3: used by bob (pid 9)`."""
    return [
        f"{gpu['index']}: {harmless(gpu['health'])}" for gpu in node["gpus"] if gpu.get("health") not in ("ok", None)
    ]


def reservations_told(nodes: list[Node], room: int | None) -> list[str]:
    """Return for which tasks GPUs of nodes are kept, in lines of `room` columns (None: as long as it takes). Nodes of
    which the same is to be said share one."""
    alike: dict[str, list[str]] = {}
    for node in nodes:
        if said := reserved_for(node):
            alike.setdefault(said, []).append(harmless(node["name"]))
    lines = [f"{names_in_short(names, _NAMES)}: {said}" for said, names in alike.items()]
    return [line if room is None else cut(line, max(room, _NEVER_CUT_BELOW)) for line in lines[:_LINES]]


def reserved_for(node: Node) -> str:
    """Return for which task GPUs of a node are kept, as a clause; "" where nothing is, or the master tells nothing."""
    kept = node.get("reservation")
    if not kept:
        return ""
    gpus, at = kept["gpus"], kept["expected_at"]
    what = f"GPU{'s' if len(gpus) > 1 else ''} {ids_in_short(gpus)} {'are' if len(gpus) > 1 else 'is'}"
    when = "; nobody knows when it starts" if at is None else f", which is expected to start by {by_minute(at)}"
    return f"{what if gpus else 'what it has is'} reserved for task {kept['task']}{when}"


def registry_fault(fault: str, *, colour: bool) -> str:
    """The line about a registry that cannot be read. It is never cut: it holds the cure."""
    line = f"the registry is broken, the last good one is in force: {harmless(fault)}"
    return painted(line, "bad") if colour else line


def conf_fault(fault: str, *, colour: bool) -> str:
    """The same of conf.json."""
    line = f"conf.json is broken, its last good values are in force: {harmless(fault)}"
    return painted(line, "bad") if colour else line
