"""What becomes of the samples: a real master, a real agent, and GPUs with which something is the matter."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from client.api import Client
from client.shapes import Node
from monitor.agent.gpu.faults import FELL_OFF
from tests.agent.fake_gpus import MODEL, Machine, gpu, process, uuid
from tests.system.lab import Lab
from tests.waiting import until
from wire.message import Message, plain


class GpuLab(Lab):
    """A lab of one node, whose GPUs are a machine's."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        super().__init__(folder, nodes=1)
        self.write_scheduler(sample_s=0.5)
        self.machine = machine
        entry = {"ip": "127.0.0.1", "driver": "local", "gpu_probe": "auto", "slots": 4}
        models = ["H100", "H100"]
        self.write_registry([{"name": "node0", "gpu_count": len(models), "gpu_info": models, **entry}])

    def environment(self) -> dict[str, str]:
        """What masters and agents of this lab are started with."""
        return {**super().environment(), **self.machine.env}


class Scene:
    """A started lab and what a test asks of it."""

    def __init__(self, lab: GpuLab) -> None:
        self.lab = lab
        self.machine = lab.machine
        self.others: list[subprocess.Popen[bytes]] = []
        lab.start()
        self.client: Client = lab.client()
        until("its GPUs are seen", lambda: self.gpu(1)["memory_used_mib"] is not None)

    def node(self) -> Node:
        [node] = self.client.nodes()
        return node

    def gpu(self, index: int) -> Any:
        return self.node()["gpus"][index]

    def until_gpu(self, index: int, what: str, true: Callable[[Any], object]) -> Any:
        return until(what, lambda: (found := self.gpu(index)) and true(found) and found)

    def somebody(self) -> int:
        """The pid of a process that is not the lab's."""
        self.others.append(subprocess.Popen(["/bin/sleep", "1000"], env={}))
        return self.others[-1].pid

    def submit(self, command: str = "true", **spec: Any) -> int:
        return self.client.submit(command, gpus=1, **spec)

    def state(self, task: int) -> str:
        return str(self.client.show(task)["state"])

    def held(self, task: int) -> list[int]:
        return [index for part in self.client.show(task)["allocation"] for index in part["gpus"]]

    def close(self) -> None:
        self.client.close()
        for other in self.others:
            other.kill()
            other.wait()


@pytest.fixture(params=["nvml", "nvidia-smi"])
def scene(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scene]:
    machine = Machine(tmp_path / "machine", gpu(0, used=700), gpu(1))
    lab = GpuLab(tmp_path / "lab", machine.with_nvml() if request.param == "nvml" else machine.with_smi())
    try:
        made = Scene(lab)
        yield made
        made.close()
    finally:
        left = lab.close()
    assert left == []


def test_the_figures_are_those_of_the_command_and_of_the_subscription(scene: Scene) -> None:
    pid = scene.somebody()
    scene.machine.has(gpu(0, util=99, used=700), gpu(1), process(0, pid, 600))
    scene.until_gpu(0, "the process", lambda found: found["foreign"])
    [node] = json.loads(scene.lab.muster("nodes", "--json").stdout)
    first = node["gpus"][0]
    assert (first["memory_used_mib"], first["memory_mib"], first["utilization"]) == (700, 81559, 99)
    assert [holder["pid"] for holder in first["foreign"]] == [pid]
    messages = scene.client.watch("nodes")
    sample = next(message["params"] for message in messages if message["method"] == "node.sample")
    assert sample["node"] == "node0"
    assert [(one["index"], one["uuid"], one["model"]) for one in sample["gpus"]] == [
        (0, uuid(0), MODEL), (1, uuid(1), MODEL),
    ]  # fmt: skip
    assert (sample["gpus"][0]["utilization"], sample["gpus"][0]["memory_used_mib"]) == (99, 700)
    assert [(one["pid"], one["memory_mib"], one["launch_id"]) for one in sample["gpus"][0]["processes"]] == [
        (pid, 600, "")
    ]


