"""NVIDIA's own Python binding (nvidia-ml-py, imported as pynvml), where the node has it, as `nvml_library` would be it.

It owns the translation of its errors and results. Processes and events stay with `nvml_library`: the structure in which
the binding expects processes changed between its releases, and with the wrong one every pid is nonsense.
"""

from __future__ import annotations

import ctypes
from typing import Any, Tuple

from .figures import Bus
from .nvml_library import FUNCTION_NOT_FOUND, GPU_IS_LOST, MIG_ENABLED, UNKNOWN, Nvml, NvmlError


class Pynvml(Nvml):
    """`module`: pynvml."""

    def __init__(self, library: ctypes.CDLL, module: Any) -> None:
        super().__init__(library)
        self._module = module

    def init(self) -> None:
        """As `Nvml`."""
        self._ask("nvmlInit")

    def shutdown(self) -> None:
        """As `Nvml`."""
        self._events = None
        self._ask("nvmlShutdown")

    def count(self) -> int:
        """As `Nvml`."""
        return int(self._ask("nvmlDeviceGetCount"))

    def handle(self, index: int) -> Any:
        """As `Nvml`."""
        return self._ask("nvmlDeviceGetHandleByIndex", index)

    def uuid(self, handle: Any) -> str:
        """As `Nvml`."""
        return _text(self._ask("nvmlDeviceGetUUID", handle))

    def model(self, handle: Any) -> str:
        """As `Nvml`."""
        return _text(self._ask("nvmlDeviceGetName", handle))

    def bus(self, handle: Any) -> Bus:
        """As `Nvml`."""
        found = self._ask("nvmlDeviceGetPciInfo", handle)
        return int(found.domain), int(found.bus), int(found.device), 0

    def utilization(self, handle: Any) -> Tuple[int, int]:
        """As `Nvml`."""
        found = self._ask("nvmlDeviceGetUtilizationRates", handle)
        return int(found.gpu), int(found.memory)

    def memory(self, handle: Any) -> Tuple[int, int]:
        """As `Nvml`."""
        version = getattr(self._module, "nvmlMemory_v2", None)
        try:
            found = self._ask("nvmlDeviceGetMemoryInfo", handle, *([] if version is None else [version]))
        except NvmlError as error:
            if error.code == GPU_IS_LOST or version is None:
                raise
            found = self._ask("nvmlDeviceGetMemoryInfo", handle)
        return int(found.total), int(found.used)

    def temperature(self, handle: Any) -> int:
        """As `Nvml`."""
        return int(self._ask("nvmlDeviceGetTemperature", handle, 0))

    def power(self, handle: Any) -> float:
        """As `Nvml`."""
        return int(self._ask("nvmlDeviceGetPowerUsage", handle)) / 1000

    def ecc_errors(self, handle: Any) -> int:
        """As `Nvml`."""
        return int(self._ask("nvmlDeviceGetTotalEccErrors", handle, 1, 0))

    def mig(self, handle: Any) -> bool:
        """As `Nvml`."""
        return int(self._ask("nvmlDeviceGetMigMode", handle)[0]) == MIG_ENABLED

    def _ask(self, name: str, *arguments: Any) -> Any:
        function = getattr(self._module, name, None)
        if function is None:
            raise NvmlError(FUNCTION_NOT_FOUND, f"this pynvml has no {name}")
        try:
            return function(*arguments)
        except Exception as error:  # noqa: BLE001  (its errors changed their classes over the years)
            code = getattr(error, "value", UNKNOWN)
            raise NvmlError(code if isinstance(code, int) else UNKNOWN, str(error)) from None


def _text(told: Any) -> str:
    return told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)
