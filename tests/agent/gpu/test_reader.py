"""The fork that reads GPUs: asked, watched, given up and begun anew, while whoever asks waits for nothing."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from monitor.agent.gpu import nvidia_smi, reader, sources
from monitor.agent.gpu.faults import FELL_OFF, HUNG_S
from monitor.agent.gpu.figures import Doing, Found, Reading, Source
from monitor.agent.gpu.reader import GpuReader
from tests.agent.fake_gpus import Machine, gpu, uuid
from tests.agent.small_master import alive
from tests.testbed import processes
from tests.waiting import until

NONE = {"gpus": [], "gpu_source": "none", "gpu_fault": ""}


class Acting(Source):
    """A source that does what a file says, and counts in another how often it was asked."""

    name = "acting"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, doing: Doing) -> Reading:
        doing("Acting")
        with (self._folder / "asked").open("a", encoding="ascii") as file:
            file.write(f"{os.getpid()}\n")
        what = (self._folder / "what").read_text(encoding="ascii")
        if what == "program":
            subprocess.Popen(["/bin/sleep", "1000"])
        if what in {"hang", "program"}:
            time.sleep(1000)
        if what == "fail":
            raise RuntimeError
        if what == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if what == "three":
            return Reading([Found((0, bus), f"GPU-{bus}", "H100") for bus in (1, 2, 3)], "", 2.0)
        if what == "two":
            return Reading([Found((0, bus), f"GPU-{bus}", "H100") for bus in (1, 3)], "", 2.0)
        return Reading([Found((0,), "GPU-a", temperature=41)], "", 2.0)


class Stage:
    """A reader with an acting source, and time as the test wants it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 100.0
        self.reader = GpuReader("auto", str(folder))

    def act(self, what: str) -> None:
        (self.folder / "what").write_text(what, encoding="ascii")

    def asked(self) -> list[int]:
        """The pids of the forks that were asked, once for each time."""
        path = self.folder / "asked"
        return [int(line) for line in path.read_text(encoding="ascii").split()] if path.exists() else []

    def ask(self) -> dict[str, Any]:
        """Ask and wait for the answer, if there is one to come."""
        self.reader.ask(self.now)
        self.hear()
        return self.reader.figures

    def hear(self) -> None:
        while self.reader.asked and self.reader.fd >= 0:
            assert select.select([self.reader.fd], [], [], 60)[0], "no answer"
            self.reader.on_ready(self.now)

    def close(self) -> None:
        pid = self.reader.pid
        if self.reader.fd >= 0:
            self.reader._close()
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    made = Stage(tmp_path)
    monkeypatch.setattr(sources, "_choose", lambda _wanted, _doing: Acting(tmp_path))
    yield made
    made.close()


def test_an_answer_is_kept_and_asked_for_again_when_it_is_time(stage: Stage) -> None:
    stage.act("answer")
    assert stage.reader.figures == {**NONE, "gpu_fault": "its GPUs have not been looked at yet"}
    told = stage.ask()
    assert (told["gpu_source"], told["gpus"][0]["uuid"], told["gpus"][0]["index"]) == ("acting", "GPU-a", 0)
    assert "again_s" not in told
    stage.now += 1.9
    assert stage.ask() is told
    assert len(stage.asked()) == 1
    stage.now += 0.1
    stage.ask()
    assert len(stage.asked()) == 2
    assert len(set(stage.asked())) == 1, "one fork serves all questions"


def test_declared_gpus_are_asked_nobody(tmp_path: Path) -> None:
    reader = GpuReader("declared", str(tmp_path))
    reader.ask(100.0)
    assert (reader.fd, reader.asked, reader.figures) == (-1, False, NONE)


def test_a_driver_that_hangs_is_a_state_and_its_fork_is_killed(stage: Stage) -> None:
    stage.act("hang")
    stage.reader.ask(stage.now)
    [pid] = until("it is asked", stage.asked)
    stage.reader.on_ready(stage.now)  # it said what it is doing
    stage.now += 5.9
    stage.reader.look(stage.now)
    assert "hung" not in stage.reader.figures["gpu_fault"]
    stage.now += 0.2
    stage.reader.look(stage.now)
    assert stage.reader.figures["gpu_fault"] == "its GPU driver does not answer (Acting hung for 5 s)"
    assert not stage.reader.asked
    until("its end", lambda: not alive(pid))
    stage.act("answer")
    stage.now += 1.0
    assert stage.ask()["gpu_fault"], "not so soon"
    stage.now += reader.AGAIN_S
    until("an answer of a new fork", lambda: stage.ask()["gpu_fault"] == "")
    assert len(set(stage.asked())) == 2


