"""Samples, nodes and tasks as points of InfluxDB: what is measured, under which names, tags and units.

Pure. The measurements `cpu ram gpu net` keep the names, tags and types that the dashboards of the old system query
(its values came from psutil and GPUtil); `load disk node task task_gpu writer` are ours. `docs/monitoring.md` lists
them all. This module knows neither InfluxDB's address nor when something is written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

Field = int | float
SECOND = 1_000_000_000
"""Times of points are nanoseconds since the epoch."""
ENDED = frozenset({"succeeded", "failed", "cancelled", "timed_out", "lost"})
ALIVE = frozenset({"starting", "running", "paused"})
NOBODY = "-"
"""The user of a task that has no owner: a tag must not be empty."""

_GAUGES = ("waiting", "held", "running", "idle", "gpus", "gpus_wanted")
_TOLD_EDGES = (0.02, 0.1, 0.5)
"""Seconds: how many turns took longer is told of these."""
_LOADS = ("load1", "load5", "load15")
_CONDITIONS = {"gpus_ill": "broken", "gpus_busy": "busy", "gpus_clearing": "clearing", "gpus_aside": "aside"}
_MIB = 1 << 20
_MEGABIT = 1_000_000
_BITS = 8
_PASSING = ("veth",)
"""Interfaces of containers begin so: each start makes a name that never comes back, and a tag keeps all its values."""
_SPECIAL = re.compile(r"([,= ])")
_SWALLOWS_WHAT_FOLLOWS = re.compile(r"\\(?=[,= ]|$)")
_BLANKS = re.compile(r"\s")


class Point(NamedTuple):
    """One point. `at`: nanoseconds since the epoch. A field that is None is not known and is left out."""

    measurement: str
    tags: Mapping[str, str]
    fields: Mapping[str, Field | None]
    at: int


class Holder(NamedTuple):
    """A task that holds a GPU."""

    task: int
    user: str
    launch_id: str


HoldersOf = Callable[[str, int], Iterable[Holder]]
"""The tasks that hold a GPU, by the name of its node and its index."""


def to_text(points: Iterable[Point]) -> tuple[str, int]:
    """The points in InfluxDB's line protocol, and how many there are; those without a known field are left out."""
    lines = [line for line in map(_line, points) if line]
    return "".join(lines), len(lines)


def nanoseconds(at: float) -> int:
    """A time in seconds as a point's time, to the millisecond: a float knows no more."""
    return round(at * 1000) * 1_000_000


def sample_points(sample: Mapping[str, Any], holders: HoldersOf) -> list[Point]:
    """Return the points of one `node.sample`; the time is the node's. Keys that its agent does not send make no
    points."""
    at = nanoseconds(sample["at"])
    host = sample["node"]
    points = [Point("ram", {"host": host}, _ram(sample), at), *_cpus(host, sample, at)]
    loads = map(_decimal, sample.get("load") or ())
    points.append(Point("load", {"host": host}, dict(zip(_LOADS, loads, strict=False)), at))
    points += (_disk(host, disk, at) for disk in sample.get("disks") or ())
    lasting = (one for one in sample.get("network") or () if not one["name"].startswith(_PASSING))
    points += (_interface(host, interface, at) for interface in lasting)
    for gpu in sample.get("gpus") or ():
        points.append(_gpu(host, gpu, at))
        points += _uses(host, gpu, list(holders(host, gpu["index"])), at)
    return points


def node_point(node: Mapping[str, Any], at: int, silent_s: float | None = None) -> Point:
    """How a node does, from its `node.changed`. `silent_s`: how long ago its last sample came. A GPU that others use,
    or whose memory is not free yet, is not ill; nor is one that a person set aside."""
    gpus = node.get("gpus") or ()
    conditions = [gpu.get("condition") for gpu in gpus]
    fields = {
        "online": int(node.get("state") == "online"),
        "schedulable": int(bool(node.get("schedulable"))),
        "gpus": len(gpus),
        "gpus_held": sum(1 for gpu in gpus if gpu.get("held_by")),
        **{name: conditions.count(condition) for name, condition in _CONDITIONS.items()},
        "tasks": len(node.get("tasks") or ()),
        "silent_s": _decimal(silent_s),
    }
    return Point("node", {"host": node["name"]}, fields, at)


