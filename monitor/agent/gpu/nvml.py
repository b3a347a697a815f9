"""The source `nvml`: the GPUs as NVIDIA's library tells of them.

It owns which figures are asked for how often, and what an error says about a GPU. A figure that cannot be had is None,
whatever the reason; a GPU that is lost says so and stays in its place.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, Callable, Dict, List, Optional, Set, TypeVar

from ..machine import MIB
from ..site_packages import import_module
from . import nvml_library
from .faults import CRITICAL_XIDS, FELL_OFF, driver_failed, ecc, gpu_failed, tidy, xid
from .figures import Bus, Doing, Found, Reading, Source, amount, percent, whole
from .nvml_binding import Pynvml
from .nvml_library import GPU_IS_LOST, RESET_REQUIRED, UNKNOWN, Nvml, NvmlError

AGAIN_S = 1.5
"""Less than the time between two samples, so that each of them asks."""
RETRY_S = 10.0
SELDOM_S = 15.0
"""Figures that hardly change are asked for no oftener: every question costs the driver time."""
XID_TOLD_S = 60.0
"""So long an event counts as a fault. It is no state: who returns the GPU after that must not get it back at once."""
T = TypeVar("T")


def find(doing: Doing) -> Optional[Source]:
    """This source, or None where the node has no such library."""
    doing("NVML")
    library = nvml_library.load()
    if library is None:
        return None
    module = import_module("pynvml")
    if module is None:
        return NvmlSource(Nvml(library))
    binding = Pynvml(library, module)
    try:
        binding.init()
    except NvmlError as error:
        # It looks for the library in fewer places than we do, and a new one needs functions that an old one lacks.
        unusable = error.code in (nvml_library.LIBRARY_NOT_FOUND, nvml_library.FUNCTION_NOT_FOUND)
        return NvmlSource(Nvml(library) if unusable else binding)
    return NvmlSource(binding, ready=True)


class _Gpu:
    """One GPU: its handle, and what was asked of it before."""

    def __init__(self, handle: Any, bus: Bus, uuid: str, model: str) -> None:
        self.handle = handle
        self.bus = bus
        self.uuid = uuid
        self.model = model
        self.lost = False
        self.seldom_at = -SELDOM_S
        self.ecc_errors: Optional[int] = None
        self.mig = False
        self.xid: Optional[int] = None
        self.xid_at = -XID_TOLD_S


class NvmlSource(Source):
    """`api`: the library; `ready`: whether its `init` was called already. `clock`: monotonic seconds."""

    name = "nvml"

    def __init__(self, api: Nvml, clock: Callable[[], float] = time.monotonic, *, ready: bool = False) -> None:
        self._api = api
        self._clock = clock
        self._ready = ready
        self._count = 0
        self._gpus: Dict[int, _Gpu] = {}

    def read(self, doing: Doing) -> Reading:
        """As `Source`."""
        doing("NVML")
        try:
            if not self._ready:
                self._api.init()
                self._ready = True
            count = self._api.count()
        except NvmlError as error:
            self._give_up()
            return Reading([], driver_failed(error.code, tidy(str(error))), RETRY_S)
        if count != self._count:
            self._count = count
            self._gpus.clear()  # they are counted anew, and a handle may be another's
        found: List[Found] = []
        for index in range(count):
            found.append(self._look(index, found))
        return Reading(self._with_xids(found), "", AGAIN_S)

    def _give_up(self) -> None:
        """Begin anew next time: the driver may be another one then."""
        if self._ready:
            with suppress(NvmlError):
                self._api.shutdown()
        self._ready = False
        self._gpus.clear()

    def _look(self, index: int, before: List[Found]) -> Found:
        gpu = self._gpus.get(index)
        try:
            if gpu is None or gpu.lost:
                gpu = self._gpus[index] = self._open(index)
        except NvmlError as error:
            fault = gpu_failed(error.code, tidy(str(error)))
        except _LostError:
            fault = FELL_OFF
        else:
            return self._figures(gpu)
        if gpu is not None:
            return _without_figures(gpu, fault)
        # The library counts in the order of the bus, so the place of one that it cannot open is after the last.
        return Found((*(before[-1].bus if before else ()), 0), "", fault=fault)

    def _open(self, index: int) -> _Gpu:
        api = self._api
        handle = api.handle(index)
        bus = _told(lambda: api.bus(handle)) or (index,)
        uuid = _told(lambda: api.uuid(handle)) or f"unknown-{index}"
        gpu = _Gpu(handle, bus, tidy(uuid), tidy(_told(lambda: api.model(handle)) or ""))
        _told(lambda: api.watch(handle))
        return gpu

    def _figures(self, gpu: _Gpu) -> Found:
        api, handle = self._api, gpu.handle
        refused: Set[int] = set()
        try:
            self._ask_seldom(gpu)
            memory = _told(lambda: api.memory(handle), refused)
            blind = UNKNOWN in refused
            load = _told(lambda: api.utilization(handle), refused)
            temperature = _told(lambda: api.temperature(handle), refused)
            power = _told(lambda: api.power(handle), refused)
            holders = _told(lambda: api.processes(handle)) or []
        except _LostError:
            gpu.lost = True
            return _without_figures(gpu, FELL_OFF)
        return Found(
            bus=gpu.bus,
            uuid=gpu.uuid,
            model=gpu.model,
            utilization=percent(load[0]) if load else None,
            memory_utilization=percent(load[1]) if load else None,
            memory_total_mib=whole(memory[0] // MIB) if memory else None,
            memory_used_mib=whole(memory[1] // MIB) if memory else None,
            temperature=temperature,
            power=amount(power),
            ecc_errors=gpu.ecc_errors,
            xid=gpu.xid,
            mig=gpu.mig,
            holders=tuple(_merged(holders).items()),
            fault=_fault(refused, gpu.ecc_errors, blind=blind),
        )

    def _ask_seldom(self, gpu: _Gpu) -> None:
        now = self._clock()
        if now - gpu.seldom_at >= SELDOM_S:
            gpu.seldom_at = now
            gpu.ecc_errors = _told(lambda: self._api.ecc_errors(gpu.handle))
            gpu.mig = bool(_told(lambda: self._api.mig(gpu.handle)))

    def _with_xids(self, found: List[Found]) -> List[Found]:
        now = self._clock()
        by_identity = {self._api.identity(gpu.handle): gpu for gpu in self._gpus.values()}
        with suppress(NvmlError):
            while True:
                event = self._api.next_xid()
                if event is None:
                    break
                gpu = by_identity.get(event[0])
                if gpu is not None and event[1] in CRITICAL_XIDS:
                    gpu.xid, gpu.xid_at = event[1], now
        by_uuid = {gpu.uuid: gpu for gpu in self._gpus.values()}
        return [_with_xid(one, by_uuid.get(one.uuid), now) for one in found]


def _without_figures(gpu: _Gpu, fault: str) -> Found:
    return Found(gpu.bus, gpu.uuid, gpu.model, ecc_errors=gpu.ecc_errors, xid=gpu.xid, fault=fault)


def _with_xid(found: Found, gpu: Optional[_Gpu], now: float) -> Found:
    if gpu is None or gpu.xid is None:
        return found
    fresh = now - gpu.xid_at < XID_TOLD_S
    return found._replace(xid=gpu.xid, fault=found.fault or (xid(gpu.xid) if fresh else ""))


class _LostError(Exception):
    """The GPU fell off the bus."""


def _told(ask: Callable[[], T], refused: Optional[Set[int]] = None) -> Optional[T]:
    """Return the library's answer, or None where it has none; `refused` collects why. Raises _LostError."""
    try:
        return ask()
    except NvmlError as error:
        if error.code == GPU_IS_LOST:
            raise _LostError from None
        if refused is not None:
            refused.add(error.code)
        return None


def _fault(refused: Set[int], errors: Optional[int], *, blind: bool) -> str:
    """Return the fault of a GPU that answers. One that needs a reset goes on telling some figures, so each refusal
    counts; one whose memory cannot be told for no known reason (`blind`) computes no more, while a load that cannot be
    told so (WSL) means nothing."""
    if RESET_REQUIRED in refused:
        return gpu_failed(RESET_REQUIRED, "")
    if blind:
        return gpu_failed(UNKNOWN, "Unknown Error")
    return ecc(errors) if errors else ""


def _merged(holders: nvml_library.Processes) -> Dict[int, Optional[int]]:
    """By pid: a process in two instances of a divided GPU is told of twice."""
    found: Dict[int, Optional[int]] = {}
    for pid, memory in holders:
        before = found.get(pid)
        found[pid] = before if memory is None else memory + (before or 0)
    return found