def test_a_gpu_that_fell_off_while_its_driver_hung_keeps_its_number(stage: Stage) -> None:
    stage.act("three")
    stage.ask()
    stage.act("crash")
    stage.now += 2.0
    assert stage.ask()["gpu_fault"]
    stage.act("two")
    stage.now += reader.AGAIN_S
    until("no fault", lambda: stage.ask()["gpu_fault"] == "")
    told = stage.reader.figures
    assert "known" not in told
    assert [(one["index"], one["uuid"], one["fault"]) for one in told["gpus"]] == [
        (0, "GPU-1", ""), (1, "GPU-2", FELL_OFF), (2, "GPU-3", ""),
    ]  # fmt: skip


def test_each_step_has_its_own_time(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.act("answer")
    monkeypatch.setattr(stage.reader, "_start", lambda: pytest.fail("none is needed"))
    stage.reader.asked, stage.reader._give_up_at = True, stage.now + 1
    stage.reader._take({"doing": "nvidia-smi"}, stage.now)
    stage.now += 5.5
    stage.reader.look(stage.now)
    assert stage.reader.asked


def test_while_a_killed_fork_is_not_gone_no_other_is_started(stage: Stage) -> None:
    stage.act("hang")
    stage.reader.ask(stage.now)
    [pid] = until("it is asked", stage.asked)
    os.kill(pid, signal.SIGSTOP)
    real, gone = os.waitpid, list[bool]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "waitpid", lambda pid, flags: real(pid, flags) if gone else (0, 0))
        stage.now += 10.0
        stage.reader.look(stage.now)
        for _ in range(3):
            stage.now += 100.0
            stage.ask()
        assert stage.reader.fd == -1
        assert "hung" in stage.reader.figures["gpu_fault"]
        stage.act("answer")
        gone.append(True)
        until("another, now that it is gone", lambda: stage.ask()["gpu_fault"] == "")


@pytest.mark.parametrize("what", ["fail", "crash"])
def test_a_fork_that_dies_is_a_state_and_another_follows(
    stage: Stage, what: str, capfd: pytest.CaptureFixture[str]
) -> None:
    stage.act(what)
    fault = stage.ask()["gpu_fault"]
    assert fault == "the reading of its GPUs failed (while asking Acting); see agent.log on the node"
    assert ("RuntimeError" in capfd.readouterr().err) == (what == "fail")
    stage.act("answer")
    stage.now += reader.AGAIN_S
    until("no fault", lambda: stage.ask()["gpu_fault"] == "")


def test_where_there_is_nothing_to_ask_the_fork_ends_and_somebody_looks_again_later(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_choose", lambda _wanted, _doing: None)
    assert stage.ask() == NONE
    assert select.select([stage.reader.fd], [], [], 60)[0]
    stage.reader.on_ready(stage.now)
    assert stage.reader.fd == -1
    monkeypatch.undo()
    monkeypatch.setattr(sources, "_choose", lambda _wanted, _doing: Acting(stage.folder))
    stage.act("answer")
    stage.now += reader.LOOK_AGAIN_S - 1
    assert stage.ask() == NONE
    stage.now += 1
    until("the source that acts", lambda: stage.ask()["gpu_source"] == "acting")


def test_what_a_fork_runs_is_killed_with_it(stage: Stage) -> None:
    stage.act("program")
    stage.reader.ask(stage.now)
    group = stage.reader.pid
    until("the program", lambda: len(members(group)) == 2)
    stage.now += 10.0
    stage.reader.look(stage.now)
    until("the end of both", lambda: not members(group))


def test_a_program_that_gputil_would_wait_for_without_end_dies_with_the_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path / "machine", gpu(0), "hang").with_smi()
    for name, value in machine.env.items():
        monkeypatch.setenv(name, value)
    stage = Stage(tmp_path)
    stage.reader = GpuReader("gputil", str(tmp_path))
    try:
        stage.reader.ask(stage.now)
        until("GPUtil's question", machine.calls)
        select.select([stage.reader.fd], [], [], 60)
        stage.reader.on_ready(stage.now)
        group = stage.reader.pid
        assert len(members(group)) == 2
        stage.now += 60.0
        stage.reader.look(stage.now)
        assert "GPUtil hung" in stage.reader.figures["gpu_fault"]
        until("the end of both", lambda: not members(group))
        machine.has(gpu(0))
        stage.now += reader.AGAIN_S
        until("figures", lambda: [one["uuid"] for one in stage.ask()["gpus"]] == [uuid(0)])
    finally:
        stage.close()


def test_the_program_itself_ends_what_hangs_before_the_fork_is_given_up() -> None:
    assert HUNG_S + nvidia_smi.KILL_S < HUNG_S + reader.SLACK_S


def members(group: int) -> list[int]:
    """The living processes of a process group."""
    return [one.pid for one in processes.alive(lambda pid: os.getpgid(pid) == group)]
