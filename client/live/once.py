"""One look at the cluster, for scripts and for output without a terminal: collected over the subscriptions."""

from __future__ import annotations

import time
from queue import Empty, SimpleQueue

from client.live.feed import Feed
from client.live.listing import tasks_in_order
from client.live.state import FEEDS, State
from client.refusals import coded_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.address import Address

SAMPLES_S = 3.0
"""How long a look waits for the samples of the nodes that are online; they come every two seconds."""
_SNAPSHOT_S = 60.0


def collect(address: Address, token: str | None, patience: float = SAMPLES_S) -> State:
    """The state now, with a sample of each node that sends one within `patience` seconds. Raises MusterError."""
    inbox: SimpleQueue[dict[str, Any]] = SimpleQueue()
    feeds = [Feed(what, address, token, inbox.put) for what in FEEDS]
    state = State()
    for feed in feeds:
        feed.start()
    try:
        deadline = time.monotonic() + _SNAPSHOT_S
        while not state.complete:
            _take(state, inbox, deadline)
            if state.lost:
                raise next(iter(state.lost.values()))[0]
        deadline = time.monotonic() + patience
        while _awaited(state) and time.monotonic() < deadline:
            _take(state, inbox, deadline)
    finally:
        for feed in feeds:
            feed.end()
        for feed in feeds:
            feed.join()
    return state


def document(state: State) -> dict[str, Any]:
    """The state as JSON has it: `nodes` as `nodes --json`, each with its newest `sample` or null; `tasks`."""
    nodes = [{**node, "sample": state.samples.get(name)} for name, node in state.nodes.items()]
    return {"nodes": nodes, "tasks": [state.tasks[task_id] for task_id in tasks_in_order(state)]}


def _awaited(state: State) -> bool:
    return any(node["state"] == "online" and name not in state.samples for name, node in state.nodes.items())


def _take(state: State, inbox: SimpleQueue[dict[str, Any]], deadline: float) -> None:
    try:
        message = inbox.get(timeout=max(0.0, deadline - time.monotonic()))
    except Empty:
        if not state.complete:
            raise coded_error("unreachable", "master_told_nothing", seconds=_SNAPSHOT_S) from None
        return
    state.take(message, time.time())