def queue_points(tasks: Iterable[Mapping[str, Any]], users: Iterable[str], at: int) -> list[Point]:
    """The queue by user; `users` are told even where they have nothing, so that their curves fall to zero."""
    counts = {user: dict.fromkeys(_GAUGES, 0) for user in users}
    for task in tasks:
        count = counts.setdefault(user_of(task), dict.fromkeys(_GAUGES, 0))
        if task["state"] in ALIVE:
            count["running"] += 1
            count["idle"] += bool(task.get("warning"))
            count["gpus"] += sum(len(part["gpus"]) for part in task.get("allocation") or ())
        elif task["state"] == "held":
            count["held"] += 1  # it wants nothing until somebody releases it
        else:
            count["waiting"] += 1
            count["gpus_wanted"] += task.get("gpus") or 0
    return [Point("task", {"user": user}, count, at) for user, count in counts.items()]


def start_point(task: Mapping[str, Any]) -> Point | None:
    """That an attempt started, at the time of its start. How long it waited is known of the first attempt only."""
    if not task.get("started_at"):
        return None
    since = task.get("eligible_at") or task["submitted_at"]
    waited = task["started_at"] - since if task.get("attempt", 1) <= 1 else None
    fields = {"starts": 1, "wait_s": None if waited is None else max(0.0, waited)}
    return Point("task", {"host": _host_of(task), "user": user_of(task)}, fields, _moment(task, task["started_at"]))


def end_point(task: Mapping[str, Any]) -> Point | None:
    """That a task ended, at the time of its end; `run_s` only where it had started."""
    if task["state"] not in ENDED or not task.get("ended_at"):
        return None
    started = task.get("started_at")
    run_s = max(0.0, task["ended_at"] - started) if started else None
    fields = {"ends": 1, "lost": int(task["state"] == "lost"), "run_s": run_s}
    tags = {"host": _host_of(task), "state": task["state"], "user": user_of(task)}
    return Point("task", tags, fields, _moment(task, task["ended_at"]))


def master_point(loop: Mapping[str, Any], at: int) -> Point:
    """How long the master's loop keeps people waiting, from `loop` of `server.info`: `longest` and `longest_cpu`, in
    seconds, are of the last minute or two, all else counts since the master started."""
    edges = loop["edges"]
    fields = {
        "turns": loop["turns"],
        "busy_s": _decimal(loop["wall"]),
        "cpu_s": _decimal(loop["cpu"]),
        "longest": _decimal(loop["minute_wall"]),
        "longest_cpu": _decimal(loop["minute_cpu"]),
        **{f"over_{round(edge * 1000)}ms": _beyond(loop["by_wall"], edges, edge) for edge in _TOLD_EDGES},
    }
    return Point("master", {}, fields, at)


def _beyond(counts: list[int], edges: list[float], edge: float) -> int | None:
    return sum(counts[edges.index(edge) + 1 :]) if edge in edges else None


def writer_point(counts: Mapping[str, int], at: int) -> Point:
    """How the writer itself does: points `written`, `waiting`, `dropped` for want of room and `refused` for good, all
    but `waiting` since it started."""
    return Point("writer", {}, counts, at)


def user_of(task: Mapping[str, Any]) -> str:
    """The owner, as a tag may hold it."""
    return task.get("owner") or NOBODY


def _moment(task: Mapping[str, Any], at: float) -> int:
    """The time of an event, made its own by the task's id: two of one series and time would be one point to InfluxDB.

    It is the same whenever the event is told again, so that telling it twice (after a reconnect) counts it once.
    """
    return nanoseconds(at) + int(task["id"]) % 1_000_000


def _host_of(task: Mapping[str, Any]) -> str:
    allocation = task.get("allocation") or ()
    return allocation[0]["node"] if allocation else NOBODY


def _cpus(host: str, sample: Mapping[str, Any], at: int) -> Iterator[Point]:
    yield Point("cpu", {"cpu": "cpu-total", "host": host}, {"value": _decimal(sample.get("cpu_percent"))}, at)
    for number, percent in enumerate(sample.get("cpu_percents") or ()):
        yield Point("cpu", {"cpu": f"cpu{number}", "host": host}, {"value": _decimal(percent)}, at)


def _ram(sample: Mapping[str, Any]) -> dict[str, Field | None]:
    """The names of psutil and its types, whole bytes and a fraction for `percent`: a field keeps its type for ever."""
    memory = sample.get("memory")
    if memory:
        named = ((name, value) for name, value in memory.items() if name.isidentifier())  # the node's word, in our line
        return {name: _decimal(value) if name == "percent" else _whole(value) for name, value in named}
    total, available = sample.get("memory_total_mib"), sample.get("memory_available_mib")
    if total is None or available is None:
        return {}
    used = total - available
    percent = 100.0 * used / total if total else None
    return {"total": total * _MIB, "available": available * _MIB, "used": used * _MIB, "percent": percent}


