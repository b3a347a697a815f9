"""What a node looks like to a client: what the registry, its agent and people say of it, in one object."""

from __future__ import annotations

from typing import Any

from master.core.cordon import Note
from master.core.core import Core
from master.core.gpu_models import mismatch
from master.core.inventory import Node, NodeState
from master.nodes.fleet import Fleet


def node_view(node: Node, core: Core, fleet: Fleet) -> dict[str, Any]:
    """A node as clients see it. What no probe has told is null.

    `registry`: `ok`, `leaving` (it is not in the file any more and goes after its last task) or `changing` (the file
    leads to another machine now, and is followed after its last task). `drained`: why, or null. `mismatch`: which GPUs
    are not those that the registry says, or null. `clock_offset_s`: how far its clock is ahead of the master's, as its
    last sample showed it.
    """
    config = fleet.configs.get(node.name)
    facts = node.facts
    return {
        "name": node.name,
        "driver": config.driver if config else None,
        "address": config.ip if config else node.spec.address,
        "state": node.state,
        "schedulable": node.takes_tasks,
        "reason": _reason(node),
        "drained": core.notes.get(node.name, Note()).drained,
        "registry": _registry(node),
        "gpus": _gpus(node),
        "mismatch": mismatch(node.spec.gpu_models, node.watch.newest),
        "cpus": node.cpus,
        "cpus_held": node.cpus_held,
        "slots": node.slots,
        "slots_held": node.slots_held,
        "memory_mib": facts.memory_mib if facts else None,
        "load": node.load,
        "clock_offset_s": None if node.clock_offset is None else round(node.clock_offset, 1),
        "tasks": sorted(node.active),
        "hostname": facts.hostname if facts else None,
        "python": facts.python if facts else None,
        "agent_version": facts.version if facts and node.state is NodeState.ONLINE else None,
    }


def one_line(text: str) -> str:
    """The text without line breaks and other blanks in a row."""
    return " ".join(text.split())


def _reason(node: Node) -> str | None:
    told = node.closed_because if node.reason is None else node.reason
    if node.reason is not None and node.closed_because is not None and node.closed_because not in node.reason:
        told = f"{node.reason}; {node.closed_because}"
    return one_line(told) if told else None


def _registry(node: Node) -> str:
    return next((word for word in ("leaving", "changing") if word in node.cordons), "ok")


def _gpus(node: Node) -> list[dict[str, Any]]:
    """Those that the registry counts, and those that it no longer does and that are held until a task's end."""
    count = len(node.spec.gpu_models)
    surplus = sorted(gpu for gpu in node.gpu_holder if gpu >= count)
    return [_gpu(node, index) for index in (*range(count), *surplus)]


def _gpu(node: Node, index: int) -> dict[str, Any]:
    """One GPU: the registry's word on it, and what the last sample showed. `health`: `ok`, or why it is kept back."""
    models, memory = node.spec.gpu_models, node.spec.gpu_memory_mib
    report = node.watch.newest.get(index)
    counted = index < len(models)
    return {
        "index": index,
        "model": models[index] if counted else None,
        "memory_mib": memory[index] if memory and counted else report.memory_total_mib if report else None,
        "memory_used_mib": report.memory_used_mib if report else None,
        "utilization": report.utilization if report else None,
        "health": (node.why_closed(index) or "ok") if counted else "not in the registry",
        "held_by": [node.gpu_holder[index]] if index in node.gpu_holder else [],
        "foreign": [
            {"pid": holder.pid, "user": holder.user, "memory_mib": holder.memory_mib}
            for holder in (report.foreign if report else ())
        ],
    }
