"""The state of the cluster: nodes, their newest samples and the tasks, kept up to date by messages. Pure.

It takes the snapshots and notifications of the two subscriptions, in any order between the two, and what the feeds say
of their connections. It asks nobody and draws nothing.
"""

from __future__ import annotations

from client.states import ENDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from client.caller import What
    from client.shapes import Node, Task
    from wire.errors import MusterError

ENDED_KEPT = 200
"""Tasks that ended while we looked on are kept, the newest so many."""
FEEDS: tuple[What, ...] = ("nodes", "tasks")


class State:
    """The cluster as the messages tell it. `lost` maps a feed to (the error, since when) while it has no
    connection.

    `nodes_version` and `tasks_version` grow with each change; `samples_version` with each sample.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.samples: dict[str, dict[str, Any]] = {}
        self.tasks: dict[int, Task] = {}
        self.ended: dict[int, Task] = {}
        self.lost: dict[str, tuple[MusterError, float]] = {}
        self.arrived: set[str] = set()
        self.nodes_version = 0
        self.samples_version = 0
        self.tasks_version = 0
        self._texts: dict[int, str] = {}

    @property
    def complete(self) -> bool:
        """Has the first snapshot of both feeds come?"""
        return self.arrived.issuperset(FEEDS)

    def take(self, message: dict[str, Any], now: float) -> None:
        """Take a message over; `now` in seconds since the epoch. One of an unknown method is left alone, so that a
        newer master can say more."""
        method, params = message["method"], message["params"]
        if method == "task.changed":
            self._task_changed(params)
        elif method == "node.sample":
            self._sampled(params)
        elif method == "node.changed":
            self._node_changed(params)
        elif method == "nodes":
            self._all_nodes(params)
        elif method == "tasks":
            self._all_tasks(params)
        elif method == "reasons":
            self._reasons(params)
        elif method == "lost":
            self.lost[params["feed"]] = (params["why"], self.lost.get(params["feed"], (None, now))[1])

    def task(self, task_id: int) -> Task | None:
        """A task that waits or runs, or has ended meanwhile."""
        return self.tasks.get(task_id) or self.ended.get(task_id)

    def text_of(self, task: Task) -> str:
        """Return the text that a filter searches, in lower case."""
        found = self._texts.get(task["id"])
        if found is None:
            command = task["command"] if isinstance(task["command"], str) else " ".join(task["command"])
            held = " ".join(entry["node"] for entry in task["allocation"])
            words = (str(task["id"]), task["state"], task["owner"], task["name"], task["project"], held, command)
            found = self._texts[task["id"]] = "\n".join(words).casefold()
        return found

    # -- tasks ------------------------------------------------------------------------------------------------

    def _all_tasks(self, tasks: Iterable[Task]) -> None:
        self.tasks = {task["id"]: task for task in tasks}
        self._texts.clear()
        self._arrived("tasks")
        self.tasks_version += 1

    def _task_changed(self, params: dict[str, Any]) -> None:
        self.tasks_version += 1
        if params.get("gone"):
            self._forget(params["id"])
            self.ended.pop(params["id"], None)
            return
        task: Task = params["task"]
        known: Any = self.task(task["id"])
        # A change that was sent before a list was requested may arrive after the answer.
        if known is not None and params["task"].get("seq", 0) < known.get("seq", 0):
            return
        self._forget(task["id"])
        self.ended.pop(task["id"], None)
        if task["state"] in ENDED:
            self.ended[task["id"]] = task
            while len(self.ended) > ENDED_KEPT:
                self._texts.pop(next(iter(self.ended)), None)
                del self.ended[next(iter(self.ended))]
        else:
            self.tasks[task["id"]] = task

    def _reasons(self, reasons: dict[int, dict[str, Any]]) -> None:
        for task_id, reason in reasons.items():
            task: Any = self.tasks.get(task_id)
            if task is not None:
                task.update(reason)

    def _forget(self, task_id: int) -> None:
        self.tasks.pop(task_id, None)
        self._texts.pop(task_id, None)

    # -- nodes ------------------------------------------------------------------------------------------------

    def _all_nodes(self, nodes: Iterable[Node]) -> None:
        self.nodes = {node["name"]: node for node in nodes}
        self.samples = {name: sample for name, sample in self.samples.items() if self._online(name)}
        self._arrived("nodes")
        self.nodes_version += 1

    def _node_changed(self, params: dict[str, Any]) -> None:
        self.nodes_version += 1
        if params.get("gone"):
            self.nodes.pop(params["name"], None)
            self.samples.pop(params["name"], None)
            return
        node: Node = params["node"]
        self.nodes[node["name"]] = node
        if not self._online(node["name"]):
            # An old figure beside `unreachable` would be read as if it were true now.
            self.samples.pop(node["name"], None)

    def _sampled(self, params: dict[str, Any]) -> None:
        if self._online(params["node"]):
            self.samples[params["node"]] = params
            self.samples_version += 1

    def _online(self, name: str) -> bool:
        node = self.nodes.get(name)
        return node is not None and node["state"] == "online"

    def _arrived(self, feed: str) -> None:
        self.arrived.add(feed)
        self.lost.pop(feed, None)
