"""What an agent tells of its node every two seconds: through a real agent, its socket and whatever the driver does."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from monitor.agent.sample.sampler import sampling_of
from tests.agent.fake_gpus import MODEL, Machine, gpu, process, uuid
from tests.agent.small_master import Message, Node, alive, known, outward
from tests.waiting import PATIENCE_S, until
from wire.agent import HEARTBEAT_S, MAX_FRAME, SAMPLE_S, Sample
from wire.framing import LineDecoder, encode, strict_loads

PYPY = "/usr/bin/pypy3"
EVERY_S = 0.5
LONG_PAUSE_S = 3.5
MOST_READS = 600
"""Twice what a sample takes. The stub of NVML reads a file at each call, so most are its."""
TRIES = 5
"""A machine that is busy may stop whatever it is for so long, but not each time."""


class Listener:
    """A connection that listens to samples, which come every `sample_s` seconds."""

    def __init__(self, node: Node, sampling: object = None, epoch: int = 1, sample_s: float | None = EVERY_S) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(PATIENCE_S)
        folder = os.open(node.state, os.O_RDONLY)
        self._socket.connect(f"/proc/self/fd/{folder}/agent.sock")
        os.close(folder)
        self._decoder = LineDecoder(MAX_FRAME)
        self._samples: list[dict[str, Any]] = []
        hello: Message = {"op": "hello", "protocol": 1, "cluster": "t", "epoch": epoch, "incarnation": f"a{epoch}"}
        hello["lineage"] = [[number, f"a{number}"] for number in range(1, epoch + 1)]
        if sampling is not None:
            hello["sampling"] = sampling
        self._socket.sendall(encode(hello))
        if sample_s is not None:
            self.send({"op": "pace", "sample_s": sample_s, "heartbeat_s": HEARTBEAT_S})

    def next(self) -> dict[str, Any]:
        while not self._samples:
            data = self._socket.recv(65536)
            assert data, "the agent closed the connection"
            arrived = [strict_loads(line) for line in self._decoder.feed(data)]
            self._samples = [message for message in arrived if message["op"] == "sample"]
        return self._samples.pop(0)

    def until(self, what: str, true: Any) -> dict[str, Any]:
        """The next sample of which that is true."""
        by = time.monotonic() + PATIENCE_S
        while time.monotonic() < by:
            sample = self.next()
            if true(sample):
                return sample
            self._socket.sendall(encode({"op": "ping"}))
        raise AssertionError(f"never came: {what}; the last: {sample}")

    def send(self, message: Message) -> None:
        self._socket.sendall(encode(outward(message)))

    def close(self) -> None:
        self._socket.close()


class Site:
    """A node on a machine with GPUs, and its listeners."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.machine = Machine(folder / "machine", gpu(0, used=700), gpu(1))
        self.node = Node(folder / "node", python=python)
        self.listeners: list[Listener] = []

    def up(self, gpus: str = "auto", folders: list[str] | None = None) -> Listener:
        done = self.node.serve(**self.machine.env)
        assert done.returncode == 0, done.stderr
        return self.listen({"gpus": gpus, "folders": folders or []})

    def listen(self, sampling: object = None, epoch: int = 1, sample_s: float | None = EVERY_S) -> Listener:
        made = Listener(self.node, sampling, epoch, sample_s)
        self.listeners.append(made)
        return made

    def sampler(self) -> int:
        """The pid of the sampling child: the agent's child whose child leads a group, but no session as tasks do."""

        def is_reader(pid: int) -> bool:
            return os.getpgid(pid) == pid != os.getsid(pid)

        [found] = [child for child in children(self.node.agents[-1]) if any(map(is_reader, children(child)))]
        return found

    def close(self) -> None:
        for listener in self.listeners:
            listener.close()
        forks = self.node.forks()
        self.node.clean()
        until("the end of all", lambda: not any(alive(pid) for pid in forks))


