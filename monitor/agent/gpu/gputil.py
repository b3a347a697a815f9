"""The source `gputil`: the GPUs as the package GPUtil tells of them, where the node's Python has it.

It owns what GPUtil leaves out: places on the bus, processes and the words for what is wrong come from `nvidia_smi`,
since GPUtil itself runs nvidia-smi, fails on what it does not expect, and waits for it without end (its fork is
watched).
"""

from __future__ import annotations

import functools
import os
import sys
from typing import Any, Dict, List, Optional

from .. import fork
from ..site_packages import import_module
from .faults import tidy
from .figures import Bus, Doing, Found, Reading, Source, amount, percent, whole
from .nvidia_smi import SmiSource, children_s, pause, program


def find(doing: Doing) -> Optional[Source]:
    """This source, or None where the node has no GPUtil or no nvidia-smi."""
    path = program()
    if path is None:
        return None
    doing("GPUtil")
    module = import_module("GPUtil")
    if not hasattr(module, "getGPUs"):
        return None
    _bind_programs(sys.modules[module.getGPUs.__module__])
    return GputilSource(module, SmiSource(path))


class GputilSource(Source):
    """`module`: GPUtil."""

    name = "gputil"

    def __init__(self, module: Any, smi: SmiSource) -> None:
        self._module = module
        self._smi = smi
        self._places: Dict[str, Bus] = {}

    def read(self, doing: Doing) -> Reading:
        """As `Source`."""
        before = children_s()
        doing("GPUtil")
        try:
            found = [_found(gpu) for gpu in self._module.getGPUs()]
        except Exception:  # noqa: BLE001  (an error text of nvidia-smi makes it fail in several ways)
            found = []
        if not found:
            return self._smi.read(doing)
        faults = self._look_closer(found, doing)
        holders, fault = self._smi.holders(doing)
        whole_story = [
            gpu._replace(
                bus=self._places.get(gpu.uuid, gpu.bus),
                fault=faults.get(gpu.uuid, ""),
                holders=tuple(holders.get(gpu.uuid, ())),
            )
            for gpu in found
        ]
        return Reading(whole_story, fault, pause(before))

    def _look_closer(self, found: List[Found], doing: Doing) -> Dict[str, str]:
        """Return the faults of GPUs of which GPUtil could not read a figure, by UUID; and note where the new ones
        are."""
        unread = any(None in (gpu.utilization, gpu.memory_used_mib, gpu.temperature) for gpu in found)
        if not unread and all(gpu.uuid in self._places for gpu in found):
            return {}
        seen = self._smi.gpus(doing).found
        self._places = {gpu.uuid: gpu.bus for gpu in seen}
        return {gpu.uuid: gpu.fault for gpu in seen}


def _bind_programs(module: Any) -> None:
    """Have what GPUtil starts die with us: it waits without end, and a killed agent must leave nothing behind."""
    parent = os.getpid()
    if hasattr(module, "Popen"):
        module.Popen = functools.partial(module.Popen, preexec_fn=lambda: fork.die_with_parent(parent))


def _found(gpu: Any) -> Found:
    """One of GPUtil's; its load is a fraction."""
    return Found(
        bus=(int(gpu.id),),
        uuid=tidy(str(gpu.uuid), 64),
        model=tidy(str(gpu.name)),
        utilization=percent(round(gpu.load * 100, 1)),
        memory_total_mib=whole(gpu.memoryTotal),
        memory_used_mib=whole(gpu.memoryUsed),
        temperature=amount(gpu.temperature),
    )
