"""A node as the desktop client's monitor shows it: strings with units, one entry a GPU, flags for what is held."""

from __future__ import annotations

from typing import Any

from master.core.nodes.inventory import Node

UNKNOWN = "No data"
MIB = 1024 * 1024
_STEP = 1024.0
_SIZES = ("B", "KB", "MB", "GB", "TB")
_RATES = ("bps", " Kbps", "Mbps", "Gbps")
"""Spelled as the client's own master spelled them."""
_VIRTUAL = ("lo", "docker", "veth", "br-", "virbr")
"""Interfaces whose bytes are counted on a real one too, or never leave the machine."""
_NO_GPU = {"gpu_used": UNKNOWN, "avail_vram": UNKNOWN}


def row(node: Node, sample: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a node in a `mon` frame, without the list of nodes that are online. `sample`: the newest one
    (`wire.agent.Sample`; older agents leave keys out), or empty."""
    seen = {gpu["index"]: gpu for gpu in sample.get("gpus") or []}
    gpus = [_gpu(seen.get(index, {})) for index in range(len(node.spec.gpu_models))]
    network = [one for one in sample.get("network") or [] if not one["name"].startswith(_VIRTUAL)]
    return {
        "name": node.name,
        "cpu_usage": _percent(sample.get("cpu_percent")),
        "avail_ram": _size(sample.get("memory_available_mib")),
        "web_up": _rate(sum(one["sent_ps"] for one in network)),
        "web_down": _rate(sum(one["received_ps"] for one in network)),
        "gpus": gpus or [_NO_GPU],
        "cpu_used": int(any(node.held.values())),
        "gpu_used": [int(index in node.gpu_holders) for index in range(len(gpus))],
    }


def gone_row(name: str) -> dict[str, Any]:
    """Return the row of a node that is gone: it has all keys, or the client would keep its stale row."""
    unknown = dict.fromkeys(("cpu_usage", "avail_ram", "web_up", "web_down"), UNKNOWN)
    return {"name": name, **unknown, "gpus": [_NO_GPU], "cpu_used": 0, "gpu_used": []}


def _gpu(gpu: dict[str, Any]) -> dict[str, Any]:
    """`gpu`: as in a sample, or empty where none told of it."""
    used, total = gpu.get("memory_used_mib"), gpu.get("memory_total_mib")
    shown: dict[str, Any] = {"gpu_used": _percent(gpu.get("utilization")), "avail_vram": UNKNOWN}
    if used is not None and total:
        shown |= {"avail_vram": _size(max(total - used, 0)), "mem_util": round(used / total, 3)}
    return shown


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f} %"


def _size(mib: float | None) -> str:
    return UNKNOWN if mib is None else _scaled(mib * MIB, _SIZES)


def _rate(bytes_ps: float) -> str:
    return _scaled(bytes_ps * 8, _RATES)


def _scaled(value: float, units: tuple[str, ...]) -> str:
    for unit in units[:-1]:
        if value < _STEP:
            return f"{value:.1f} {unit}"
        value /= _STEP
    return f"{value:.1f} {units[-1]}"
