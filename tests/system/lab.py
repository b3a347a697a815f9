"""A lab in a folder of its own: a master as a real process, agents of this machine, and nothing left at the end.

Everything that is started here has one environment variable, XDG_STATE_HOME inside the lab's folder: masters and agents
inherit it, tasks get it from conf.json. By it every process of the lab is found again, whoever its parent is by then.
Owns starting, killing and finding; knows no tasks.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from client.api import Client, connect
from tests.ports import free_ports
from tests.testbed import processes
from tests.testbed.processes import Process
from tests.waiting import PATIENCE_S, NeverError, until
from wire.errors import UnreachableError

ROOT = Path(__file__).parents[2]
PORTS = ("monitor_port", "data_port", "train_state_port")
STANDS_STILL = frozenset({"T", "t", "Z", "X", ""})
"""Letters of the kernel for a process that does nothing until it is let go on, or is no more."""
OWN_FORKS = 2
"""Children of an agent that belong to no task: its sampler, and the next task's shim, which has a child."""


def rewrite(path: Path, text: str) -> None:
    """Write a file in one go, as an editor would, whoever reads it meanwhile; its mode stays."""
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(text, encoding="utf-8")
    with suppress(FileNotFoundError):
        shutil.copymode(path, draft)
    draft.replace(path)


