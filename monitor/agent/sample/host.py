"""The figures of the machine itself: CPUs, memory and network, from psutil where the node has it, else from /proc.

It owns reading and what two readings make together. It knows nothing of GPUs, of disks and of when to look.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ..machine import MIB
from ..site_packages import import_module

MEGABIT = 1e6
LOOK_AT_SPEED_S = 30.0
"""The bandwidth of an interface is asked for no oftener: some network drivers take their time."""
LOOPBACK = "lo"
Times = List[Tuple[int, int]]
Traffic = Dict[str, Tuple[int, int]]
_NAMES = ("total", "available", "percent", "used", "free", "active", "inactive", "buffers", "cached", "shared", "slab")


class Moment(NamedTuple):
    """One reading. `at`: monotonic seconds; `times` as `read_times`, `traffic` as `read_traffic`."""

    at: float
    times: Times
    traffic: Traffic


class Host:
    """The machine, as far as it is not GPUs. It looks for psutil once."""

    def __init__(self) -> None:
        psutil = import_module("psutil")
        self.memory = _memory_reader(psutil)
        self.traffic = _traffic_reader(psutil)
        self._speeds: Dict[str, Optional[float]] = {}
        self._speeds_at: Optional[float] = None

    def look(self, now: float) -> Moment:
        """A reading; `now`: monotonic seconds."""
        return Moment(now, read_times(), self.traffic())

    def figures(self, before: Moment, after: Moment) -> Dict[str, Any]:
        """The keys of a sample that are the machine's, of the time between two readings."""
        shares = percents(before.times, after.times)
        memory = {**self.memory(), **read_swap()}
        return {
            "cpu_percent": shares[0] if shares else 0.0,
            "cpu_percents": shares[1:],
            "load": [round(value, 2) for value in os.getloadavg()],
            "memory_total_mib": int(memory["total"]) // MIB,
            "memory_available_mib": int(memory["available"]) // MIB,
            "memory": memory,
            "network": self._network(before, after),
        }

    def _network(self, before: Moment, after: Moment) -> List[Dict[str, Any]]:
        """Interfaces that were there both times. A counter that went back was reset: nothing is known of it."""
        seconds = after.at - before.at
        if self._speeds_at is None or after.at - self._speeds_at >= LOOK_AT_SPEED_S:
            self._speeds_at = after.at
            self._speeds = {name: bandwidth(name) for name in after.traffic}
        found = []
        for name, (received, sent) in sorted(after.traffic.items()):
            earlier = before.traffic.get(name)
            if name == LOOPBACK or earlier is None or seconds <= 0:
                continue
            rates = [max(0, now - then) / seconds for now, then in zip((received, sent), earlier)]
            found.append(
                {
                    "name": name,
                    "received_ps": round(rates[0], 1),
                    "sent_ps": round(rates[1], 1),
                    "bandwidth": self._speeds.get(name),
                }
            )
        return found


def read_times() -> Times:
    """(busy, total) ticks: the whole machine first, then each CPU."""
    times: Times = []
    with open("/proc/stat", encoding="ascii") as file:
        for line in file:
            if not line.startswith("cpu"):
                break
            ticks = [int(field) for field in line.split()[1:9]]
            times.append((sum(ticks) - ticks[3] - ticks[4], sum(ticks)))
    return times


def percents(before: Times, after: Times) -> List[float]:
    """How busy each line of `read_times` was between two readings, 0 to 100."""
    spans = [(b1 - b0, t1 - t0) for (b0, t0), (b1, t1) in zip(before, after)]
    return [min(100.0, max(0.0, round(100.0 * busy / total, 1))) if total > 0 else 0.0 for busy, total in spans]


def read_swap() -> Dict[str, float]:
    """Swap in bytes."""
    found = _meminfo()
    total = found.get("SwapTotal", 0)
    return {"swap_total": total, "swap_used": total - found.get("SwapFree", 0)}


def _meminfo() -> Dict[str, int]:
    found: Dict[str, int] = {}
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            key, _, rest = line.partition(":")
            found[key] = int(rest.split()[0]) * 1024
    return found


def read_memory() -> Dict[str, float]:
    """Memory in bytes, with the names of psutil and its formulas (those of `free`), from /proc/meminfo."""
    found = _meminfo()
    total, free = found["MemTotal"], found["MemFree"]
    cached = found.get("Cached", 0) + found.get("SReclaimable", 0)
    available = min(found.get("MemAvailable", free + found.get("Buffers", 0) + cached), total)
    return {
        "total": total,
        "available": available,
        "percent": round(100.0 * (total - available) / total, 1),
        "used": total - available,
        "free": free,
        "active": found.get("Active", 0),
        "inactive": found.get("Inactive", 0),
        "buffers": found.get("Buffers", 0),
        "cached": cached,
        "shared": found.get("Shmem", 0),
        "slab": found.get("Slab", 0),
    }


def read_traffic() -> Traffic:
    """The bytes that each interface has received and sent so far, from /proc/net/dev."""
    found: Traffic = {}
    with open("/proc/net/dev", encoding="ascii", errors="replace") as file:
        for line in file.readlines()[2:]:
            name, _, rest = line.rpartition(":")
            counts = rest.split()
            found[name.strip()] = int(counts[0]), int(counts[8])
    return found


def bandwidth(interface: str) -> Optional[float]:
    """Bits per second, or None where the driver does not say (virtual interfaces, a cable that is not plugged in)."""
    try:
        with open(f"/sys/class/net/{interface}/speed", encoding="ascii") as file:
            speed = int(file.read())
    except (OSError, ValueError):
        return None
    return speed * MEGABIT if speed > 0 else None


def _memory_reader(psutil: Any) -> Callable[[], Dict[str, float]]:
    def through_psutil() -> Dict[str, float]:
        told = psutil.virtual_memory()
        return {name: getattr(told, name) for name in _NAMES if hasattr(told, name)}

    return through_psutil if _works(through_psutil) else read_memory


def _traffic_reader(psutil: Any) -> Callable[[], Traffic]:
    def through_psutil() -> Traffic:
        told = psutil.net_io_counters(pernic=True, nowrap=False)
        return {name: (count.bytes_recv, count.bytes_sent) for name, count in told.items()}

    return through_psutil if _works(through_psutil) else read_traffic


def _works(reader: Callable[[], Any]) -> bool:
    """Whether psutil is there and can read this machine; some containers have a /proc that it does not like."""
    try:
        return bool(reader())
    except Exception:  # noqa: BLE001  (whatever it is: /proc is read without it)
        return False
