"""Shared GPUs and large tasks by real agents: what the driver's program tells decides who starts beside whom."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.api import Client
from tests.agent.fake_gpus import Machine, gpu, process
from tests.faults import reason_of, says
from tests.system.lab import Lab
from tests.waiting import until
from wire.message import Message, ids

CARD_MIB = 24_000
SHARE: dict[str, Any] = {"gpus": 1, "share": True, "gpu_memory_mib": 8000}


class SharedLab(Lab):
    """One node, whose only GPU is a machine's."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        super().__init__(folder, nodes=1)
        self.write_scheduler(sample_s=0.5)
        self.machine = machine
        entry = {"ip": "127.0.0.1", "driver": "local", "gpu_probe": "auto", "slots": 4}
        self.write_registry([{"name": "node0", "gpu_count": 1, "gpu_info": ["RTX4090"], **entry}])

    def environment(self) -> dict[str, str]:
        """What masters and agents of this lab are started with."""
        return {**super().environment(), **self.machine.env}


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[SharedLab]:
    machine = Machine(tmp_path / "machine", gpu(0, used=300, total=CARD_MIB, util=0)).with_smi()
    lab = SharedLab(tmp_path / "lab", machine)
    try:
        lab.start()
        yield lab
    finally:
        left = lab.close()
    assert left == []


def state(client: Client, task: int) -> str:
    return str(client.show(task)["state"])


def pid_of(client: Client, task: int) -> int:
    told: Any = client.show(task)["allocation"]
    return int(told[0]["pid"]) if told else 0


def two_that_share(client: Client) -> tuple[int, int]:
    """Two tasks that run on one GPU, and whose processes are known."""
    until("their GPU is seen", lambda: client.nodes()[0]["gpus"][0]["memory_used_mib"] is not None)
    first, second = (client.submit("sleep 1000", **SHARE) for _ in range(2))
    client.wait([first, second], until="started")
    until("their processes are known", lambda: pid_of(client, first) and pid_of(client, second))
    return first, second


def test_a_gpu_is_shared_by_what_is_asked_and_closed_by_what_a_task_really_uses_until_it_has_ended(
    shared: SharedLab,
) -> None:
    lab, machine = shared, shared.machine
    with lab.client() as client:
        first, second = two_that_share(client)
        assert [part["gpu_mib"] for task in (first, second) for part in client.show(task)["allocation"]] == [8000] * 2
        machine.has(
            gpu(0, used=15_300, total=CARD_MIB, util=50), process(0, pid_of(client, first), 15_000)
        )  # it takes far more than it said
        until("that is seen", lambda: client.nodes()[0]["gpus"][0]["memory_used_mib"] == 15_300)
        until("its owner is told", lambda: "15000 MiB of GPU 0" in str(client.show(first)["warning"]))
        assert "15000 MiB of GPU 0" in lab.muster("why", str(first)).stdout
        third = client.submit("true", **SHARE)
        assert state(client, third) == "waiting"
        until("why it waits is told", lambda: says(reason_of(client.show(third)), "card_outgrown"))
        assert [state(client, task) for task in (first, second)] == ["running", "running"], "nobody is ended for it"
        client.cancel([first])
        client.wait([first])
        machine.has(gpu(0, used=300, total=CARD_MIB, util=0))
        assert client.wait([third], 60)[third]["state"] == "succeeded"
        client.cancel([second])
        client.wait([second])


def test_a_task_on_a_gpu_that_it_was_not_given_is_told_so_and_ended_where_the_lab_says_so(shared: SharedLab) -> None:
    lab, machine = shared, shared.machine
    with lab.client() as client:
        until("their GPU is seen", lambda: client.nodes()[0]["gpus"][0]["memory_used_mib"] is not None)
        stray = client.submit("sleep 1000")
        client.wait([stray], until="started")
        until("its process is known", lambda: pid_of(client, stray))
        machine.has(gpu(0, used=9300, total=CARD_MIB, util=50), process(0, pid_of(client, stray), 9000))
        until("its owner is told", lambda: client.show(stray)["warning_key"] == "stray_task")
        assert str(client.show(stray)["warning"]) in lab.muster("why", str(stray)).stdout
        assert f"used by task {stray} (pid {pid_of(client, stray)})" in lab.muster("nodes").stdout
        waits = client.submit("true", gpus=1)
        until("why it waits is told", lambda: f"used by task {stray}" in str(client.show(waits)["reason"]))
        said = lab.muster("set", "scheduler.stray_tasks", "end")
        assert said.returncode == 0, said.stderr
        assert client.wait([stray], 60)[stray]["state"] == "failed"
        assert reason_of(client.show(stray)) == Message("ended_as_stray", node="node0", gpus=ids([0]))
        machine.has(gpu(0, used=300, total=CARD_MIB, util=0))
        assert client.wait([waits], 60)[waits]["state"] == "succeeded"


def test_where_the_lab_says_so_a_task_that_outgrows_its_share_is_ended_and_its_owner_reads_what_to_ask_for(
    shared: SharedLab,
) -> None:
    lab, machine = shared, shared.machine
    with lab.client() as client:
        greedy, modest = two_that_share(client)
        machine.has(
            gpu(0, used=23_300, total=CARD_MIB, util=50),
            process(0, pid_of(client, greedy), 15_000),
            process(0, pid_of(client, modest), 8000),
        )
        until("its owner is told", lambda: "15000 MiB of GPU 0" in str(client.show(greedy)["warning"]))
        said = lab.muster("set", "scheduler.end_outgrown_after_s", "1")
        assert said.returncode == 0, said.stderr
        assert client.wait([greedy], 60)[greedy]["state"] == "failed"
        told = client.show(greedy)
        assert str(told["reason"]).startswith("share_outgrown: it used 15000 MiB of GPU 0 of node0, had asked for 8000")
        assert told["asked_end"] == {"why": "limit", "by": ""}
        assert "`--gpu-mem 15000`" in lab.muster("why", str(greedy)).stdout
        assert state(client, modest) == "running"
        client.cancel([modest])
        client.wait([modest])


def tells_of(client: Client, waiting: int, key: str, **values: Any) -> bool:
    """Does its reason tell of a reservation, with the expected time or without?"""
    reason = reason_of(client.show(waiting))
    return any(says(reason, one, **values) for one in (key, f"{key}_until"))


def test_a_forced_large_task_starts_before_the_small_ones_that_came_later_also_over_a_killed_master(
    tmp_path: Path,
) -> None:
    lab = Lab(tmp_path / "large", nodes=1, gpus=4)
    gates = [tmp_path / f"gate{number}" for number in range(4)]
    try:
        lab.start()
        with lab.client() as client:
            held = [client.submit(f"until [ -e {gate} ]; do sleep 0.05; done", gpus=1) for gate in gates]
            client.wait(held, until="started")
            large = client.submit("sleep 1000", gpus=4)
            assert lab.muster("start", str(large)).returncode == 0
            small = [client.submit("true", gpus=1) for _ in range(6)]
            gates[0].touch()
            client.wait(held[:1])
            until("it is told", lambda: tells_of(client, large, "kept_for_it"))
            until("the small one is told", lambda: tells_of(client, small[0], "kept_for_another", task=large))
        lab.kill_master()
        for gate in gates[1:]:
            gate.touch()
        lab.start()
        with lab.client() as client:
            client.wait([large], 60, until="started")
            assert {state(client, task) for task in small} == {"waiting"}
            client.cancel([large])
            assert {one["state"] for one in client.wait(small, 60).values()} == {"succeeded"}
    finally:
        left = lab.close()
    assert left == []