class Lab:
    """One folder with conf.json, registry, queue and the agents' state. `close` it; `left` says what outlived that."""

    def __init__(
        self, folder: Path, *, nodes: int = 2, gpus: int = 8, slots: int = 12, state: Path | None = None
    ) -> None:
        self.folder = folder
        self.state = state or folder / "state"
        self.conf = folder / "conf.json"
        self.nodes = [f"node{number}" for number in range(nodes)]
        self.gpus = gpus
        self.master: subprocess.Popen[bytes] | None = None
        self.before: list[str] = []
        """What its command line begins with."""
        self.python = sys.executable
        """What runs it, and the agents that it starts on this machine."""
        self.code = ROOT
        """Where the code lies that runs it: ours, or that of a version before."""
        folder.mkdir(parents=True, exist_ok=True)
        ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        self.keys: dict[str, Any] = {
            "socket_info": ports,
            "scheduler": {"grace_s": 2.0},
            "task_env": {"PYTHONUNBUFFERED": "1", "XDG_STATE_HOME": str(self.state)},
        }
        self.write_conf()
        entry = {"ip": "127.0.0.1", "driver": "local", "gpu_probe": "declared", "gpu_count": gpus, "slots": slots}
        self.write_registry([{"name": name, **entry} for name in self.nodes])

    def write_conf(self, **more: Any) -> None:
        """Write conf.json: what every lab has, and the keys given here."""
        self.keys.update(more)
        rewrite(self.conf, json.dumps(self.keys))

    def write_scheduler(self, **more: Any) -> None:
        """The same of the keys in `scheduler`, of which a test may want shorter periods."""
        self.write_conf(scheduler={**self.keys["scheduler"], **more})

    @property
    def registry(self) -> Path:
        """The list of nodes."""
        return self.folder / "gpu_slaver_info.json"

    def write_registry(self, entries: list[dict[str, Any]]) -> None:
        """Write the list of nodes."""
        rewrite(self.registry, json.dumps(entries))

    @property
    def connections(self) -> int:
        """How many nodes lie behind a connection of their own, which costs the master threads and descriptors."""
        return 0

    @property
    def task_info(self) -> Path:
        """Where the master keeps its queue."""
        return self.folder / "task_info"

    def server_log(self) -> str:
        """What the masters of this lab wrote into their log."""
        return (self.folder / "server_log.log").read_text(encoding="utf-8")

    def environment(self) -> dict[str, str]:
        """What processes of the lab are started with: the caller's environment without his own Muster. The GPUs that a
        test plays stay."""
        own = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("MUSTER_") or name == "MUSTER_AGENT_FAKE_GPUS"
        }
        return {**own, "XDG_STATE_HOME": str(self.state)}

    # -- the master -------------------------------------------------------------------------------------------

    def launch_master(self, failpoint: str = "", *words: str) -> subprocess.Popen[bytes]:
        """Start a master and do not wait for it. `failpoint`: NAME or NAME:COUNT (see `master.durable.failpoint`);
        `words`: what its command line has besides."""
        extra = {"MUSTER_FAILPOINT": failpoint} if failpoint else {}
        with (self.folder / "master.out").open("ab") as out:
            return subprocess.Popen(
                [*self.before, self.python, "-m", "master", "--conf", str(self.conf), *words],
                cwd=self.code,  # which is before all else on the path
                env={**self.environment(), "PYTHONFAULTHANDLER": "1", **extra},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def start(self, failpoint: str = "") -> None:
        """Start the master; without a failpoint, which may end it at any moment, wait until it answers. Leaves nothing
        where it does not."""
        self.master = self.launch_master(failpoint)
        if not failpoint:
            self._await_answer()

    def start_past_damage(self) -> None:
        """The same with `--skip-damaged`."""
        self.master = self.launch_master("", "--skip-damaged")
        self._await_answer()

    def _await_answer(self) -> None:
        try:
            until("the master answers", self._answers)
        except NeverError:
            self.close()
            raise

    def _answers(self) -> bool:
        if self.master is not None and self.master.poll() is not None:
            said = (self.folder / "master.out").read_text(encoding="utf-8")[-2000:]
            raise NeverError(f"the master ended with {self.master.returncode}: {said}")
        with suppress(UnreachableError), self.client() as client:
            return self.master is not None and client.info()["pid"] == self.master.pid
        return False

    def kill_master(self) -> None:
        """SIGKILL, at whatever it does just now."""
        if self.master is not None:
            self.master.kill()
            self.master.wait()
            self.master = None

    def await_failpoint(self, patience: float = PATIENCE_S) -> None:
        """Wait until the armed master has killed itself."""
        if self.master is None:
            raise NeverError("there is no master")
        try:
            code = self.master.wait(patience)
        except subprocess.TimeoutExpired:
            raise NeverError(f"the failpoint was not reached within {patience:.0f} s") from None
        if code != -signal.SIGKILL:
            raise NeverError(f"the master ended with {code}, not by its failpoint")
        self.master = None

    def stop_master(self) -> None:
        """End it as `muster down` would, and wait."""
        if self.master is not None:
            self.master.terminate()
            try:
                code = self.master.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.master.send_signal(signal.SIGABRT)  # which has it say where its threads are
                code = self.master.wait(PATIENCE_S)
            self.master = None
            if code != 0:
                said = (self.folder / "master.out").read_text(encoding="utf-8", errors="replace")[-4000:]
                raise NeverError(f"the master ended with {code} when it was asked to stop: {said}")

    def client(self) -> Client:
        """A connection. Raises UnreachableError while there is no master; one that has no time now is waited for."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return connect(conf=str(self.conf))
            except UnreachableError as error:
                if "timed out" not in str(error) or time.monotonic() > deadline:
                    raise

    def muster(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `muster` in this lab."""
        return subprocess.run(
            [sys.executable, "-m", "muster", *words, "--conf", str(self.conf)],
            cwd=ROOT,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE_S,
            check=False,
        )

    # -- the agents -------------------------------------------------------------------------------------------

    def agent_folder(self, node: str) -> Path:
        """The state folder of a node's agent, once there is one."""
        return until(f"a state folder of {node}", lambda: next(self.state.glob(f"muster/*-{node}"), None))

    def agent_pid(self, node: str) -> int | None:
        """The agent of a node, if it lives."""
        return self._who_locked(self.agent_folder(node) / "lock")

    def agent_pids(self) -> list[int | None]:
        """All agents that there should be; None for one that does not live."""
        return [self.agent_pid(node) for node in self.nodes]

    def _who_locked(self, lock: Path) -> int | None:
        try:
            pid = int(lock.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return None
        return pid if processes.carries(pid, self._mark) else None

    def kill_agent(self, node: str) -> bool:
        """SIGKILL to the agent; whether there was one."""
        pid = self.agent_pid(node)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
        return pid is not None

    def arm_agent(self, node: str, failpoint: str) -> Path:
        """Have the node's agent, or its next shim, killed at a point; the file that is gone when that happened."""
        path = self.agent_folder(node) / "failpoint"
        rewrite(path, failpoint)
        return path

    # -- what lives -------------------------------------------------------------------------------------------

    def processes(self) -> list[Process]:
        """Everything alive that was started by this lab, directly or not."""
        mark = self._mark
        return processes.alive(lambda pid: processes.carries(pid, mark))

    @property
    def _mark(self) -> bytes:
        return f"XDG_STATE_HOME={self.state}".encode()

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Nothing of the lab does anything meanwhile."""
        stopped: set[int] = set()

        def all_stand_still() -> bool:
            """Whoever was forked meanwhile is stopped, too."""
            pids = {process.pid for process in self.processes()}
            for pid in pids - stopped:
                signal_to(pid, signal.SIGSTOP)
            is_new = not stopped >= pids
            stopped.update(pids)
            return not is_new and all(processes.state(pid) in STANDS_STILL for pid in pids)

        try:
            until("everything of the lab stands still", all_stand_still)
            yield
        finally:
            for pid in stopped:
                signal_to(pid, signal.SIGCONT)

    def attempts_alive(self) -> list[Process]:
        """The processes of tasks."""
        return [process for process in self.processes() if process.launch_id]

    def strays(self) -> list[Process]:
        """What should not be there when no task lives: all but the master, the agents, and each one's own forks."""
        everything = self.processes()
        agents = self.agent_pids()
        known = {None if self.master is None else self.master.pid, *agents}
        for agent in agents:
            forks = _children(everything, agent, OWN_FORKS)
            known.update(forks, *(_children(everything, fork, 1) for fork in forks))
        return [process for process in everything if process.pid not in known]

    def close(self) -> list[Process]:
        """End master and agents, then whatever is left; gives what had to be killed, which should be nothing."""
        self.kill_master()
        with suppress(NeverError):
            until("nothing of the lab lives", self._nothing_lives)
        left = self.processes()
        for process in left:
            signal_to(process.pid, signal.SIGKILL)
        return left

    def _nothing_lives(self) -> bool:
        """Ask the agents to end, and again until nothing is left: one that was just being started when the master was
        killed can be asked only later."""
        self.end_agents()
        return not self.processes()

    def end_agents(self) -> None:
        """Ask all agents to end that can be found by now."""
        for lock in self.state.glob("muster/*/lock"):
            signal_to(self._who_locked(lock), signal.SIGTERM)


def _children(everything: list[Process], parent: int | None, limit: int) -> list[int]:
    """The pids of so many children that belong to no task."""
    return [process.pid for process in everything if process.parent == parent and not process.launch_id][:limit]


def signal_to(pid: int | None, number: int) -> None:
    """Send a signal to a process, if there is one and it still lives."""
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