@pytest.fixture(params=[sys.executable, PYPY], ids=["cpython", "pypy"])
def anywhere(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    (tmp_path / "node").mkdir()
    made = Site(tmp_path, python=request.param)
    yield made
    made.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "node").mkdir()
    made = Site(tmp_path)
    yield made
    made.close()


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [child for child in map(int, text.split()) if alive(child)]


@pytest.mark.parametrize("source", ["nvml", "nvidia-smi"])
def test_the_first_sample_tells_all(anywhere: Site, source: str) -> None:
    machine = anywhere.machine.with_nvml() if source == "nvml" else anywhere.machine.with_smi()
    machine.has(gpu(0, used=700), gpu(1), process(1, os.getpid(), 300))
    sample = anywhere.up(folders=["/", "/no/such"]).next()
    assert set(sample) == set(Sample.__annotations__)
    assert sample["gpu_source"] in {source, "gputil"}
    assert [(one["index"], one["uuid"], one["model"]) for one in sample["gpus"]] == [
        (0, uuid(0), MODEL), (1, uuid(1), MODEL),
    ]  # fmt: skip
    assert sample["gpus"][0]["memory_used_mib"] == 700
    [foreign] = sample["gpus"][1]["processes"]
    assert (foreign["pid"], foreign["memory_mib"], foreign["launch_id"]) == (os.getpid(), 300, "")
    assert len(sample["cpu_percents"]) == os.cpu_count()
    assert sample["memory"]["total"] >> 20 == sample["memory_total_mib"]
    assert [disk["path"] for disk in sample["disks"]] == ["/"]
    assert "lo" not in [interface["name"] for interface in sample["network"]]


def test_samples_go_on_while_the_driver_hangs_which_is_a_state(site: Site) -> None:
    site.machine.with_nvml()
    listener = site.up()
    assert listener.next()["gpu_fault"] == ""
    for _ in range(TRIES):
        site.machine.has(gpu(0), gpu(1), "hang")
        seen = [listener.next()]
        while not seen[-1]["gpu_fault"]:
            seen.append(listener.next())
            listener.send({"op": "ping"})
        told = seen[-1]
        assert told["gpu_fault"] == "its GPU driver does not answer (NVML hung for 5 s)"
        assert (told["gpus"], told["gpu_source"]) == ([], "nvml")
        site.machine.has(gpu(0), gpu(1))
        back = listener.until("the figures", lambda sample: not sample["gpu_fault"])
        assert len(back["gpus"]) == 2
        pauses = [later["at"] - earlier["at"] for earlier, later in pairwise(seen)]
        if pauses and max(pauses) < LONG_PAUSE_S:
            return
    raise AssertionError(f"CPU figures did not come all the time: {pauses}")


def test_a_driver_that_takes_its_reader_along_is_a_state(site: Site) -> None:
    site.machine.with_nvml()
    listener = site.up()
    listener.next()
    site.machine.has(gpu(0), "crash")
    fault = listener.until("the fault", lambda sample: sample["gpu_fault"])["gpu_fault"]
    assert fault == "the reading of its GPUs failed (while asking NVML); see agent.log on the node"


def test_what_runs_in_a_task_is_the_tasks_and_what_does_not_is_foreign(site: Site) -> None:
    site.machine.with_nvml()
    listener = site.up()
    node = site.node
    listener.send(node.message("t1-a", "sleep 1000"))
    [ours] = until("a session of its own", lambda: [pid for pid in node.carriers("t1-a") if os.getsid(pid) == pid])
    site.machine.has(gpu(0), gpu(1), process(0, ours, 100), process(0, os.getpid(), 50))
    sample = listener.until("both", lambda sample: len(sample["gpus"][0]["processes"]) == 2)
    found = {one["pid"]: one["launch_id"] for one in sample["gpus"][0]["processes"]}
    assert found == {ours: known("t1-a"), os.getpid(): ""}


