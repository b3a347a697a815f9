"""The source `nvidia-smi`: the GPUs as the program of that name prints them.

It owns running it, with a time-out of its own, and reading what it says. However broken that is, it makes a reading.
"""

from __future__ import annotations

import os
import re
import select
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .. import fork
from .faults import FELL_OFF, HUNG_S, MISMATCH, NO_DRIVER, ecc, gpu_failed, hung, tidy
from .figures import Bus, Doing, Found, Reading, Source, amount, percent, whole
from .nvml_library import RESET_REQUIRED, UNKNOWN

NAME = "nvidia-smi"
AGAIN_S = 5.0
LONGEST_S = 15.0
SHARE = 0.01
"""Of a core: where the program is slow, it is asked the less often, down to every LONGEST_S."""
MOST = 256 * 1024
KILL_S = 0.5
PLACES = ("/usr/bin", "/usr/local/bin", "/usr/lib/wsl/lib", "/usr/local/nvidia/bin", "/run/current-system/sw/bin")
UUID, BUS, MODEL = "uuid", "pci.bus_id", "name"
FIELDS = (
    UUID,
    BUS,
    "utilization.gpu",
    "utilization.memory",
    "memory.total",
    "memory.used",
    "temperature.gpu",
    "power.draw",
    "ecc.errors.uncorrected.volatile.total",
    "mig.mode.current",
    MODEL,  # the last: it may have commas
)
_FORMAT = "--format=csv,noheader,nounits"
_BUS = r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]"
_LOST = re.compile(rf"device handle for GPU.*?({_BUS})", re.IGNORECASE)
_NO_FIELD = re.compile(r'Field "([^"]*)" is not a valid field', re.IGNORECASE)
"""Versions differ in small and capital letters, here and in all that it says."""
Holders = Dict[str, List[Tuple[int, Optional[int]]]]


class Answer(NamedTuple):
    """The result of a run of it. `code` is None where it had to be killed, or could not be started (`text` says
    why)."""

    text: str
    code: Optional[int]
    hung: bool = False


class Parsed(NamedTuple):
    """Its findings about the GPUs, and about the driver as a whole."""

    found: List[Found]
    fault: str


def find(_doing: Doing) -> Optional[Source]:
    """This source, or None where there is no such program."""
    path = program()
    return None if path is None else SmiSource(path)


def program() -> Optional[str]:
    """Where it is: on the PATH, or where drivers put it."""
    import shutil  # noqa: PLC0415  (only the fork that reads GPUs needs it, and every shim would carry it)

    return shutil.which(NAME, path=os.pathsep.join((os.environ.get("PATH", ""), *PLACES)))


class SmiSource(Source):
    """`path`: of the program."""

    name = NAME

    def __init__(self, path: str) -> None:
        self._path = path
        self._fields: Tuple[str, ...] = FIELDS
        self._stuck: Any = None

    def read(self, doing: Doing) -> Reading:
        """As `Source`."""
        before = children_s()
        found, fault = self.gpus(doing)
        if found and not fault:
            holders, fault = self.holders(doing)
            found = [gpu._replace(holders=tuple(holders.get(gpu.uuid, ()))) for gpu in found]
        return Reading(found, fault, pause(before))

    def gpus(self, doing: Doing) -> Parsed:
        """The GPUs, without their processes. Fields that an old version does not know are left out from then on."""
        while True:
            answer = self._ask(doing, f"--query-gpu={','.join(self._fields)}")
            unknown = _NO_FIELD.search(answer.text)
            name = unknown.group(1) if unknown else ""
            if name not in self._fields or name == UUID:
                return Parsed([], hung(NAME)) if answer.hung else parse_gpus(answer.text, answer.code, self._fields)
            self._fields = tuple(field for field in self._fields if field != name)

    def holders(self, doing: Doing) -> Tuple[Holders, str]:
        """The processes that compute, by the UUID of their GPU; and what is wrong with the driver."""
        answer = self._ask(doing, "--query-compute-apps=gpu_uuid,pid,used_memory")
        return parse_holders(answer.text), hung(NAME) if answer.hung else ""

    def _ask(self, doing: Doing, query: str) -> Answer:
        doing(NAME)
        if self._stuck is not None and self._stuck.poll() is None:
            return Answer("", None, hung=True)  # the kernel has not let go of the last one: another would hang as well
        self._stuck = None
        return self._run([self._path, query, _FORMAT])

    def _run(self, argv: List[str]) -> Answer:
        import subprocess  # noqa: PLC0415  (as above)

        parent, end = os.getpid(), time.monotonic() + HUNG_S
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "LC_ALL": "C"},
                preexec_fn=lambda: fork.die_with_parent(parent),  # noqa: PLW1509  (no other thread holds a lock)
            )
        except OSError as error:
            return Answer(f"{argv[0]}: {error.strerror}", None)
        with process.stdout as output:  # type: ignore[union-attr]
            text, ended = _read(output.fileno(), end)
        if ended and _wait(process, end - time.monotonic()):
            return Answer(text, process.returncode)
        process.kill()
        if not _wait(process, KILL_S):
            self._stuck = process
        return Answer(text, None, hung=len(text) < MOST)


