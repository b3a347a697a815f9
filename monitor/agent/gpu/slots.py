"""The numbering of GPUs, and the memory of those that were there: one that falls off the bus keeps its number.

Pure: readings come in, the GPUs in their order go out.
"""

from __future__ import annotations

from typing import Any, List

from .faults import FELL_OFF
from .figures import Bus, Found


class Slots:
    """The GPUs that were seen, in the order of the PCI bus, which is that of CUDA_DEVICE_ORDER=PCI_BUS_ID. `known`:
    what `known` of another one told."""

    def __init__(self, known: List[List[Any]]) -> None:
        self._known = {uuid: Found(tuple(bus), uuid, model, memory_total_mib=mib) for bus, uuid, model, mib in known}

    def known(self) -> List[List[Any]]:
        """Those that were seen, as plain lists."""
        return [[list(gpu.bus), gpu.uuid, gpu.model, gpu.memory_total_mib] for gpu in self._known.values()]

    def arrange(self, found: List[Found]) -> List[Found]:
        """Those found and those that are missing by now, in their order."""
        there = {gpu.uuid for gpu in found} | {gpu.uuid for gpu in self._known.values() if _at(gpu.bus, found)}
        missing = [
            Found(gpu.bus, gpu.uuid, gpu.model, memory_total_mib=gpu.memory_total_mib, fault=FELL_OFF)
            for gpu in self._known.values()
            if gpu.uuid not in there
        ]
        self._known.update({gpu.uuid: gpu for gpu in found if gpu.uuid})
        named = [self._with_name(gpu) for gpu in found]
        return sorted(named + missing, key=lambda gpu: gpu.bus)

    def _with_name(self, gpu: Found) -> Found:
        """One of which only the place is told is called what it was called when it was there."""
        if gpu.uuid:
            return gpu
        known = next((known for known in self._known.values() if known.bus == gpu.bus), None)
        if known is None:
            return gpu
        return gpu._replace(uuid=known.uuid, model=known.model, memory_total_mib=known.memory_total_mib)


def _at(bus: Bus, found: List[Found]) -> bool:
    return any(gpu.bus == bus for gpu in found)
