"""Whoever tells of the GPUs, the figures are the same; what befalls a GPU or its driver is a state, no exception."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from monitor.agent.gpu.faults import FELL_OFF, MISMATCH, NO_DRIVER
from monitor.agent.gpu.figures import Found
from monitor.agent.gpu.slots import Slots
from tests.agent.fake_gpus import MODEL, Machine, gpu, process, uuid

ROOT = Path(__file__).parents[3]
PYPY = "/usr/bin/pypy3"
SERVE = """
import functools, json, sys
sys.path.insert(0, sys.argv[1])
from monitor.agent.gpu import gputil, nvidia_smi, nvml, nvml_library
from monitor.agent.gpu.sources import Sources
from monitor.agent.site_packages import import_module
nvidia_smi.PLACES = ()  # the machine of the test, not the one that it runs on
nvidia_smi.HUNG_S = 60.0  # which may be busy
nvml_library._PLACES = nvml_library._PLACES[:1]
hidden = sys.argv[3].split(",")
nvml.import_module = gputil.import_module = lambda name: None if name in hidden else import_module(name)
clock = [0.0]
nvml.NvmlSource = functools.partial(nvml.NvmlSource, clock=lambda: clock[0])
sources = Sources(sys.argv[2], sys.argv[4], [])
for line in sys.stdin:
    clock[0] += float(line)
    steps = []
    print(json.dumps({"told": sources.read(steps.append), "steps": steps}, allow_nan=False), flush=True)
