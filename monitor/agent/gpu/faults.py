"""The faults of a GPU or its driver, in words for people: one line each, with the cure where there is one.

It owns the list of events after which a GPU is not trusted. The master decides who receives these words, and what
follows.
"""

from __future__ import annotations

HUNG_S = 5.0
"""A driver that has not answered by then does not answer."""
FELL_OFF = "it fell off the bus: reboot the machine"
NO_DRIVER = "its GPU driver is not loaded: install the one that fits its kernel, or reboot"
MISMATCH = "its GPU driver and the driver's libraries differ in version: reboot it after the update"

CRITICAL_XIDS = {
    46: "GPU stopped processing",
    48: "double-bit ECC error",
    62: "internal micro-controller halt",
    63: "memory to be remapped by a reset",
    64: "memory remapping failed",
    74: "NVLink error",
    79: "fell off the bus",
    94: "contained memory error",
    95: "uncontained memory error",
    110: "security fault",
    119: "GSP RPC timeout",
    120: "GSP error",
    136: "link training failed",
    140: "unrecovered ECC error",
    143: "initialization error",
    156: "resource retirement",
    158: "fatal timeout",
}
"""Of NVIDIA's Xid catalog (docs.nvidia.com/deploy/xid-errors, analyzing-xid-catalog) those whose immediate action is to
reset the GPU or restart the machine, and 63 and 94, after which the catalog advises a reset that is not urgent. Left
out: what applications cause (13, 31, 43, 45, 69 and, although its action is a reset, 109: an endless kernel does it);
155, which announces links that go down on purpose."""

_NVML_DRIVER = {
    4: "this account may not use its GPU driver: look at the rights of /dev/nvidia*",
    9: NO_DRIVER,
    18: MISMATCH,
}
_NVML_GPU = {
    4: "this account may not use it: look at the rights of /dev/nvidia*",
    8: "its power cables are not connected",
    11: "its interrupts do not arrive",
    15: FELL_OFF,
    16: "it needs a reset: stop the node's agent and run nvidia-smi --gpu-reset",
}


def hung(who: str) -> str:
    """`who` (nvidia-smi, NVML …) gave no answer."""
    return f"its GPU driver does not answer ({who} hung for {HUNG_S:.0f} s)"


def driver_failed(code: int, text: str) -> str:
    """NVML as a whole fails with this nvmlReturn_t."""
    return _NVML_DRIVER.get(code) or f"its GPU driver fails: {text} (NVML error {code})"


def gpu_failed(code: int, text: str) -> str:
    """One GPU fails with this nvmlReturn_t."""
    return _NVML_GPU.get(code) or f"its driver cannot use it: {text} (NVML error {code})"


def ecc(count: int) -> str:
    """Uncorrectable errors, since the driver was loaded."""
    errors = "1 uncorrectable ECC error" if count == 1 else f"{count} uncorrectable ECC errors"
    return f"{errors} since its driver was loaded: it needs a reset"


def xid(number: int) -> str:
    """A critical event."""
    return f"Xid {number} ({CRITICAL_XIDS[number]}): it needs a reset, or its machine a reboot"


def tidy(text: str, limit: int = 120) -> str:
    """Text of another program, as part of a line: printable, and not too long."""
    words = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return words if len(words) <= limit else words[: limit - 1] + "…"
