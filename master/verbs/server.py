"""The verbs about the master itself."""

from __future__ import annotations

from collections import Counter
from typing import Any

from master.core.task import TaskState
from master.verbs.base import Context, Nothing
from wire.client import PROTOCOL_VERSION


def info(context: Context, _params: Nothing) -> dict[str, Any]:
    """Version, ports, and the whole at a glance."""
    core, store = context.core, context.engine.store
    if store.fault is not None:
        store.probe()  # who asks how it goes wants to know how it goes now
    return {
        **context.master.info(),
        "protocol": PROTOCOL_VERSION,
        "user": context.user,
        "store_fault": store.fault,
        "tasks": {state: core.counts[state] for state in TaskState},
        "warned": core.warned(),
        "nodes": Counter(node.state for node in core.inventory.nodes.values()),
    }


def stop(context: Context, _params: Nothing) -> dict[str, Any]:
    """End the master, after this answer. Tasks run on."""
    context.engine.reply(lambda _error: context.master.stop())
    return {}
