"""What JSON-RPC sessions are told without asking.

The train-state port streams tasks, the monitor port nodes: a snapshot, then what changed. Each update is encoded once
for all who hear it, and all that one turn of the loop has to say to a session goes out together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol

import msgspec

from master.core.heard import Passed
from master.core.task import Task
from master.engine import Engine
from master.peer import Peer
from master.rates import Rates
from master.verbs.base import Context, Surroundings
from master.verbs.node_view import node_view
from master.verbs.tasks import view

TASKS, NODES = "train_state_port", "monitor_port"

_encode = msgspec.json.Encoder().encode


class Subscriber(Protocol):
    """A session, as far as it is told things."""

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
    """What all sessions share: who subscribed to what, and what there is to send at the end of a turn of the loop."""

    def __init__(self, engine: Engine, master: Surroundings, rates: Rates) -> None:
        self.engine = engine
        self.master = master
        self.rates = rates
        self.subscribers: dict[str, dict[Subscriber, None]] = {TASKS: {}, NODES: {}}
        self._unsent: dict[Subscriber, None] = {}
        self._send_at: asyncio.Handle | None = None
        engine.observers.append(self)

    def published(self, tasks: list[Task], gone: list[int], nodes: set[str]) -> None:
        """Tell the subscribers what has become durable. Each update is encoded once for all."""
        watchers = self.subscribers[TASKS]
        if watchers:
            for task in tasks:
                self._tell(watchers, task.id, partial(self.task_update, task.id))
            for task_id in gone:
                self._tell(watchers, task_id, partial(self.task_update, task_id))
        watchers = self.subscribers[NODES]
        if watchers:
            for name in nodes:
                self._tell(watchers, name, partial(self.node_update, name))

    def send_soon(self, session: Subscriber) -> None:
        """Send what a session has to say at the end of this turn of the loop, all its frames together."""
        self._unsent[session] = None
        if self._send_at is None:
            self._send_at = asyncio.get_running_loop().call_soon(self.let_out)

    def let_out(self) -> None:
        """Send what all sessions have to say."""
        if self._send_at is not None:
            self._send_at.cancel()
            self._send_at = None
        unsent, self._unsent = self._unsent, {}
        for session in unsent:
            session.flush()

    def sample(self, node: str, sample: Passed) -> None:
        """Pass a sample on; who cannot take it now misses it."""
        if self.subscribers[NODES]:
            frame = _notification("node.sample", {**sample.told(), "node": node})
            for session in self.subscribers[NODES]:
                session.send_if_free(frame)

    def task_update(self, task_id: int) -> bytes:
        """The newest word on a task."""
        task = self.engine.core.tasks.get(task_id)
        if task is None:
            return _notification("task.changed", {"id": task_id, "gone": True})
        context = Context(self.engine, self.master, Peer(""), 0.0)
        return _notification("task.changed", {"task": view(context, task)})

    def node_update(self, name: str) -> bytes:
        """The newest word on a node."""
        node = self.engine.core.inventory.nodes.get(name)
        if node is None:
            return _notification("node.changed", {"name": name, "gone": True})
        return _notification("node.changed", {"node": node_view(node, self.engine.core, self.master.fleet)})

    def update(self, key: int | str) -> bytes:
        """The newest word on what a subscriber was told of by this key."""
        return self.task_update(key) if isinstance(key, int) else self.node_update(key)

    def forget(self, session: Subscriber) -> None:
        """A session is over."""
        for watchers in self.subscribers.values():
            watchers.pop(session, None)

    @staticmethod
    def _tell(watchers: Iterable[Subscriber], key: int | str, encode: Callable[[], bytes]) -> None:
        frame: bytes | None = None
        for session in watchers:
            if session.wants(key):
                if session.lags:
                    session.remember(key)
                else:
                    frame = frame or encode()
                    session.send(frame)


def _notification(method: str, params: dict[str, Any]) -> bytes:
    return _encode({"jsonrpc": "2.0", "method": method, "params": params}) + b"\n"