"""


class Reader:
    """A process that reads a machine's GPUs when it is told to."""

    def __init__(self, machine: Machine, wanted: str, hidden: str = "", python: str = sys.executable) -> None:
        self.claims = machine.folder / "attempts"
        self.claims.mkdir(exist_ok=True)
        self.steps: list[str] = []
        self.process = subprocess.Popen(
            [python, "-c", SERVE, str(ROOT), wanted, hidden, str(self.claims)],
            env=machine.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(self, after_s: float = 2.0) -> dict[str, Any]:
        """A reading so many seconds later."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{after_s}\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        self.steps = answer["steps"]
        told: dict[str, Any] = answer["told"]
        return told

    def gpus(self, after_s: float = 2.0) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.read(after_s)["gpus"]
        return found

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


WAYS = {
    "nvml": ("nvml", "pynvml", sys.executable),
    "pynvml": ("nvml", "", sys.executable),
    "gputil": ("gputil", "", sys.executable),
    "nvidia-smi": ("auto", "GPUtil", sys.executable),
    "nvml on pypy": ("nvml", "pynvml", PYPY),
    "nvidia-smi on pypy": ("auto", "GPUtil", PYPY),
    "whatever is there": ("auto", "", sys.executable),
}
"""What the registry asks for, which packages the node does not have, and its Python."""
OF_NVML = [way for way in WAYS if "nvml" in way]


class Place:
    """A machine, and the readers of it that a test made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.readers: list[Reader] = []

    def reader(self, way: str, *lines: str) -> tuple[Machine, Reader]:
        """A machine that has what this way needs, and only that."""
        machine = Machine(self.folder / "machine", *lines)
        machine = machine.with_nvml() if way in OF_NVML else machine.with_smi()
        return machine, self.at(machine, way)

    def at(self, machine: Machine, way: str) -> Reader:
        made = Reader(machine, *WAYS[way])
        self.readers.append(made)
        return made


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    for reader in made.readers:
        reader.close()


NOT_GPUTILS = ("memory_utilization", "power", "ecc_errors")


@pytest.mark.parametrize("way", [way for way in WAYS if way != "whatever is there"])
def test_the_same_figures_from_every_source(place: Place, way: str) -> None:
    me = os.getpid()
    _, reader = place.reader(way, gpu(0, util=99, used=700), gpu(1), process(0, me, 600))
    told = reader.read()
    assert told["gpu_source"] == ("nvml" if way in OF_NVML else way.split(maxsplit=1)[0])
    assert told["gpu_fault"] == ""
    expected = {
        "index": 0,
        "uuid": uuid(0),
        "model": MODEL,
        "utilization": 99,
        "memory_utilization": 5,
        "memory_total_mib": 81559,
        "memory_used_mib": 700,
        "temperature": 41,
        "power": 123.5,
        "ecc_errors": 0,
        "xid": None,
        "mig": False,
        "processes": [{"pid": me, "user": "root", "memory_mib": 600, "launch_id": ""}],
        "fault": "",
    }
    if os.getuid():
        expected["processes"] = told["gpus"][0]["processes"]
    if way == "gputil":
        expected.update(dict.fromkeys(NOT_GPUTILS))
    assert told["gpus"][0] == expected
    assert told["gpus"][1]["processes"] == []


@pytest.mark.parametrize("way", ["nvml", "pynvml", "nvidia-smi", "gputil"])
def test_gpus_are_numbered_by_their_place_on_the_bus(place: Place, way: str) -> None:
    late, early = gpu(0, bus="00000000:E3:00.0"), gpu(1, bus="00000000:0A:00.0")
    middle = gpu(2, bus="00000000:9B:00.0")
    _, reader = place.reader(way, late, early, middle)
    assert [(found["index"], found["uuid"]) for found in reader.gpus()] == [(0, uuid(1)), (1, uuid(2)), (2, uuid(0))]


@pytest.mark.parametrize("way", ["nvml", "pynvml", "nvidia-smi", "gputil"])
def test_one_that_falls_off_the_bus_keeps_its_number(place: Place, way: str) -> None:
    machine, reader = place.reader(way, gpu(0), gpu(1), gpu(2))
    assert len(reader.gpus()) == 3
    machine.has(gpu(0), gpu(1, lost=1), gpu(2))
    for _ in range(2):
        found = reader.gpus()
        assert [(one["index"], one["uuid"], one["fault"]) for one in found] == [
            (0, uuid(0), ""), (1, uuid(1), FELL_OFF), (2, uuid(2), ""),
        ]  # fmt: skip
        assert (found[1]["utilization"], found[1]["memory_used_mib"], found[1]["processes"]) == (None, None, [])
    machine.has(gpu(0), gpu(1), gpu(2))  # and comes back
    assert [one["fault"] for one in reader.gpus()] == ["", "", ""]


@pytest.mark.parametrize("way", ["nvml", "pynvml", "nvidia-smi", "gputil"])
def test_one_that_was_lost_before_anybody_looked_is_told_in_its_place(place: Place, way: str) -> None:
    _, reader = place.reader(way, gpu(0), gpu(1, handle=15), gpu(2))
    found = reader.gpus()
    assert [(one["index"], one["uuid"], one["fault"]) for one in found] == [
        (0, uuid(0), ""), (1, "", FELL_OFF), (2, uuid(2), ""),
    ]  # fmt: skip


@pytest.mark.parametrize("way", ["nvml", "pynvml", "nvidia-smi", "gputil"])
def test_one_that_is_not_even_counted_any_more_keeps_its_number(place: Place, way: str) -> None:
    machine, reader = place.reader(way, gpu(0), gpu(1), gpu(2))
    reader.read()
    machine.has(gpu(0), gpu(2))
    assert [(one["index"], one["uuid"], one["fault"]) for one in reader.gpus()] == [
        (0, uuid(0), ""), (1, uuid(1), FELL_OFF), (2, uuid(2), ""),
    ]  # fmt: skip


@pytest.mark.parametrize("way", ["nvml", "pynvml", "nvidia-smi", "gputil"])
def test_what_a_gpu_does_not_tell_is_not_known(place: Place, way: str) -> None:
    silent = gpu(0, util="-", memutil="-", temp="-", power="-", ecc="-", mig="-")
    _, reader = place.reader(way, silent, gpu(1))
    first, second = reader.gpus()
    names = ("utilization", "memory_utilization", "temperature", "power", "ecc_errors")
    assert [first[name] for name in names] == [None] * 5
    assert (first["mig"], first["memory_used_mib"], first["fault"]) == (False, 4, "")
    assert second["utilization"] == 38


@pytest.mark.parametrize("way", ["nvml", "pynvml", "nvidia-smi"])
def test_uncorrectable_errors_are_a_fault(place: Place, way: str) -> None:
    _, reader = place.reader(way, gpu(0, ecc=2), gpu(1))
    first, second = reader.gpus()
    assert first["fault"] == "2 uncorrectable ECC errors since its driver was loaded: it needs a reset"
    assert (first["ecc_errors"], first["utilization"], second["fault"]) == (2, 37, "")


@pytest.mark.parametrize("way", ["nvml", "pynvml", "nvidia-smi", "gputil"])
def test_one_that_needs_a_reset_says_so_with_some_of_its_figures(place: Place, way: str) -> None:
    _, reader = place.reader(way, gpu(0), gpu(1, util="!16", temp="!16", used=0))
    first, second = reader.gpus()
    assert "nvidia-smi --gpu-reset" in second["fault"]
    assert (second["uuid"], second["utilization"], second["memory_used_mib"]) == (uuid(1), None, 0)
    assert (first["fault"], first["utilization"]) == ("", 37)


@pytest.mark.parametrize("way", ["nvml", "pynvml", "nvidia-smi", "gputil"])
def test_memory_that_fails_for_no_known_reason_is_a_fault_and_a_load_that_does_is_none(place: Place, way: str) -> None:
    _, reader = place.reader(way, gpu(0, used="!999"), gpu(1, util="!999"))
    first, second = reader.gpus()
    assert first["fault"] == "its driver cannot use it: Unknown Error (NVML error 999)"
    assert (second["fault"], second["utilization"], second["memory_used_mib"]) == ("", None, 5)


@pytest.mark.parametrize("way", ["nvml", "pynvml"])
def test_a_critical_event_is_a_fault_for_a_minute_and_others_are_none(place: Place, way: str) -> None:
    machine, reader = place.reader(way, gpu(0), gpu(1))
    reader.read()
    machine.has(gpu(0), gpu(1), f"xid uuid={uuid(1)} number=119", f"xid uuid={uuid(0)} number=31")
    told = "Xid 119 (GSP RPC timeout): it needs a reset, or its machine a reboot"
    for after in (2.0, 50.0):
        first, second = reader.gpus(after)
        assert (first["xid"], first["fault"], second["xid"], second["fault"]) == (None, "", 119, told)
    _, second = reader.gpus(10.0)
    assert (second["xid"], second["fault"]) == (119, "")


def test_figures_that_hardly_change_are_asked_for_seldom(place: Place) -> None:
    machine, reader = place.reader("nvml", gpu(0))
    reader.read()
    reader.read()
    machine.has(gpu(0, ecc=1, util=80))
    [found] = reader.gpus()
    assert (found["utilization"], found["ecc_errors"]) == (80, 0)
    [found] = reader.gpus(20.0)
    assert found["ecc_errors"] == 1


@pytest.mark.parametrize("way", ["nvidia-smi", "gputil"])
def test_a_program_that_is_slow_is_asked_the_less_often(place: Place, way: str) -> None:
    machine, reader = place.reader(way, gpu(0))
    assert 5.0 <= reader.read()["again_s"] <= 15.0
    machine.has(gpu(0), "busy 0.2")
    assert reader.read()["again_s"] == 15.0


@pytest.mark.parametrize("way", ["nvml", "pynvml", "nvidia-smi", "gputil"])
@pytest.mark.parametrize(("code", "fault"), [(18, MISMATCH), (9, NO_DRIVER)])
def test_a_driver_that_fails_is_told_and_asked_again(place: Place, way: str, code: int, fault: str) -> None:
    machine, reader = place.reader(way, gpu(0))
    reader.read()
    machine.has(gpu(0), f"init {code}")
    for _ in range(2):
        told = reader.read()
        assert (told["gpus"], told["gpu_fault"]) == ([], fault)
    machine.has(gpu(0))
    told = reader.read()
    assert (len(told["gpus"]), told["gpu_fault"]) == (1, "")


@pytest.mark.parametrize("way", ["nvml", "pynvml", "nvidia-smi", "gputil"])
def test_a_driver_without_devices_shows_none_and_has_no_fault(place: Place, way: str) -> None:
    _, reader = place.reader(way)
    told = reader.read()
    assert (told["gpus"], told["gpu_fault"]) == ([], "")
    assert told["gpu_source"] != "none"


def test_nvml_comes_first_then_gputil_then_the_program(place: Place) -> None:
    machine, reader = place.reader("nvidia-smi", gpu(0))
    assert reader.read()["gpu_source"] == "nvidia-smi"
    assert place.at(machine, "whatever is there").read()["gpu_source"] == "gputil"
    machine.with_nvml()
    assert place.at(machine, "whatever is there").read()["gpu_source"] == "nvml"


def test_a_node_without_any_source_has_none(place: Place) -> None:
    machine = Machine(place.folder / "bare")
    told = place.at(machine, "whatever is there").read()
    assert (told["gpus"], told["gpu_source"], told["gpu_fault"]) == ([], "none", "")


@pytest.mark.parametrize(("way", "said"), [("nvml", "libnvidia-ml.so.1 is not there"), ("gputil", "is not there")])
def test_a_source_that_the_registry_asks_for_and_that_is_missing_is_a_fault(place: Place, way: str, said: str) -> None:
    told = place.at(Machine(place.folder / "bare"), way).read()
    assert told["gpu_source"] == "none"
    assert said in told["gpu_fault"]


def test_each_step_that_may_hang_is_announced(place: Place) -> None:
    _, reader = place.reader("nvidia-smi", gpu(0))
    reader.read()
    assert reader.steps == ["NVML", "GPUtil", "nvidia-smi", "nvidia-smi"]


def test_one_of_which_only_the_place_is_told_is_called_what_it_was_called() -> None:
    slots = Slots([])
    slots.arrange([Found((0, 1, 0, 0), "GPU-a", "M", memory_total_mib=5), Found((0, 2, 0, 0), "GPU-b", "M")])
    first, second = slots.arrange([Found((0, 2, 0, 0), "GPU-b", "M"), Found((0, 1, 0, 0), "", fault=FELL_OFF)])
    assert (first.uuid, first.model, first.memory_total_mib, first.fault) == ("GPU-a", "M", 5, FELL_OFF)
    assert second.uuid == "GPU-b"


def test_one_that_takes_the_place_of_another_is_not_added_to_it() -> None:
    slots = Slots([])
    slots.arrange([Found((0, 1, 0, 0), "GPU-a")])
    assert [one.uuid for one in slots.arrange([Found((0, 1, 0, 0), "GPU-b")])] == ["GPU-b"]