def parse_gpus(text: str, code: Optional[int], fields: Tuple[str, ...] = FIELDS) -> Parsed:
    """Parse the output of `--query-gpu`; `code`: its exit status. Lines that are no GPU tell at most what is wrong."""
    found: List[Found] = []
    rest: List[str] = []
    for line in text.splitlines():
        gpu = _row(line, fields, len(found))
        if gpu is None:
            rest.append(line)
        else:
            found.append(gpu)
    places = [bus(match.group(1)) for match in map(_LOST.search, rest) if match]
    found += [Found(place, "", fault=FELL_OFF) for place in places if place is not None]
    return Parsed(found, "" if found else _complaint("\n".join(rest), code))


def parse_holders(text: str) -> Holders:
    """Parse the output of `--query-compute-apps`."""
    found: Holders = {}
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) >= 3 and parts[1].isascii() and parts[1].isdigit():  # noqa: PLR2004  (uuid, pid, memory)
            pid = int(parts[1][:10])
            if 0 < pid < 2**31:
                found.setdefault(parts[0], []).append((pid, whole(_number(parts[2]))))
    return found


def bus(text: str) -> Optional[Bus]:
    """A place on the bus, as `00000000:3B:00.0`; None where it is none."""
    if not re.fullmatch(_BUS, text):
        return None
    numbers = [int(part, 16) for part in re.split("[:.]", text)]
    return tuple(numbers if len(numbers) == 4 else [0, *numbers])  # noqa: PLR2004  (domain, bus, device, function)


def _row(line: str, fields: Tuple[str, ...], order: int) -> Optional[Found]:
    parts = [part.strip() for part in line.split(",", len(fields) - 1)]
    if len(parts) != len(fields):
        return None
    told = dict(zip(fields, parts))
    uuid = tidy(told[UUID], 64) if told[UUID].startswith("GPU-") else ""
    place = bus(told.get(BUS, ""))
    if not uuid and place is None:
        return None
    errors = whole(_number(told.get("ecc.errors.uncorrected.volatile.total", "")))
    return Found(
        bus=(order,) if place is None else place,
        uuid=uuid,
        model="" if told.get(MODEL, "").startswith("[") else tidy(told.get(MODEL, "")),
        utilization=percent(_number(told.get("utilization.gpu", ""))),
        memory_utilization=percent(_number(told.get("utilization.memory", ""))),
        memory_total_mib=whole(_number(told.get("memory.total", ""))),
        memory_used_mib=whole(_number(told.get("memory.used", ""))),
        temperature=amount(_number(told.get("temperature.gpu", ""))),
        power=amount(_number(told.get("power.draw", ""))),
        ecc_errors=errors,
        mig=told.get("mig.mode.current", "").lower() == "enabled",
        fault=_row_fault(line, told, errors),
    )


def _row_fault(line: str, told: Dict[str, str], errors: Optional[int]) -> str:
    lower = line.lower()
    if "[gpu is lost]" in lower:
        return FELL_OFF
    if "[gpu requires reset]" in lower:
        return gpu_failed(RESET_REQUIRED, "")
    if told.get("memory.used", "").lower() == "[unknown error]":  # of a load (WSL) or the power it means nothing
        return gpu_failed(UNKNOWN, "Unknown Error")
    return ecc(errors) if errors else ""


def _complaint(text: str, code: Optional[int]) -> str:
    """Return the fault where not one GPU is told of; "" where there simply is none."""
    lower = text.lower()
    if "no devices were found" in lower:
        return ""
    if "version mismatch" in lower:
        return MISMATCH
    if "couldn't communicate with the nvidia driver" in lower:
        return NO_DRIVER
    said = tidy(text)
    if not said:
        status = "was killed" if code is None else f"ended with exit status {code}"
        return f"its GPU driver cannot be asked: {NAME} {status} and said nothing"
    return f"its GPU driver cannot be asked: {NAME} says “{said}”"


def _number(text: str) -> Optional[float]:
    """A number, or None for what stands where there is none (`[N/A]`, `[Not Supported]`, `[Unknown Error]` …)."""
    try:
        return float(text)
    except ValueError:
        return None


def _read(fd: int, end: float) -> Tuple[str, bool]:
    """Return the output, and whether it ended before `end` (monotonic seconds) and within MOST bytes."""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    data = bytearray()
    while len(data) < MOST:
        if not poller.poll(max(0.0, end - time.monotonic()) * 1000):
            return data.decode("utf-8", "replace"), False
        more = os.read(fd, 65536)
        if not more:
            return data.decode("utf-8", "replace"), True
        data += more
        if time.monotonic() > end:
            break
    return data.decode("utf-8", "replace"), False


def _wait(process: Any, patience_s: float) -> bool:
    """Whether it has ended by then."""
    end = time.monotonic() + patience_s
    while process.poll() is None:
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def children_s() -> float:
    """The time on a CPU that ended children took."""
    times = os.times()
    return times.children_user + times.children_system


def pause(before: float) -> float:
    """When to ask again: the later, the more was taken since `before` (of `children_s`)."""
    return min(max(AGAIN_S, (children_s() - before) / SHARE), LONGEST_S)