def test_who_computes_there_already_is_named_and_respected(scene: Scene) -> None:
    pid = scene.somebody()
    scene.machine.has(gpu(0), gpu(1), process(0, pid))
    told = scene.until_gpu(0, "the stranger", lambda found: found["health"] != "ok")
    assert told["health"] == f"used by {told['foreign'][0]['user']} (pid {pid})"
    assert told["foreign"][0]["user"]
    first, second = scene.submit("sleep 1000"), scene.submit()
    until("the first runs beside him", lambda: scene.state(first) == "running")
    assert (scene.held(first), scene.state(second)) == ([1], "waiting")
    scene.machine.has(gpu(0), gpu(1))
    until("the second has run, now that he is gone", lambda: scene.state(second) == "succeeded")
    scene.client.cancel([first])
    until("the first has ended", lambda: scene.state(first) == "cancelled")


def test_a_broken_gpu_is_set_aside_alone_until_an_admin_returns_it(scene: Scene) -> None:
    scene.machine.has(gpu(0, lost=1), gpu(1))
    told = scene.until_gpu(0, "the fault", lambda found: found["health"] != "ok")
    assert FELL_OFF in told["health"]
    task = scene.submit("echo $CUDA_VISIBLE_DEVICES")
    until("the other one works", lambda: scene.state(task) == "succeeded")
    assert b"".join(scene.client.logs(task)).split()[0] == uuid(1).encode(), "which CUDA would count as the first now"
    scene.machine.has(gpu(0), gpu(1))
    scene.until_gpu(0, "its figures are back", lambda found: found["utilization"] == 37)
    assert scene.gpu(0)["health"] != "ok", "only a person returns it"
    scene.client.resume_node("node0", gpus=[0])
    assert scene.gpu(0)["health"] == "ok"


def test_memory_that_a_task_left_behind_keeps_the_gpu_from_the_next(scene: Scene) -> None:
    first = scene.client.submit("sleep 1000", gpus=2)
    until("it runs", lambda: scene.state(first) == "running")
    scene.machine.has(gpu(0, used=40000), gpu(1))
    scene.until_gpu(0, "its memory is seen", lambda found: found["memory_used_mib"] == 40000)
    scene.client.cancel([first])
    until("it has ended", lambda: scene.state(first) == "cancelled")
    told = scene.until_gpu(0, "memory is held", lambda found: found["health"] != "ok")
    assert told["health_message"] == plain(Message("gpu_not_free_yet", task=first))
    second = scene.submit()
    until("the next takes the other one", lambda: scene.state(second) == "succeeded")
    scene.machine.has(gpu(0), gpu(1))
    scene.until_gpu(0, "it is free", lambda found: found["health"] == "ok")


def test_a_hung_driver_keeps_all_gpus_back_and_cpu_tasks_run(scene: Scene) -> None:
    scene.machine.has(gpu(0), gpu(1), "hang")
    told = scene.until_gpu(0, "the state", lambda found: found["health"] != "ok")
    assert "its GPU driver does not answer" in told["health"]
    waiting, running = scene.submit(), scene.client.submit("true")
    until("a task without GPUs runs", lambda: scene.state(running) == "succeeded")
    assert scene.state(waiting) == "waiting"
    assert "does not answer" in json.dumps(scene.client.why(waiting))
    scene.machine.has(gpu(0), gpu(1))
    until("it runs when the driver is back", lambda: scene.state(waiting) == "succeeded", patience=60)


def test_fewer_gpus_than_the_registry_counts_are_told(scene: Scene) -> None:
    scene.client.edit_node("node0", {"gpu_count": 3, "gpu_info": ["H100"] * 3})
    until("there are three", lambda: scene.node()["gpus"][2:])
    told = scene.until_gpu(2, "the third", lambda found: found["health"] != "ok")
    assert told["health_message"] == plain(Message("gpu_missing", shown=2, count=3))


def test_more_gpus_or_others_than_the_registry_says_are_told(scene: Scene) -> None:
    scene.client.edit_node("node0", {"gpu_count": 1, "gpu_info": ["A100"]})
    until("there is one", lambda: len(scene.node()["gpus"]) == 1)
    more = Message("gpu_missing", shown=2, count=1)
    other = Message("gpu_other_model", gpus=(0,), real=MODEL, model="A100")
    told = str(Message("gpus_differ", faults=(more, other)))
    until("both are told", lambda: scene.node()["mismatch"] == told, seen=scene.node)
    assert f"node0: {more}" in scene.lab.muster("nodes").stdout
    scene.client.edit_node("node0", {"gpu_count": 2, "gpu_info": ["H100", "H100"]})
    until("all is as it is said", lambda: scene.node()["mismatch"] is None)
