"""The library through ctypes and through NVIDIA's own binding: the same answers, and an error where there is none.

The library is a stub; each test asks it in a process of its own, because a process loads a library once.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agent.fake_gpus import MODEL, Machine, gpu, process, uuid

PYPY = "/usr/bin/pypy3"
ROOT = Path(__file__).parents[3]
ASK = """
import json, sys
sys.path.insert(0, sys.argv[1])
from monitor.agent.gpu import nvml_library
from monitor.agent.gpu.nvml_binding import Pynvml
from monitor.agent.gpu.nvml_library import Nvml, NvmlError
library = nvml_library.load()
if sys.argv[2] == "pynvml":
    import pynvml
    api = Pynvml(library, pynvml)
else:
    api = Nvml(library)

def ask(question, *arguments):
    try:
        return question(*arguments)
    except NvmlError as error:
        return {"error": error.code, "text": str(error)}

told = {"init": ask(api.init), "count": ask(api.count), "gpus": []}
for index in range(told["count"] if isinstance(told["count"], int) else 0):
    handle = ask(api.handle, index)
    if isinstance(handle, dict):
        told["gpus"].append(handle)
        continue
    ask(api.watch, handle)
    names = ("uuid", "model", "bus", "utilization", "memory", "temperature", "power", "ecc_errors", "mig", "processes")
    told["gpus"].append({name: ask(getattr(api, name), handle) for name in names})
    told.setdefault("identities", []).append(api.identity(handle))
events = []
while events[-1:] != [None]:
    event = ask(api.next_xid)
    events.append(event if event is None else [told["identities"].index(event[0]), event[1]])
told["xids"] = events[:-1]
told["shutdown"] = ask(api.shutdown)
print(json.dumps(told))
"""


def ask(machine: Machine, through: str = "ctypes", python: str = sys.executable) -> dict[str, Any]:
    command = [python, "-c", ASK, str(ROOT), through]
    done = subprocess.run(command, env=machine.env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path_factory.mktemp("machine")).with_nvml()


@pytest.fixture(params=["ctypes", "pynvml"])
def through(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_figure_of_every_gpu(machine: Machine, through: str) -> None:
    machine.has(gpu(0, util=99, used=700), gpu(1, ecc=2, mig=1), process(0, 42, 600), process(0, 43, "-"))
    told = ask(machine, through)
    assert told["init"] is None
    assert told["count"] == 2
    assert told["gpus"][0] == {
        "uuid": uuid(0),
        "model": MODEL,
        "bus": [0, 0x3B, 0, 0],
        "utilization": [99, 5],
        "memory": [81559 << 20, 700 << 20],
        "temperature": 41,
        "power": 123.5,
        "ecc_errors": 0,
        "mig": False,
        "processes": [[42, 600], [43, None]],
    }
    assert (told["gpus"][1]["ecc_errors"], told["gpus"][1]["mig"], told["gpus"][1]["processes"]) == (2, True, [])


def test_the_same_on_another_implementation_of_python(machine: Machine) -> None:
    machine.has(gpu(0), gpu(1, lost=1), process(0, 42), f"xid uuid={uuid(0)} number=79")
    assert Path(PYPY).exists(), f"{PYPY} is missing: .ci/setup installs it"
    here, there = ask(machine), ask(machine, python=PYPY)
    del here["identities"], there["identities"]
    assert here == there
    assert here["gpus"][0]["processes"] == [[42, 512]]


def test_what_a_gpu_does_not_support_is_an_error_each(machine: Machine, through: str) -> None:
    machine.has(gpu(0, util="-", memutil="-", total="-", used="-", temp="-", power="-", ecc="-", mig="-"))
    [told] = ask(machine, through)["gpus"]
    refused = {name for name, value in told.items() if isinstance(value, dict)}
    assert refused == {"utilization", "memory", "temperature", "power", "ecc_errors", "mig"}
    assert {told[name]["error"] for name in refused} == {3}


def test_a_lost_gpu_says_so_with_each_answer(machine: Machine, through: str) -> None:
    machine.has(gpu(0), gpu(1, lost=1), gpu(2, handle=15))
    first, second, third = ask(machine, through)["gpus"]
    assert first["temperature"] == 41
    assert {value["error"] for value in second.values()} == {15}
    assert third["error"] == 15


@pytest.mark.parametrize("code", [9, 18, 999])
def test_a_driver_that_fails_says_why(machine: Machine, through: str, code: int) -> None:
    machine.has(gpu(0), f"init {code}")
    assert ask(machine, through)["init"]["error"] == code


def test_more_processes_than_there_was_room_for(machine: Machine, through: str) -> None:
    machine.has(gpu(0), *(process(0, 100 + number) for number in range(200)))
    [told] = ask(machine, through)["gpus"]
    assert [pid for pid, _ in told["processes"]] == list(range(100, 300))


def test_events_come_once_each_with_their_gpu(machine: Machine, through: str) -> None:
    machine.has(gpu(0), gpu(1), f"xid uuid={uuid(1)} number=79", f"xid uuid={uuid(0)} number=13")
    assert ask(machine, through)["xids"] == [[1, 79], [0, 13]]


def test_a_library_of_2018_lacks_some_functions_and_tells_the_rest(tmp_path: Path) -> None:
    old = Machine(tmp_path, gpu(0, used=700), process(0, 42, 600)).with_nvml("-DOLD")
    told = ask(old)
    [found] = told["gpus"]
    assert found["processes"] == [[42, 600]]
    assert found["memory"] == [81559 << 20, 700 << 20]
    assert found["bus"] == [0, 0x3B, 0, 0]
    assert told["xids"] == []
