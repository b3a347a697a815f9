"""What the person at the keyboard wants to see, and in which order; and the rows that follow from it. Pure.

A row is a key: a task's id, a node's name, or (node, GPU index). Lines are made of keys elsewhere, of the visible ones
only; here is nothing that costs more than a sort of ids.
"""

from __future__ import annotations

from client.cli.node_words import word
from client.top.gpus import gpus_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from client.shapes import Node, Task
    from client.top.state import State

    NodeKey: TypeAlias = tuple[str, int | None]

TASK_SORTS = ("queue", "owner", "gpus", "time", "newest")
NODE_SORTS = ("registry", "name", "busy", "free")
PACKINGS = ("auto", "all", "packed")
ALIVE = ("running", "paused", "starting")


class View:
    """The choices. `mine`: only this person's tasks; `gpus`: whether each GPU has a line of its own (`auto`: where
    there is room for all); `opened`: nodes for which it is the other way round."""

    def __init__(self) -> None:
        self.task_sort = TASK_SORTS[0]
        self.node_sort = NODE_SORTS[0]
        self.task_filter = ""
        self.node_filter = ""
        self.mine: str | None = None
        self.ended = False
        self.gpus = PACKINGS[0]
        self.opened: set[str] = set()


def task_rows(state: State, view: View) -> list[int]:
    """The ids of the tasks to show, in order."""
    tasks = list(state.tasks.values())
    if view.ended:
        tasks += state.ended.values()
    if view.mine is not None:
        tasks = [task for task in tasks if task["owner"] == view.mine]
    if view.task_filter:
        words = view.task_filter.casefold().split()
        tasks = [task for task in tasks if all(part in state.text_of(task) for part in words)]
    tasks.sort(key=_TASK_KEYS[view.task_sort])
    return [task["id"] for task in tasks]


def node_rows(state: State, view: View, room: int) -> list[NodeKey]:
    """(name, None) for each node to show, and (name, index) after it for each GPU with a line of its own. `room`: lines
    that there are."""
    nodes = [node for node in state.nodes.values() if _matches(node, state, view.node_filter)]
    key = _node_key(state, view.node_sort)
    if key is not None:
        nodes.sort(key=key)
    lines = sum(1 + len(node["gpus"]) for node in nodes)
    unpacked = view.gpus == "all" or (view.gpus == "auto" and lines <= room)
    rows: list[NodeKey] = []
    for node in nodes:
        rows.append((node["name"], None))
        if unpacked != (node["name"] in view.opened):
            rows += [(node["name"], gpu["index"]) for gpu in node["gpus"]]
    return rows


def unpacked(rows: list[NodeKey]) -> set[str]:
    """The nodes whose GPUs have lines of their own."""
    return {name for name, index in rows if index is not None}


def next_of(choices: tuple[str, ...], chosen: str) -> str:
    """The choice after this one, round and round."""
    return choices[(choices.index(chosen) + 1) % len(choices)]


def _in_queue(task: Task) -> tuple[Any, ...]:
    """Running ones first, as they started, then the queue in the master's order, then the ended ones, newest first."""
    if task["state"] in ALIVE:
        return (0, task["started_at"] or float("inf"), task["id"])
    if task["ended_at"] is not None:
        return (2, -task["ended_at"], -task["id"])
    more: dict[str, Any] = {**task}
    position = more.get("position")
    return (
        1,
        not more.get("forced"),
        not task["urgent"],
        -task["priority"],
        float(task["id"]) if position is None else position,
        task["id"],
    )


def _since(task: Task) -> float:
    return task["started_at"] or task["submitted_at"]


_TASK_KEYS: dict[str, Callable[[Task], Any]] = {
    "queue": _in_queue,
    "owner": lambda task: (task["owner"], _in_queue(task)),
    "gpus": lambda task: (-task["gpus"], _in_queue(task)),
    "time": lambda task: (task["state"] not in ALIVE, _since(task), task["id"]),
    "newest": lambda task: -task["id"],
}


def _node_key(state: State, sort: str) -> Callable[[Node], Any] | None:
    def busy(node: Node) -> float:
        known = [gpu.utilization for gpu in gpus_of(node, state) if gpu.utilization is not None]
        sample = state.samples.get(node["name"], {})
        cpu: float = sample.get("cpu_percent", 0.0)
        return -(sum(known) / len(known) if known else -1.0) * 1000 - cpu

    def free(node: Node) -> int:
        takes = node["state"] == "online" and node["schedulable"]
        return -sum(takes and not gpu.get("held_by") and gpu.get("health") in ("ok", None) for gpu in node["gpus"])

    keys: dict[str, Callable[[Node], Any]] = {"name": lambda node: node["name"], "busy": busy, "free": free}
    return keys.get(sort)


def _matches(node: Node, state: State, text: str) -> bool:
    if not text:
        return True
    gpus = gpus_of(node, state)
    told = [node["name"], word(node), node["reason"] or "", node["hostname"] or ""]
    told += [part for gpu in gpus for part in (gpu.model, gpu.owner, gpu.name, gpu.why, *gpu.others)]
    whole = "\n".join(told).casefold()
    return all(part in whole for part in text.casefold().split())
