"""Turn the master's two streams into points, and remember as much of them as the points need.

Pure: messages and times come in, points go out. Owns which tasks and nodes there are now; of an ended task it keeps
nothing, since its points carry their own times and may be told again. Queue and nodes are told by `tick` alone, all at
one time: a sum over nodes or users must find every one of them, however short the span that it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from monitor.influx import (
    ENDED,
    SECOND,
    Holder,
    Point,
    end_point,
    master_point,
    node_point,
    queue_points,
    sample_points,
    start_point,
    user_of,
)

Message = Mapping[str, Any]
HIDDEN = frozenset({"user", "task"})
"""Tags that tell whose a task is, and which."""
REMEMBERED = 3600 * SECOND
"""How long a user without tasks is told as zero, in nanoseconds: without an end, everybody who ever came would be."""


class Recorder:
    """Both streams. Until a snapshot of one came, and after it broke, nothing is told of what it is about. `hides`:
    no point tells whose a task is, nor which; what is told by user is told of all together."""

    def __init__(self, *, hides: bool = False) -> None:
        self._hides = hides
        self._tasks: dict[int, Message] | None = None
        self._nodes: dict[str, Message] | None = None
        self._users: dict[str, int] = {}
        self._sampled: dict[str, int] = {}
        self._holders: dict[tuple[str, int], dict[int, Holder]] = {}

    def lost(self, what: str) -> None:
        """The stream of `tasks` or `nodes` broke: what was known is not known any more."""
        if what == "tasks":
            self._tasks = None
            self._holders.clear()
        else:
            self._nodes = None

    def handle(self, message: Message, at: int | None = None) -> list[Point]:
        """The points that one message of `Client.watch` makes. Two more are messages: `history`, with ended tasks, and
        `server.info`. `at`: when it came, in nanoseconds of our clock."""
        return self._told(self._handle(_nobodys(message) if self._hides else message, at))

    def _handle(self, message: Message, at: int | None) -> list[Point]:
        params = message["params"]
        method = message["method"]
        if method == "node.sample":
            if at is not None:
                self._sampled[params["node"]] = at
            return sample_points(params, self._held_by)
        if method == "node.changed":
            self._node_changed(params)
        elif method == "task.changed":
            return self._task_changed(params)
        elif method == "server.info":
            return [master_point(params["loop"], at)] if at is not None and params.get("loop") else []
        elif method == "history":
            return _told_again(params["tasks"])
        elif method == "snapshot" and "nodes" in params:
            self._nodes = {node["name"]: node for node in params["nodes"]}
        elif method == "snapshot":
            self.lost("tasks")
            self._tasks = {}
            return [point for task in params["tasks"] for point in self._task(task)]
        return []

    def tick(self, at: int) -> list[Point]:
        """How things are now, at a time in nanoseconds."""
        points: list[Point] = []
        if self._tasks is not None:
            self._users |= {user_of(task): at for task in self._tasks.values()}
            self._users = {user: seen for user, seen in self._users.items() if seen > at - REMEMBERED}
            points += queue_points(self._tasks.values(), self._users, at)
        if self._nodes is not None:
            points += [node_point(node, at, self._silent_s(node["name"], at)) for node in self._nodes.values()]
        return self._told(points)

    def _told(self, points: list[Point]) -> list[Point]:
        if not self._hides:
            return points
        return [point._replace(tags={k: v for k, v in point.tags.items() if k not in HIDDEN}) for point in points]

    def _silent_s(self, node: str, at: int) -> float | None:
        """How long ago a sample of the node came, by our clock; None where none ever did."""
        return max(0.0, (at - self._sampled[node]) / SECOND) if node in self._sampled else None

    def _held_by(self, node: str, gpu: int) -> Iterable[Holder]:
        return self._holders.get((node, gpu), {}).values()

    def _node_changed(self, params: Message) -> None:
        if self._nodes is None:
            return
        if params.get("gone"):
            self._nodes.pop(params["name"], None)
            self._sampled.pop(params["name"], None)
        else:
            self._nodes[params["node"]["name"]] = params["node"]

    def _task_changed(self, params: Message) -> list[Point]:
        if params.get("gone"):
            self._drop(params["id"])
            return []
        return self._task(params["task"])

    def _task(self, task: Message) -> list[Point]:
        if self._tasks is None:
            return []
        before = self._tasks.get(task["id"], {})
        self._drop(task["id"])
        ended = task["state"] in ENDED
        if not ended:
            self._keep(task)
        fresh = [start_point(task)] if task.get("started_at") != before.get("started_at") else []
        if ended:
            fresh.append(end_point(task))
        return [point for point in fresh if point is not None]

    def _keep(self, task: Message) -> None:
        if self._tasks is not None:
            self._tasks[task["id"]] = task
        for part in task.get("allocation") or ():
            holder = Holder(task["id"], user_of(task), part.get("launch_id", ""))
            for gpu in part["gpus"]:
                self._holders.setdefault((part["node"], gpu), {})[task["id"]] = holder

    def _drop(self, task_id: int) -> None:
        task = (self._tasks or {}).get(task_id)
        if task is None or self._tasks is None:
            return
        del self._tasks[task_id]
        for part in task.get("allocation") or ():
            for gpu in part["gpus"]:
                held = self._holders.get((part["node"], gpu), {})
                held.pop(task_id, None)
                if not held:
                    self._holders.pop((part["node"], gpu), None)


def _nobodys(message: Message) -> Message:
    """The message with tasks of which nobody is told whose they are."""
    params = dict(message["params"])
    if "task" in params:
        params["task"] = {**params["task"], "owner": ""}
    if "tasks" in params:
        params["tasks"] = [{**task, "owner": ""} for task in params["tasks"]]
    return {**message, "params": params}


def _told_again(tasks: Iterable[Message]) -> list[Point]:
    """Starts and ends of ended tasks: nobody may have been told of them; telling them twice does no harm."""
    return [point for task in tasks for point in (start_point(task), end_point(task)) if point is not None]
