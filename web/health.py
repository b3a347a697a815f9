"""The console's health: for monitors of services (`healthz`, `readyz`), and in numbers (`metrics`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from web.hall import Hall
from web.problems import problem
from web.session import shown_by
from wire.errors import MusterError

OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


async def healthz(_request: Request, _hall: Hall) -> Response:
    """The console is there."""
    return PlainTextResponse("ok\n")


async def readyz(_request: Request, hall: Hall) -> Response:
    """The master is there, too."""
    try:
        await hall.about.info()
    except MusterError as error:
        return problem(error, 503)
    return PlainTextResponse("ok\n")


async def metrics(request: Request, hall: Hall) -> Response:
    """Return numbers by state, and of GPUs, to a caller whose token may read."""
    shown = shown_by(request, hall)
    info = msgspec.json.decode(await hall.callers.call(shown, "server.info", {}))
    nodes = msgspec.json.decode(await hall.callers.call(shown, "node.list", {}))
    text = "".join(_lines(info, nodes)) + "# EOF\n"
    return Response(text, media_type=OPEN_METRICS, headers={"Cache-Control": "no-store"})


def _lines(info: dict[str, Any], nodes: list[dict[str, Any]]) -> Iterator[str]:
    yield from _family("muster_tasks", "Tasks by state.", [({"state": k}, v) for k, v in info["tasks"].items()])
    yield from _family("muster_nodes", "Nodes by state.", [({"state": k}, v) for k, v in info["nodes"].items()])
    yield from _family("muster_started_seconds", "When the master started.", [({}, info["started_at"])])
    is_fine = info["store_fault"] is None and info["registry_fault"] is None and info.get("conf_fault") is None
    yield from _family("muster_healthy", "Neither disk, registry nor conf.json is at fault.", [({}, int(is_fine))])
    gpus = [({"node": node["name"], "gpu": gpu["index"]}, gpu) for node in nodes for gpu in node["gpus"]]
    held = [(labels, int(bool(gpu.get("held_by")))) for labels, gpu in gpus]
    yield from _family("muster_gpu_held", "Whether a task holds the GPU.", held)
    for name, key, told in (
        ("muster_gpu_utilization_ratio", "utilization", "Utilization of the GPU, from 0 to 1."),
        ("muster_gpu_memory_used_mebibytes", "memory_used_mib", "Memory in use on the GPU."),
        ("muster_gpu_memory_mebibytes", "memory_mib", "Memory of the GPU."),
    ):
        scale = 100 if key == "utilization" else 1
        values = [(labels, gpu[key] / scale) for labels, gpu in gpus if isinstance(gpu.get(key), (int, float))]
        yield from _family(name, told, values)


def _family(name: str, told: str, values: Sequence[tuple[dict[str, Any], float]]) -> Iterator[str]:
    """A metric, as OpenMetrics writes it."""
    if not values:
        return
    yield f"# HELP {name} {told}\n# TYPE {name} gauge\n"
    for labels, value in values:
        inside = ",".join(f'{key}="{_quoted(str(text))}"' for key, text in labels.items())
        yield f"{name}{{{inside}}} {value:.10g}\n" if inside else f"{name} {value:.10g}\n"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
