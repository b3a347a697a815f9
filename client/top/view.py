"""The user's choice of lists, filters and order; and the rows that follow from it. Pure.

A row is a key: a task's id, a node's name, or (node, GPU index). Lines are made of keys elsewhere, of the visible ones
only; here is nothing that costs more than a sort of ids.
"""

from __future__ import annotations

from client.live.listing import NODE_SORTS, TASK_SORTS, nodes_in_order, tasks_in_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from client.live.state import State

    NodeKey: TypeAlias = tuple[str, int | None]

PACKINGS = ("auto", "all", "packed")


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
    return tasks_in_order(state, view.task_sort, words=view.task_filter, owner=view.mine, ended=view.ended)


def node_rows(state: State, view: View, room: int) -> list[NodeKey]:
    """(name, None) for each node to show, and (name, index) after it for each GPU with a line of its own. `room`: lines
    that there are."""
    nodes = nodes_in_order(state, view.node_sort, words=view.node_filter)
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
