"""Whoever tells of the GPUs: the command, a subscription and InfluxDB have the same figures; none where nobody does."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.fake_gpus import Machine, gpu
from tests.agent.sample.test_lab import GpuLab
from tests.monitor.databases import Influx
from tests.monitor.test_main import configure, monitor
from tests.system.lab import ROOT, Lab
from tests.waiting import until

PROBES = {"nvml": "nvml", "gputil": "gputil", "nvidia-smi": "auto", "none": "auto"}
"""What the registry asks for, by who is there to tell."""
GPUS = (gpu(0, util=99, used=700), gpu(1, util=0, used=5))
FIGURES = [(99.0, 700, 81559), (0.0, 5, 81559)]


def machine_with(way: str, folder: Path) -> Machine:
    machine = Machine(folder, *GPUS)
    if way == "nvidia-smi":
        machine.has(*GPUS, "nofield gpu_serial")  # which only GPUtil asks for, and then gives up
    return machine.with_nvml() if way == "nvml" else machine if way == "none" else machine.with_smi()


@pytest.fixture(params=list(PROBES))
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def probed_lab(tmp_path: Path, influx: Influx, way: str) -> Iterator[Lab]:
    """A lab whose GPUs are probed in this way, with a writer of metrics."""
    lab = GpuLab(tmp_path / "lab", machine_with(way, tmp_path / "machine"))
    entry = {"ip": "127.0.0.1", "driver": "local", "gpu_probe": PROBES[way], "gpu_count": len(GPUS)}
    lab.write_registry([{"name": "node0", **entry}])
    configure(lab, url=influx.url, version=1)
    lab.start()
    writer = subprocess.Popen(monitor(lab.conf), cwd=ROOT, env=lab.environment())
    yield lab
    writer.terminate()
    writer.wait(60)
    lab.kill_master()
    assert lab.close() == []


def of_the_command(lab: Lab) -> list[Any]:
    [node] = json.loads(lab.muster("nodes", "--json").stdout)
    return [(one["utilization"], one["memory_used_mib"], one["memory_mib"]) for one in node["gpus"]]


def of_a_subscription(lab: Lab) -> list[Any]:
    with lab.client() as client:
        messages = client.watch("nodes")
        sample = next(message["params"] for message in messages if message["method"] == "node.sample")
    return [(one["utilization"], one["memory_used_mib"], one["memory_total_mib"]) for one in sample["gpus"]]


def of_influxdb(influx: Influx) -> list[Any]:
    rows = influx.rows('SELECT last("load") AS load, "mem_used", "mem_total" FROM "gpu" GROUP BY "gpu"')
    told = {row["gpu"]: (row["load"] * 100, row["mem_used"], row["mem_total"]) for row in rows}
    return [told[name] for name in sorted(told)]


def test_the_same_figures_everywhere(probed_lab: Lab, influx: Influx, way: str) -> None:
    until("a sample is in InfluxDB", lambda: influx.rows('SELECT "value" FROM "cpu" WHERE "cpu" = \'cpu-total\''))
    if way == "none":
        assert of_the_command(probed_lab) == [(None, None, None)] * len(GPUS), "and the registry is believed"
        assert (of_a_subscription(probed_lab), of_influxdb(influx)) == ([], [])
        return
    until("the GPUs are in InfluxDB", lambda: of_influxdb(influx) == FIGURES)
    assert of_the_command(probed_lab) == of_a_subscription(probed_lab) == FIGURES
