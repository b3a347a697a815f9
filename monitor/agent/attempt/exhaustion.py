"""The resource that ran out when a command ended badly, by what its log says last and by what the kernel counted:
memory of a GPU or of the machine, shared memory, a disk.

It owns the signs. A task writes its log, so what is found is a word about its end and nothing more. Only what a program
says of its own death counts: lines of code in a traceback, and what it survived and went on after, do not.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple, Optional, Tuple

from .log_tail import Tail

OOM_GPU, OOM_GPU_MAYBE, OOM_HOST = "oom_gpu", "oom_gpu_maybe", "oom_host"
SHM_FULL, DISK_FULL = "shm_full", "disk_full"
_SEMAPHORE = (b"SemLock", b"SimpleQueue", b"synchronize.py")
"""Of these the traceback is of multiprocessing's own locks, which lie in shared memory."""
_TRACEBACK_BYTES = 2000


class Sign(NamedTuple):
    """A line that has all of `has`, the first of which is looked for, and none of `lacks`."""

    found: str
    has: Tuple[bytes, ...]
    lacks: Tuple[bytes, ...] = ()


class Found(NamedTuple):
    """The resource that ran out, and the line that says so."""

    what: str
    line: bytes


SIGNS = (
    # torch (CUDA, ROCm), what calls the driver itself, Paddle, CuPy, llama.cpp, vLLM.
    Sign(OOM_GPU, (b"CUDA out of memory. Tried to allocate",)),
    Sign(OOM_GPU, (b"HIP out of memory. Tried to allocate",)),
    Sign(OOM_GPU, (b"CUDA error: out of memory",)),
    Sign(OOM_GPU, (b"HIP error: out of memory",)),
    Sign(OOM_GPU, (b"CUDA driver error: out of memory",)),
    Sign(OOM_GPU, (b"cudaErrorMemoryAllocation",)),
    Sign(OOM_GPU, (b"CUDA_ERROR_OUT_OF_MEMORY",), (b"failed to alloc",)),
    Sign(OOM_GPU, (b"cudaMalloc", b"out of memory")),
    Sign(OOM_GPU, (b"Out of memory error on GPU",)),
    Sign(OOM_GPU, (b"cupy.cuda.memory.OutOfMemoryError",)),
    Sign(OOM_GPU, (b"No available memory for the cache blocks",)),
    Sign(OOM_GPU, (b"is less than desired GPU memory utilization",)),
    # TensorFlow and JAX.
    Sign(OOM_HOST, (b"OOM when allocating tensor", b"device:CPU")),
    Sign(OOM_GPU, (b"OOM when allocating tensor", b"xhausted"), (b"device:CPU",)),
    Sign(OOM_GPU, (b"ResourceExhaustedError", b"failed to allocate memory")),
    Sign(OOM_GPU, (b"RESOURCE_EXHAUSTED", b"ut of memory")),
    Sign(OOM_GPU, (b"Resource exhausted: Out of memory",)),
    # Errors that nearly full memory brings about, and other causes do, too.
    Sign(OOM_GPU_MAYBE, (b"CUBLAS_STATUS_ALLOC_FAILED",)),
    Sign(OOM_GPU_MAYBE, (b"CUBLAS_STATUS_NOT_INITIALIZED",)),
    Sign(OOM_GPU_MAYBE, (b"CUDNN_STATUS_ALLOC_FAILED",)),
    Sign(OOM_GPU_MAYBE, (b"CUDNN_STATUS_NOT_INITIALIZED",)),
    Sign(OOM_GPU_MAYBE, (b"CUDNN_STATUS_INTERNAL_ERROR",)),
    Sign(OOM_GPU_MAYBE, (b"nable to find a valid cuDNN algorithm",)),
    Sign(OOM_GPU_MAYBE, (b"nable to find an engine to execute this computation",)),
    Sign(OOM_GPU_MAYBE, (b"CUDA_ERROR_OUT_OF_MEMORY", b"failed to alloc")),
    # Shared memory: torch's workers, multiprocessing, NCCL.
    Sign(SHM_FULL, (b"DataLoader worker (pid", b"Bus error")),
    Sign(SHM_FULL, (b"insufficient shared memory (shm)",)),
    Sign(SHM_FULL, (b"unable to open shared memory object",), (b"Too many open files",)),
    Sign(SHM_FULL, (b"unable to write to file </torch_",)),
    Sign(SHM_FULL, (b"unable to mmap", b"</torch_")),
    Sign(SHM_FULL, (b"No space left on device", b"/dev/shm")),
    Sign(SHM_FULL, (b"/dev/shm/nccl-", b"rror")),
    # The machine's memory.
    Sign(OOM_HOST, (b"DataLoader worker (pid", b"killed by signal: Killed")),
    Sign(OOM_HOST, (b"DefaultCPUAllocator: ", b"ou tried to allocate")),
    Sign(OOM_HOST, (b"MemoryError: Unable to allocate",)),
    Sign(OOM_HOST, (b"instance of 'std::bad_alloc'",)),
    Sign(OOM_HOST, (b"what():  std::bad_alloc",)),
    Sign(OOM_HOST, (b"[Errno 12] Cannot allocate memory",)),
    Sign(OOM_HOST, (b"fork: Cannot allocate memory",)),
    Sign(OOM_HOST, (b"java.lang.OutOfMemoryError",)),
    Sign(OOM_HOST, (b"JavaScript heap out of memory",)),
    Sign(OOM_HOST, (b"fatal error: runtime: out of memory",)),
    Sign(OOM_HOST, (b"cannot allocate vector of size",)),
    Sign(OOM_HOST, (b"memory allocation of ", b" bytes failed")),
    # Disks.
    Sign(DISK_FULL, (b"No space left on device",), (b"/dev/shm", b"</torch_", b"will operate in serial mode")),
    Sign(DISK_FULL, (b"Disk quota exceeded",)),
    Sign(DISK_FULL, (b"PytorchStreamWriter failed writing file",)),
)  # fmt: skip
_ALONE = re.compile(rb"(?m)^(?:\[rank\d+\]: ?|\S+ *\| )?(?:numpy\.core\._exceptions\.)?MemoryError(?::.*)?\r?$")
"""Python says no more of it."""


