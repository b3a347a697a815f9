"""The verbs about nodes, and what a node looks like to a client."""

from __future__ import annotations

from typing import Any

import msgspec

from master.inventory import Node, NodeState
from master.verbs.base import Context, Nothing
from wire.errors import NotFoundError


class OneNode(msgspec.Struct, forbid_unknown_fields=True):
    """A node by its name."""

    name: str


def node_view(node: Node) -> dict[str, Any]:
    """A node as clients see it. What no probe has told is null."""
    memory = node.spec.gpu_memory_mib
    gpus = [
        {
            "index": index,
            "model": model,
            "memory_mib": memory[index] if memory else None,
            "memory_used_mib": None,
            "utilization": None,
            "health": "ok",
            "held_by": [node.gpu_holder[index]] if index in node.gpu_holder else [],
            "foreign": [],
        }
        for index, model in enumerate(node.spec.gpu_models)
    ]
    return {
        "name": node.name,
        "address": node.spec.address,
        "state": node.state,
        "schedulable": node.takes_tasks,
        "reason": node.reason or (None if node.spec.schedulable else "`schedulable` is false in the registry"),
        "gpus": gpus,
        "cpus": node.cpus,
        "cpus_held": node.cpus_held,
        "slots": node.slots,
        "slots_held": node.slots_held,
        "memory_mib": node.facts.memory_mib if node.facts else None,
        "load": node.load,
        "tasks": sorted(node.active),
        "hostname": node.facts.hostname if node.facts else None,
        "python": node.facts.python if node.facts else None,
        "agent_version": node.facts.version if node.facts and node.state is NodeState.ONLINE else None,
    }


def list_nodes(context: Context, _params: Nothing) -> list[dict[str, Any]]:
    """All nodes, in the registry's order."""
    return [node_view(node) for node in context.core.inventory.nodes.values()]


def show(context: Context, params: OneNode) -> dict[str, Any]:
    """One node."""
    nodes = context.core.inventory.nodes
    if params.name not in nodes:
        raise NotFoundError(f"there is no node {params.name!r} (nodes: {', '.join(nodes) or 'none'})")
    return node_view(nodes[params.name])
