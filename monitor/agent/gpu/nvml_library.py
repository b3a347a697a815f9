"""NVIDIA's management library through ctypes: as much of its public interface (nvml.h) as samples need.

It owns symbols, structures and their versions. A function that the library does not have fails like one that the GPU
does not support: with an NvmlError, whose code is an nvmlReturn_t.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Any, List, Optional, Tuple

from ..machine import MIB
from .figures import Bus

SUCCESS = 0
NO_PERMISSION = 4
INSUFFICIENT_SIZE = 7
TIMEOUT = 10
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
UNKNOWN = 999
MIG_ENABLED = 1

_PLACES = (
    "libnvidia-ml.so.1",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
    "/run/opengl-driver/lib/libnvidia-ml.so.1",
)
_XID_EVENT = 8
_UNCORRECTED, _VOLATILE = 1, 0
_NOT_AVAILABLE = 2**64 - 1
_ROOM = 64
Processes = List[Tuple[int, Optional[int]]]


class NvmlError(Exception):
    """`code`: an nvmlReturn_t."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _MemoryV2(ctypes.Structure):
    """Its `used` leaves out what the driver reserves, as nvidia-smi does."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class _Pci(ctypes.Structure):
    """Both versions have these at these places; the rest of v3 is a longer text."""

    _fields_ = (
        ("bus_id_legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pci_device_id", ctypes.c_uint),
        ("pci_subsystem_id", ctypes.c_uint),
        ("rest", ctypes.c_char * 64),
    )


class _ProcessV1(ctypes.Structure):
    _fields_ = (("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong))


class _ProcessV2(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class _Event(ctypes.Structure):
    _fields_ = (
        ("device", ctypes.c_void_p),
        ("type", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


def load() -> Optional[ctypes.CDLL]:
    """The library, or None where the node has none."""
    for place in _PLACES:
        with suppress(OSError):
            return ctypes.CDLL(place)
    return None


class Nvml:
    """The library's functions; a handle is whatever `handle` gives. Each raises NvmlError."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._events: Optional[ctypes.c_void_p] = None

    def init(self) -> None:
        """Before all else; `shutdown` undoes it."""
        self._call(("nvmlInit_v2", "nvmlInit"))

    def shutdown(self) -> None:
        """Let the driver go."""
        self._events = None
        self._call(("nvmlShutdown",))

    def count(self) -> int:
        """How many GPUs the driver counts, those that are lost among them."""
        return self._number(("nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"), ctypes.c_uint())

    def handle(self, index: int) -> Any:
        """The GPU that the driver counts so."""
        found = ctypes.c_void_p()
        names = ("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex")
        self._call(names, ctypes.c_uint(index), ctypes.byref(found))
        return found

    def uuid(self, handle: Any) -> str:
        """`GPU-…`."""
        return self._text("nvmlDeviceGetUUID", handle)

    def model(self, handle: Any) -> str:
        """Return the name of the product."""
        return self._text("nvmlDeviceGetName", handle)

    def bus(self, handle: Any) -> Bus:
        """Where it is plugged in."""
        found = _Pci()
        names = ("nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo")
        self._call(names, handle, ctypes.byref(found))
        return found.domain, found.bus, found.device, 0

    def utilization(self, handle: Any) -> Tuple[int, int]:
        """Of the GPU and of its memory's bandwidth, in percent."""
        found = _Utilization()
        self._call(("nvmlDeviceGetUtilizationRates",), handle, ctypes.byref(found))
        return found.gpu, found.memory

    def memory(self, handle: Any) -> Tuple[int, int]:
        """Total and used, in bytes."""
        newer = _MemoryV2(version=ctypes.sizeof(_MemoryV2) | 2 << 24)
        try:
            self._call(("nvmlDeviceGetMemoryInfo_v2",), handle, ctypes.byref(newer))
        except NvmlError as error:
            if error.code == GPU_IS_LOST:
                raise
        else:
            return newer.total, newer.used
        found = _Memory()
        self._call(("nvmlDeviceGetMemoryInfo",), handle, ctypes.byref(found))
        return found.total, found.used

    def temperature(self, handle: Any) -> int:
        """In degrees Celsius."""
        return self._number(("nvmlDeviceGetTemperature",), ctypes.c_uint(), handle, ctypes.c_uint(0))

    def power(self, handle: Any) -> float:
        """In watts."""
        return self._number(("nvmlDeviceGetPowerUsage",), ctypes.c_uint(), handle) / 1000

    def ecc_errors(self, handle: Any) -> int:
        """Uncorrectable ones since the driver was loaded."""
        kinds = ctypes.c_uint(_UNCORRECTED), ctypes.c_uint(_VOLATILE)
        return self._number(("nvmlDeviceGetTotalEccErrors",), ctypes.c_ulonglong(), handle, *kinds)

    def mig(self, handle: Any) -> bool:
        """Whether it is divided into instances."""
        current, pending = ctypes.c_uint(), ctypes.c_uint()
        self._call(("nvmlDeviceGetMigMode",), handle, ctypes.byref(current), ctypes.byref(pending))
        return current.value == MIG_ENABLED

    def processes(self, handle: Any) -> Processes:
        """Pid and memory in MiB of each process that computes there; graphics alone is not computing."""
        try:
            return self._processes(handle)
        except NvmlError as error:
            parts = [] if error.code == GPU_IS_LOST else self._instances(handle)
            if not parts:
                raise
        return [process for part in parts for process in self._processes(part)]

    def watch(self, handle: Any) -> None:
        """Be told of the Xid events of this GPU from now on."""
        if self._events is None:
            events = ctypes.c_void_p()
            self._call(("nvmlEventSetCreate",), ctypes.byref(events))
            self._events = events
        self._call(("nvmlDeviceRegisterEvents",), handle, ctypes.c_ulonglong(_XID_EVENT), self._events)

    def next_xid(self) -> Optional[Tuple[int, int]]:
        """The next Xid event that has come, as the `identity` of its GPU and its number; None if there is none."""
        event = _Event()
        while self._events is not None:
            try:
                names = ("nvmlEventSetWait_v2", "nvmlEventSetWait")
                self._call(names, self._events, ctypes.byref(event), ctypes.c_uint(0))
            except NvmlError as error:
                if error.code == TIMEOUT:
                    return None
                raise
            if event.type == _XID_EVENT:
                return event.device or 0, event.data
        return None

    @staticmethod
    def identity(handle: Any) -> int:
        """Return a number that tells one GPU's handle from another's."""
        return ctypes.cast(handle, ctypes.c_void_p).value or 0

    def _processes(self, handle: Any) -> Processes:
        # _v3 and _v2 fill the same structure; NVIDIA's own Python binding had another one for _v3 for some releases.
        name = "nvmlDeviceGetComputeRunningProcesses"
        newer = [f"{name}{version}" for version in ("_v3", "_v2") if hasattr(self._library, f"{name}{version}")]
        kind = _ProcessV2 if newer else _ProcessV1
        name, room = [*newer, name][0], _ROOM
        while True:
            found, count = (kind * room)(), ctypes.c_uint(room)
            try:
                self._call((name,), handle, ctypes.byref(count), found)
            except NvmlError as error:
                if error.code != INSUFFICIENT_SIZE or room > _ROOM * _ROOM:
                    raise
                room = max(room, count.value) * 2
            else:
                known = found[: min(count.value, room)]
                return [(one.pid, None if one.used == _NOT_AVAILABLE else one.used // MIB) for one in known]

    def _instances(self, handle: Any) -> List[Any]:
        """The instances of a divided GPU: only privileged users may ask about the whole."""
        try:
            most = self._number(("nvmlDeviceGetMaxMigDeviceCount",), ctypes.c_uint(), handle)
        except NvmlError:
            return []
        found = []
        for index in range(min(most, _ROOM)):
            instance = ctypes.c_void_p()
            try:
                self._call(
                    ("nvmlDeviceGetMigDeviceHandleByIndex",), handle, ctypes.c_uint(index), ctypes.byref(instance)
                )
            except NvmlError:
                continue  # this place is not taken
            found.append(instance)
        return found

    def _text(self, name: str, handle: Any) -> str:
        buffer = ctypes.create_string_buffer(128)
        self._call((name,), handle, buffer, ctypes.c_uint(len(buffer)))
        return buffer.value.decode("utf-8", "replace")

    def _number(self, names: Tuple[str, ...], result: Any, *arguments: Any) -> int:
        self._call(names, *arguments, ctypes.byref(result))
        number: int = result.value
        return number

    def _call(self, names: Tuple[str, ...], *arguments: Any) -> None:
        """Call the first of these that there is."""
        for name in names:
            function = getattr(self._library, name, None)
            if function is None:
                continue
            code = int(function(*arguments))
            if code != SUCCESS:
                raise NvmlError(code, self._meaning(code))
            return
        raise NvmlError(FUNCTION_NOT_FOUND, f"the library has no {names[0]}")

    def _meaning(self, code: int) -> str:
        function = getattr(self._library, "nvmlErrorString", None)
        if function is None:
            return f"error {code}"
        function.restype = ctypes.c_char_p
        told = function(ctypes.c_int(code))
        return told.decode("utf-8", "replace") if told else f"error {code}"
