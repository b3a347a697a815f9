"""Which tasks and nodes there are to show, and in which order. Costs a sort, and makes no text of any.

The orders have names: of tasks `queue owner gpus time newest`, of nodes `registry name busy free`.
"""

from __future__ import annotations

from client.live.gpus import gpus_of
from client.states import ALIVE, free_gpus, node_condition

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from client.live.state import State
    from client.shapes import Node, Task

TASK_SORTS = ("queue", "owner", "gpus", "time", "newest")
NODE_SORTS = ("registry", "name", "busy", "free")


def tasks_in_order(
    state: State, sort: str = TASK_SORTS[0], *, words: str = "", owner: str | None = None, ended: bool = False
) -> list[int]:
    """The ids of the tasks that hold all of the words; only this `owner`'s, if one is named; with those that `ended`
    meanwhile, or without."""
    tasks = list(state.tasks.values())
    if ended:
        tasks += state.ended.values()
    if owner is not None:
        tasks = [task for task in tasks if task["owner"] == owner]
    if words:
        parts = words.casefold().split()
        tasks = [task for task in tasks if all(part in state.text_of(task) for part in parts)]
    tasks.sort(key=_TASK_KEYS[sort])
    return [task["id"] for task in tasks]


def nodes_in_order(state: State, sort: str = NODE_SORTS[0], *, words: str = "") -> list[Node]:
    """The nodes that hold all of the words."""
    nodes = [node for node in state.nodes.values() if _matches(node, state, words)]
    key = _node_key(state, sort)
    if key is not None:
        nodes.sort(key=key)
    return nodes


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
    return task["started_at"] or task.get("eligible_at") or task["submitted_at"]


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

    keys: dict[str, Callable[[Node], Any]] = {
        "name": lambda node: node["name"], "busy": busy, "free": lambda node: -free_gpus(node),
    }  # fmt: skip
    return keys.get(sort)


def _matches(node: Node, state: State, text: str) -> bool:
    if not text:
        return True
    gpus = gpus_of(node, state)
    told = [node["name"], node_condition(node), node["reason"] or "", node["hostname"] or ""]
    told += [part for gpu in gpus for part in (gpu.model, gpu.owner, gpu.name, gpu.why, *gpu.others)]
    whole = "\n".join(told).casefold()
    return all(part in whole for part in text.casefold().split())
