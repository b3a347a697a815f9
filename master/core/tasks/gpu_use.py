"""The use of GPUs, as a caller sees it who asks for one task: what the task uses of them, and which tasks have
those for which it waits. Pure."""

from __future__ import annotations

import msgspec


class GpuUse(msgspec.Struct, frozen=True):
    """One GPU of a task. Memory in MiB, `utilization` in percent; null where nothing is known. `used_mib`: what the
    task's own processes use; `memory_used_mib` and `utilization`: of the GPU, which others may share."""

    node: str
    gpu: int
    used_mib: int | None
    memory_used_mib: int | None
    memory_mib: int | None
    utilization: float | None


class HeldBy(msgspec.Struct, frozen=True):
    """A task that has what another one waits for, whose it is and what it is called."""

    id: int
    owner: str
    name: str
