"""One GPU as it is now: the registry's word, the newest sample, and who has it, as one value. Pure."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.live.state import State
    from client.shapes import Gpu, Node

HELD, FREE, OTHERS, ASIDE, AWAY = "held", "free", "others", "aside", "away"
"""held by a task; free; used by somebody else; set aside or kept back; nothing is known, its node is not there."""


class GpuNow(NamedTuple):
    """`use` is one of the five above. `utilization` in percent, memory in MiB, `temperature` in °C, `power` in W, None
    where nothing is known. `task`: the id of the task that holds it; `owner`, `name`: of that task; `sharers`: how many
    more tasks share it. `others`: users that are no tasks of ours. `why`: why it is not given out, or ""."""

    number: int
    use: str
    model: str
    utilization: float | None
    used_mib: float | None
    total_mib: float | None
    temperature: float | None
    power: float | None
    task: int | None
    owner: str
    name: str
    sharers: int
    others: tuple[str, ...]
    why: str


def gpus_of(node: Node, state: State) -> list[GpuNow]:
    """The GPUs of a node, in the registry's order."""
    sample = state.samples.get(node["name"], {})
    sampled = {gpu["index"]: gpu for gpu in sample.get("gpus", [])}
    return [_now(node, gpu, sampled.get(gpu["index"], {}), state) for gpu in node["gpus"]]


def _now(node: Node, gpu: Gpu, sampled: dict[str, Any], state: State) -> GpuNow:
    online = node["state"] == "online"
    held_by = gpu.get("held_by") or []
    task_id = held_by[0] if held_by else None
    task = state.task(task_id) if task_id is not None else None
    others = _others(gpu, sampled) if online else ()
    is_used = bool(others) or gpu.get("condition") == "busy"  # who uses it, not everybody may see
    why = gpu.get("health") or "ok"
    why = "" if why == "ok" else why

    def told(key: str, known: float | None) -> float | None:
        fresh: float | None = sampled.get(key)
        return None if not online else known if fresh is None else fresh

    return GpuNow(
        number=gpu["index"],
        use=_use(online=online, held=task_id is not None, others=is_used, why=why),
        model=sampled.get("model") or gpu.get("model") or "",
        utilization=told("utilization", gpu.get("utilization")),
        used_mib=told("memory_used_mib", gpu.get("memory_used_mib")),
        total_mib=sampled.get("memory_total_mib") or gpu.get("memory_mib"),
        temperature=told("temperature", None),
        power=told("power", None),
        task=task_id,
        owner=task["owner"] if task else "",
        name=task["name"] if task else "",
        sharers=max(0, len(held_by) - 1),
        others=others,
        why=why,
    )


def _others(gpu: Gpu, sampled: dict[str, Any]) -> tuple[str, ...]:
    """Users of processes that are not ours, each once, in the order of the sample."""
    holders = gpu.get("foreign") or []
    if "processes" in sampled:
        holders = [holder for holder in sampled["processes"] if not holder.get("launch_id")]
    return tuple(dict.fromkeys(holder.get("user") or "somebody" for holder in holders))


def _use(*, online: bool, held: bool, others: bool, why: str) -> str:
    if held:
        return HELD
    if not online:
        return AWAY
    if others:
        return OTHERS
    return ASIDE if why else FREE