def _disk(host: str, disk: Mapping[str, Any], at: int) -> Point:
    """Bytes, as of `ram`."""
    total, free = disk["total_mib"], disk["free_mib"]
    fields = {"total": total * _MIB, "free": free * _MIB, "percent": 100.0 * (total - free) / total if total else None}
    return Point("disk", {"host": host, "path": disk["path"]}, fields, at)


def _interface(host: str, interface: Mapping[str, Any], at: int) -> Point:
    """`bandwidth` in Mbit/s, as psutil tells it. The others are bits a second, whatever their names say: so the old
    system wrote them and its dashboards show them, and one field cannot hold two units.
    """
    bandwidth = interface.get("bandwidth")
    fields = {
        "bandwidth": None if bandwidth is None else _whole(bandwidth / _MEGABIT),
        "recv_bytes_ps": _bits(interface.get("received_ps")),
        "sent_bytes_ps": _bits(interface.get("sent_ps")),
    }
    return Point("net", {"host": host, "net": interface["name"]}, fields, at)


def _gpu(host: str, gpu: Mapping[str, Any], at: int) -> Point:
    """GPUtil's fields and units: `load` and `mem_util` are 0 to 1, memory is MiB. The others are ours."""
    used, total = _decimal(gpu.get("memory_used_mib")), _decimal(gpu.get("memory_total_mib"))
    processes = gpu.get("processes") or ()
    fields = {
        "load": _share(gpu.get("utilization")),
        "mem_used": used,
        "mem_total": total,
        "mem_util": used / total if used is not None and total else None,
        "mem_available": total - used if used is not None and total is not None else None,
        "temperature": _decimal(gpu.get("temperature")),
        "power": _decimal(gpu.get("power")),
        "ecc_errors": _whole(gpu.get("ecc_errors")),
        "xid": _whole(gpu.get("xid")),
        "processes": len(processes),
        "foreign": sum(1 for process in processes if not process.get("launch_id")),
        "ill": int(bool(gpu.get("fault"))),
    }
    return Point("gpu", {"gpu": _gpu_name(gpu), "host": host}, fields, at)


def _uses(host: str, gpu: Mapping[str, Any], holders: list[Holder], at: int) -> Iterator[Point]:
    """Yield a point for each task that holds the GPU: its use of the GPU. `load` is the whole GPU's, which is all that
    drivers tell."""
    for holder in holders:
        tags = {"gpu": _gpu_name(gpu), "host": host, "task": str(holder.task), "user": holder.user}
        own = [process for process in gpu.get("processes") or () if process.get("launch_id") == holder.launch_id]
        known = [process["memory_mib"] for process in own if process.get("memory_mib") is not None]
        memory = sum(known) if known else (gpu.get("memory_used_mib") if len(holders) == 1 else None)
        fields = {"load": _share(gpu.get("utilization")), "mem_used": _decimal(memory), "processes": len(own)}
        yield Point("task_gpu", tags, fields, at)


def _gpu_name(gpu: Mapping[str, Any]) -> str:
    return f"gpu{gpu['index']}"


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _bits(octets: float | None) -> float | None:
    return None if octets is None else float(octets * _BITS)


def _decimal(value: float | None) -> float | None:
    return None if value is None else float(value)


def _whole(value: float | None) -> int | None:
    return None if value is None or not math.isfinite(value) else round(value)


def _line(point: Point) -> str:
    fields = ",".join(f"{name}={_written(value)}" for name, value in point.fields.items() if _is_known(value))
    if not fields:
        return ""
    tags = "".join(f",{name}={_escaped(value)}" for name, value in point.tags.items() if value)
    return f"{point.measurement}{tags} {fields} {point.at}\n"


def _is_known(value: Field | None) -> bool:
    return value is not None and math.isfinite(value)


def _written(value: Field | None) -> str:
    return f"{value}i" if isinstance(value, int) else repr(value)


@lru_cache(maxsize=1 << 16)
def _escaped(value: str) -> str:
    """A tag's value. Line breaks cannot be written, nor can a backslash before what has to be escaped."""
    return _SPECIAL.sub(r"\\\1", _SWALLOWS_WHAT_FOLLOWS.sub("/", _BLANKS.sub(" ", value)))