def look(tail: Tail) -> Optional[Found]:
    """Return what the end of a log says of a resource that ran out. A certain sign counts before a possible one, and
    the last of either."""
    certain: Optional[Tuple[int, Found]] = None
    perhaps: Optional[Tuple[int, Found]] = None
    for sign in SIGNS:
        at = _last(tail, sign)
        if at < 0:
            continue
        hit = (at, Found(sign.found, tail.line_at(at)))
        if sign.found == OOM_GPU_MAYBE:
            perhaps = max(hit, perhaps or hit)
        else:
            certain = max(hit, certain or hit)
    for match in _ALONE.finditer(tail.text):
        hit = (match.start(), Found(OOM_HOST, match.group().strip()))
        certain = max(hit, certain or hit)
    for hits in (certain, perhaps):
        if hits is not None and not tail.goes_on_after(hits[0]):
            return _told_closer(tail, *hits)
    return None


def _told_closer(tail: Tail, at: int, found: Found) -> Found:
    """The same error is told for disks and for what only looks like one."""
    if found.what == DISK_FULL and any(word in tail.text[max(0, at - _TRACEBACK_BYTES) : at] for word in _SEMAPHORE):
        return Found(SHM_FULL, found.line)
    return found


def _last(tail: Tail, sign: Sign) -> int:
    """Where the last such line has what is looked for; -1 where none has."""
    end = len(tail.text)
    while True:
        at = tail.text.rfind(sign.has[0], 0, end)
        if at < 0:
            return -1
        line = tail.line_at(at)
        says_so = all(word in line for word in sign.has) and not any(word in line for word in sign.lacks)
        if says_so and not tail.is_code(line):
            return at
        end = tail.text.rfind(b"\n", 0, at) + 1


class KernelKills:
    """How often the kernel ended processes for want of memory, in our control group or, where that is not told, on the
    machine; since this was made."""

    def __init__(self) -> None:
        self._own = _own_count()
        self._machine = None if self._own is not None else _count_in(_MACHINE)

    def any(self) -> bool:
        """Did it?"""
        is_told = self._own is not None
        before, now = (self._own, _own_count()) if is_told else (self._machine, _count_in(_MACHINE))
        return before is not None and now is not None and now > before


_MACHINE = "/proc/vmstat"
_MOST = 65536
"""Bytes; what is read here has some thousands."""


def _own_count() -> Optional[int]:
    try:
        groups = [line.split(":", 2) for line in os.fsdecode(_read("/proc/self/cgroup")).splitlines()]
    except OSError:
        return None
    for number, kinds, path in (group for group in groups if len(group) == 3):  # noqa: PLR2004  (as the kernel has it)
        if "memory" in kinds.split(","):
            return _count_in(f"/sys/fs/cgroup/memory{path}/memory.oom_control")
        if number == "0" and len(groups) == 1:
            return _count_in(f"/sys/fs/cgroup{path}/memory.events")
    return None


def _count_in(path: str) -> Optional[int]:
    try:
        _, is_there, rest = (b"\n" + _read(path)).partition(b"\noom_kill ")
    except OSError:
        return None
    number = rest.partition(b"\n")[0]
    return int(number) if is_there and number.isdigit() else None


def _read(path: str) -> bytes:
    """All of a file of the kernel's, without what a file object asks before: this is on the way of each task."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = [os.read(fd, _MOST)]
        while parts[-1]:
            parts.append(os.read(fd, _MOST))
    finally:
        os.close(fd)
    return b"".join(parts)
