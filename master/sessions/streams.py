"""The subscriptions of sessions.

A session tells of tasks, or of nodes: a snapshot, then the changes. Which of them it can tell of, it says itself
(`PushChannel.tells`). Each update is encoded once for all who receive it, and all messages of one turn of the loop to a
session go out together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from master.core.attempts.agent_messages import EncodedSample
from master.core.outcome import Move
from master.engine.engine import Engine
from master.sessions.json_rpc_frames import notification
from master.verbs.base import Told
from master.verbs.surroundings import Surroundings
from master.verbs.turns import Job, Turns, Work
from master.views.nodes import node_view, sample_on_wall, without_people
from master.views.sight import Sight
from master.views.tasks import task_view

K = TypeVar("K", int, str)

SLICE = 20
"""Updates of tasks that are encoded between two chances for others."""


class Subscriber(Protocol):
    """A session, as far as updates are sent to it."""

    @property
    def sight(self) -> Sight:
        """Return what its user may see of others' tasks."""

    @property
    def lags(self) -> bool:
        """Does it have updates to come that must go first?"""

    def wants(self, key: int | str) -> bool:
        """Did it subscribe to this?"""

    def remember(self, key: int | str) -> None:
        """Note that there is news of this, to be looked up when it can be sent."""

    def send(self, frame: bytes) -> None:
        """Send a whole frame."""

    def send_if_free(self, frame: bytes) -> None:
        """Send what is worth nothing later."""

    def flush(self) -> None:
        """Send what it has to say now."""


class Streams:
    """The subscriptions of all sessions, and their notifications, which are sent at the end of a turn of the loop."""

    def __init__(self, engine: Engine, master: Surroundings, turns: Turns) -> None:
        self.engine = engine
        self.master = master
        self.turns = turns
        self.subscribers: dict[Told, dict[Subscriber, None]] = {"tasks": {}, "nodes": {}}
        self._unsent: dict[Subscriber, None] = {}
        self._send_at: asyncio.Handle | None = None
        engine.observers.append(self)
        engine.let_out.append(self.let_out)

    def published(self, moves: Sequence[Move], nodes: set[str]) -> None:
        """Tell the subscribers what has become durable. Each update is encoded once for all who receive the same."""
        if self.subscribers["tasks"]:
            task_ids = list(dict.fromkeys(task.id for task, _, _ in moves))
            if len(task_ids) <= SLICE and not self.turns.busy:  # else it would overtake others
                for task_id in task_ids:
                    self._tell_task(task_id)
            else:
                news = self._tell_tasks(task_ids)
                self.turns.begin(Job(news, _told, is_wanted=lambda: bool(self.subscribers["tasks"])))
        watchers = self.subscribers["nodes"]
        if watchers:
            for name in nodes:
                self._tell(watchers, name, _of_node, self.node_update)

    def _tell_tasks(self, task_ids: list[int]) -> Work:
        """Send a batch of ten thousand in slices: each task as it is then, once that is durable."""
        for place, task_id in enumerate(task_ids, 1):
            self._tell_task(task_id)
            if place % SLICE == 0:
                yield
                while not self.engine.is_settled:
                    yield

    def _tell_task(self, task_id: int) -> None:
        task = self.engine.core.tasks.get(task_id)
        kind: Callable[[Sight], Hashable] = _gone if task is None else lambda sight: sight.key(task)
        self._tell(self.subscribers["tasks"], task_id, kind, self.task_update)

    def send_soon(self, session: Subscriber) -> None:
        """Send what a session has to say at the end of this turn of the loop, all its frames together."""
        self._unsent[session] = None
        if self._send_at is None and not self.engine.lets_out:
            self._send_at = asyncio.get_running_loop().call_soon(self.let_out)

    def let_out(self) -> None:
        """Send what all sessions have to say."""
        if self._send_at is not None:
            self._send_at.cancel()
            self._send_at = None
        unsent, self._unsent = self._unsent, {}
        for session in unsent:
            session.flush()

    def sample(self, node: str, sample: EncodedSample) -> None:
        """Pass a sample on; who cannot take it now misses it."""
        watchers = self.subscribers["nodes"]
        frames: dict[Hashable, bytes] = {}
        for session in watchers:
            alike = _of_node(session.sight)
            frame = frames.get(alike)
            if frame is None:
                frames[alike] = frame = notification("node.sample", {**_sample(sample, session.sight), "node": node})
            session.send_if_free(frame)

    def task_update(self, task_id: int, sight: Sight) -> bytes:
        """The newest word on a task."""
        task = self.engine.core.tasks.get(task_id)
        if task is None:
            return notification("task.changed", {"id": task_id, "gone": True})
        return notification("task.changed", {"task": task_view(self.engine.core, task, sight)})

    def node_update(self, name: str, sight: Sight) -> bytes:
        """The newest word on a node."""
        node = self.engine.core.inventory.nodes.get(name)
        if node is None:
            return notification("node.changed", {"name": name, "gone": True})
        view = node_view(self.engine.core, node, self.master.fleet.configs.get(name), sight)
        return notification("node.changed", {"node": view})

    def update(self, key: int | str, sight: Sight) -> bytes:
        """The newest word on what a subscriber was told of by this key."""
        return self.task_update(key, sight) if isinstance(key, int) else self.node_update(key, sight)

    def forget(self, session: Subscriber) -> None:
        """A session is over."""
        for watchers in self.subscribers.values():
            watchers.pop(session, None)

    @staticmethod
    def _tell(
        watchers: Iterable[Subscriber],
        key: K,
        kind: Callable[[Sight], Hashable],
        encode: Callable[[K, Sight], bytes],
    ) -> None:
        """`kind`: sessions with the same kind receive the same."""
        frames: dict[Hashable, bytes] = {}
        for session in watchers:
            if session.wants(key):
                if session.lags:
                    session.remember(key)
                else:
                    sight = session.sight
                    alike = kind(sight)
                    frame = frames.get(alike)
                    if frame is None:
                        frame = frames[alike] = encode(key, sight)
                    session.send(frame)


def _of_node(sight: Sight) -> Hashable:
    return sight.hides_others, sight.is_wall


def _sample(sample: EncodedSample, sight: Sight) -> dict[str, Any]:
    if sight.is_wall:
        return sample_on_wall(sample.told())
    return without_people(sample.told()) if sight.hides_others else sample.told()


def _gone(_sight: Sight) -> Hashable:
    return None


def _told(_result: object, error: Exception | None) -> None:
    """News were given; a defect in them is no less a defect for being met in a slice."""
    if error is not None:
        raise error