@pytest.mark.parametrize(
    "asked", [None, {"gpus": "declared", "folders": []}, "what", {"gpus": "declared", "folders": 3}]
)
def test_gpus_that_are_declared_are_not_looked_at(site: Site, asked: object) -> None:
    site.machine.with_nvml()
    site.up(gpus="declared").close()
    sample = site.listen(asked).next()
    assert (sample["gpus"], sample["gpu_source"], sample["gpu_fault"], sample["disks"]) == ([], "none", "", [])


def test_another_master_may_ask_for_something_else(site: Site) -> None:
    site.machine.with_nvml()
    assert site.up(gpus="declared").next()["gpus"] == []
    site.listeners.pop().close()
    again = site.listen({"gpus": "auto", "folders": ["/"]}, epoch=2)
    assert len(again.until("GPUs", lambda sample: sample["gpus"])["gpus"]) == 2


def test_samples_come_as_often_as_the_master_says_and_says_anew(site: Site) -> None:
    first = site.up()
    first.until("a short pause", shorter(first, SAMPLE_S / 2))
    listener = site.listen(sample_s=None)  # what was said before still holds
    listener.until("a short pause", shorter(listener, SAMPLE_S / 2))
    listener.send({"op": "pace", "sample_s": 2 * SAMPLE_S, "heartbeat_s": HEARTBEAT_S})
    listener.until("a long pause", lambda sample: listener.next()["at"] - sample["at"] > 1.5 * SAMPLE_S)


def shorter(listener: Listener, pause_s: float) -> Callable[[dict[str, Any]], bool]:
    return lambda sample: listener.next()["at"] - sample["at"] < pause_s


def test_a_sampler_that_stands_still_is_replaced_and_leaves_nothing(site: Site) -> None:
    site.machine.with_nvml()
    listener = site.up()
    listener.next()
    sampler = site.sampler()
    [reader] = children(sampler)
    os.kill(sampler, signal.SIGSTOP)
    listener.until("a sample of the next one", lambda _: not alive(sampler))
    until("the reader's end", lambda: not alive(reader))


def test_when_the_agent_is_killed_nothing_of_its_sampling_stays(site: Site) -> None:
    site.machine.with_smi()
    listener = site.up()
    assert listener.next()["gpus"]
    site.machine.has(gpu(0), "hang")
    found: list[int] = []

    def hangs(_sample: dict[str, Any]) -> bool:
        found[:] = children(children(site.sampler())[0])
        return bool(found)

    listener.until("a program that hangs", hangs)
    forks = site.node.forks()
    [program] = found
    os.kill(site.node.agents[-1], signal.SIGKILL)
    until("the end of all", lambda: not any(alive(pid) for pid in (*forks, program)))


def test_the_hello_of_a_master_is_believed_as_far_as_it_makes_sense() -> None:
    assert sampling_of({}) == {"gpus": "declared", "folders": []}
    assert sampling_of({"sampling": {"folders": ["/a", 7]}}) == {"gpus": "auto", "folders": ["/a"]}


def test_a_sample_reads_a_few_files(site: Site) -> None:
    """`bench/idle.py` measures its CPU time."""
    site.machine.with_nvml().has(*(gpu(number) for number in range(8)), *(process(n, os.getpid()) for n in range(8)))
    listener = site.up()
    listener.next()
    sampler = site.sampler()
    processes = [sampler, *children(sampler)]
    listener.next()
    began, before = time.monotonic(), reads(processes)
    for _ in range(4):
        listener.next()
    made = reads(processes) - before
    samples = 2 + (time.monotonic() - began) / EVERY_S  # at most; the listener may be behind
    assert 0 < made < samples * MOST_READS


def reads(processes: list[int]) -> int:
    """How often these have called the kernel to read something."""
    told = [Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines() for pid in processes]
    return sum(int(line.removeprefix("syscr: ")) for lines in told for line in lines if line.startswith("syscr: "))
