"""Clusters for the tests of `muster top`: nodes, samples and tasks as the master tells them, of any size."""

from __future__ import annotations

from typing import Any

from client.live.state import State
from tests.client.fake_master import task

GIB = 1024


def gpu(index: int, **fields: Any) -> dict[str, Any]:
    """A free GPU of 80 GiB, as `node.list` has it."""
    return {
        "index": index, "model": "A100", "memory_mib": 80 * GIB, "memory_used_mib": None, "utilization": None,
        "health": "ok", "held_by": [], "foreign": [], **fields,
    }  # fmt: skip


def node(name: str, gpus: int | list[dict[str, Any]] = 2, **fields: Any) -> dict[str, Any]:
    """An online node."""
    return {
        "name": name, "driver": "ssh", "address": "10.0.0.1", "state": "online", "schedulable": True, "reason": None,
        "drained": None, "registry": "ok",
        "gpus": [gpu(index) for index in range(gpus)] if isinstance(gpus, int) else gpus,
        "cpus": 64, "cpus_held": 0, "slots": 64, "slots_held": 0, "memory_mib": 512 * GIB, "load": None, "tasks": [],
        "hostname": name, "python": "3.11", "agent_version": "1", **fields,
    }  # fmt: skip


def sampled(index: int, utilization: float, used: int, **fields: Any) -> dict[str, Any]:
    """A GPU in a sample."""
    return {
        "index": index, "uuid": f"GPU-{index}", "model": "A100", "utilization": utilization,
        "memory_utilization": None, "memory_total_mib": 80 * GIB, "memory_used_mib": used, "temperature": 60.0,
        "power": 300.0, "ecc_errors": 0, "xid": None, "mig": False, "processes": [], "fault": "", **fields,
    }  # fmt: skip


def sample(name: str, *gpus: dict[str, Any], cpu: float = 25.0) -> dict[str, Any]:
    """A sample of a node, half of whose memory is in use."""
    return {
        "node": name, "at": 0.0, "cpu_percent": cpu, "load": [1.0, 1.0, 1.0], "memory_total_mib": 512 * GIB,
        "memory_available_mib": 256 * GIB, "gpus": list(gpus), "gpu_source": "nvml", "gpu_fault": "",
    }  # fmt: skip


def running(task_id: int, where: str, gpus: list[int], **fields: Any) -> dict[str, Any]:
    """A task that runs there since second 1000."""
    return task(task_id, "running", gpus=len(gpus), allocation=[{"node": where, "gpus": gpus}], started_at=1000.0,
                seq=task_id, **fields)  # fmt: skip


def message(method: str, params: Any) -> dict[str, Any]:
    """As a feed hands it on."""
    return {"method": method, "params": params}


def state_of(nodes: list[dict[str, Any]], tasks: list[dict[str, Any]], *samples: dict[str, Any]) -> State:
    """A state to which all that was told."""
    state = State()
    for one in (message("nodes", nodes), message("tasks", tasks), *(message("node.sample", one) for one in samples)):
        state.take(one, 1000.0)
    return state


def large(nodes: int = 100, tasks: int = 10_000) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Nodes with 8 GPUs each, all held, and a long queue."""
    machines, queue = [], []
    for number in range(nodes):
        name, task_id = f"node{number:03}", number + 1
        gpus = [gpu(index, held_by=[task_id]) for index in range(8)]
        machines.append(node(name, gpus, tasks=[task_id]))
        queue.append(running(task_id, name, list(range(8)), name=f"训练-{number}", owner=f"user{number % 7}"))
    queue += [
        task(nodes + number + 1, name=f"sweep-{number}", owner=f"user{number % 7}", gpus=1, seq=number)
        for number in range(tasks - nodes)
    ]
    return machines, queue
