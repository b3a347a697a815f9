"""Which GPUs there are and how they do: the first source that the node has, and what its readings make.

It owns the order of the sources: NVML, GPUtil, nvidia-smi. How each is asked is its own module's, the numbering of GPUs
is `slots`', whose the processes are is `holders`'.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

from . import gputil, nvidia_smi, nvml
from .figures import Doing, Found, Source
from .holders import Holders
from .slots import Slots

_AGAIN_S = 20.0
_MISSING = {
    "nvml": "its registry entry asks for NVML (gpu_probe), and libnvidia-ml.so.1 is not there",
    "gputil": "its registry entry asks for GPUtil (gpu_probe), and GPUtil or nvidia-smi is not there",
}


class Sources:
    """The sources of a node. `wanted` and `attempts` as of `GpuReader`; `known` as of `Slots`."""

    def __init__(self, wanted: str, attempts: str, known: List[List[Any]]) -> None:
        self._wanted = wanted
        self._source: Optional[Source] = None
        self._slots = Slots(known)
        self._holders = Holders(attempts)

    def read(self, doing: Doing) -> Dict[str, Any]:
        """The GPUs' keys of a sample, `again_s`, and the `known` for who reads after this one."""
        if self._source is None:
            self._source = _choose(self._wanted, doing)
        if self._source is None:
            missing = _MISSING.get(self._wanted, "")
            none = {"gpus": [], "gpu_source": "none", "gpu_fault": missing}
            return {**none, "again_s": _AGAIN_S, "known": self._slots.known()}
        reading = self._source.read(doing)
        gpus = [] if reading.fault else self._slots.arrange(reading.found)
        told = [self._entry(index, gpu) for index, gpu in enumerate(gpus)]
        self._holders.forget_others()
        source = {"gpu_source": self._source.name, "gpu_fault": reading.fault}
        return {"gpus": told, **source, "again_s": reading.again_s, "known": self._slots.known()}

    def _entry(self, index: int, gpu: Found) -> Dict[str, Any]:
        """As `wire.agent.Gpu`."""
        figures = gpu._asdict()
        del figures["bus"], figures["holders"]
        processes = [self._holders.process(pid, memory) for pid, memory in gpu.holders]
        return {"index": index, **figures, "processes": [process for process in processes if process is not None]}


def _choose(wanted: str, doing: Doing) -> Optional[Source]:
    openers: List[Tuple[str, Callable[[Doing], Optional[Source]]]] = [
        ("nvml", nvml.find),
        ("gputil", gputil.find),
        ("nvidia-smi", nvidia_smi.find),
    ]
    for name, find in openers:
        source = find(doing) if wanted in ("auto", name) else None
        if source is not None:
            return source
    return None
