"""A folder with a master of its own, and the bench's way of starting, killing and watching it.

The folder lies beneath `build/` of the folder in which the bench runs, on the same disk as a task_info there. Every
process that was started from it has the folder's name in XDG_STATE_HOME (master and agents inherit it, tasks get it
from conf.json); that is how all of it is found and ended, by pid.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from client.api import Client
from client.session import Session
from tests.ports import free_ports
from wire.errors import MusterError

DEADLINE_S = 60.0
IN_MEMORY = frozenset({"tmpfs", "ramfs"})
PORTS = ("monitor_port", "data_port", "train_state_port")
ROOT = Path(__file__).parent.parent
_POLL_S = 0.002
_ROOM = 1 << 16
"""Bytes received at once. For more than 128 KiB the C library would ask the kernel each time, which the floor must not
pay for."""
_MIB = 1 << 20


class BenchError(Exception):
    """Something that has nothing to do with speed went wrong; the figures would mean nothing."""


@dataclass(frozen=True)
class Scale:
    """How much is measured. `runs`: the median is taken of so many; `share`: of the full number of tasks."""

    runs: int
    share: float = 1.0

    def of(self, count: int) -> int:
        """The number of tasks to use where the full measurement uses `count`."""
        return max(10, int(count * self.share))


def eventually(condition: Callable[[], bool], what: str, pause_s: float = _POLL_S) -> None:
    """Wait until the condition is true. Raises BenchError after DEADLINE_S."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > end:
            raise BenchError(f"never came: {what}")
        time.sleep(pause_s)


def file_system(path: Path) -> str:
    """The type of the file system that holds `path`."""
    best, kind = "", "unknown"
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        left, _, right = line.partition(" - ")
        mount = left.split()[4].rstrip("/") + "/"
        if f"{path}/".startswith(mount) and len(mount) >= len(best):
            best, kind = mount, right.split()[0]
    return kind


@contextmanager
def workshop() -> Iterator[Path]:
    """A new folder beneath build/, gone afterwards with every process that was started from it."""
    build = Path.cwd() / "build"
    build.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=build))
    try:
        yield folder
    finally:
        end_processes(folder)
        shutil.rmtree(folder)


class Lab:
    """One master with one node here. `gpus` are declared, not probed. Use it as a context manager."""

    def __init__(self, workshop: Path, *, slots: int = 2, gpus: int = 0) -> None:
        self.nodes = 1
        self.folder = Path(tempfile.mkdtemp(prefix="lab-", dir=workshop))
        self.conf = self.folder / "conf.json"
        self.environment = {**clean_environment(), "XDG_STATE_HOME": str(self.folder)}
        self._ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        self._slots = slots
        self._gpus = gpus
        self._master: subprocess.Popen[bytes] | None = None
        self._write()

    def __enter__(self) -> Self:
        self.start()
        self.await_nodes()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        end_processes(self.folder)
        shutil.rmtree(self.folder)

    @property
    def pid(self) -> int:
        """The master's."""
        if self._master is None:
            raise BenchError("the master does not run")
        return self._master.pid

    @property
    def data_port(self) -> int:
        """Where requests go."""
        return self._ports["data_port"]

    def client(self) -> Client:
        """A new connection to the data port."""
        from client.address import read_conf  # noqa: PLC0415  (beside its only use)

        return Client(read_conf(str(self.conf)))

    def task_changes(self) -> Session:
        """A connection to the train-state port that is told of every change from now on."""
        session = Session("127.0.0.1", self._ports["train_state_port"])
        session.call("subscribe", {"snapshot": "none"})
        return session

    def start(self) -> None:
        """Start the master; return when it has answered `server.info`."""
        with (self.folder / "master.out").open("ab") as out:
            self._master = subprocess.Popen(
                [sys.executable, "-m", "master", "--conf", str(self.conf)],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        eventually(self._answers, "the master's first answer")

    def await_nodes(self) -> None:
        """Wait until all nodes take tasks."""
        with self.client() as client:
            eventually(lambda: client.info()["nodes"] == {"online": self.nodes}, "the nodes, online")

    def kill(self) -> None:
        """SIGKILL to the master, and wait until it is gone. Agents and tasks live on."""
        if self._master is not None:
            self._master.kill()
            self._master.wait()
            self._master = None

    def fill(self, count: int) -> None:
        """Let `count` tasks of eight different shapes wait for the GPUs, all of which one sleeping task holds."""
        with self.client() as client:
            blocker = client.submit(["sleep", "1000000"], gpus=self._gpus)
            client.wait([blocker], DEADLINE_S, until="started")
        self.add(count)
        with self.client() as client:
            waiting = client.info()["tasks"]["waiting"]
        if waiting != count:
            raise BenchError(f"{waiting} tasks wait instead of {count}")

    def add(self, count: int) -> None:
        """Submit `count` tasks more of the eight shapes."""
        with self.client() as client:
            for part in range(8):
                commands = [f"python train.py --fold {part} --seed {seed}" for seed in range(part, count, 8)]
                client.submit_batch(commands, gpus=1 + part, name=f"sweep-{part}", priority=part % 3)

    def _answers(self) -> bool:
        if self._master is not None and self._master.poll() is not None:
            words = (self.folder / "master.out").read_text(encoding="utf-8", errors="replace").strip()
            raise BenchError(f"the master ended: {words[-300:] or 'it said nothing'}")
        session = Session("127.0.0.1", self.data_port, patience=0.0)
        try:
            session.call("server.info", {}, repeatable=False)
        except MusterError:
            return False
        finally:
            session.close()
        return True

    def _write(self) -> None:
        (self.folder / "gpu_slaver_info.json").write_text(json.dumps(self._registry()), encoding="utf-8")
        mark = {"task_env": {"XDG_STATE_HOME": str(self.folder)}}
        self.conf.write_text(json.dumps({"socket_info": self._ports, **mark, **self._keys()}), encoding="utf-8")

    def _registry(self) -> list[dict[str, Any]]:
        return [{"name": "here", "ip": "127.0.0.1", "driver": "local", **self._counts()}]

    def _counts(self) -> dict[str, Any]:
        return {"gpu_probe": "declared", "gpu_count": self._gpus, "slots": self._slots}

    def _keys(self) -> dict[str, Any]:
        """Return the keys of conf.json besides the ports."""
        return {}


def clean_environment() -> dict[str, str]:
    """Ours, without what would point a child to another master, make it die on purpose, or compile at each start."""
    unwanted = {"PYTHONDONTWRITEBYTECODE"}
    return {
        name: value for name, value in os.environ.items() if not name.startswith("MUSTER_") and name not in unwanted
    }


def processes(folder: Path) -> list[int]:
    """The pids of whatever was started with a state folder in or beneath `folder`."""
    mark = f"\0XDG_STATE_HOME={folder}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and mark in b"\0" + (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


def end_processes(folder: Path) -> None:
    """SIGKILL to all of `processes(folder)`, until there are none."""

    def none_left() -> bool:
        pids = processes(folder)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not pids

    eventually(none_left, f"the end of what was started in {folder}", 0.01)


def resident_mib(pid: int) -> float:
    """How much memory a process has in RAM."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / _MIB


def cpu_seconds(pids: list[int]) -> float:
    """User and system time of the processes together; one that is gone counts nothing."""
    ticks = 0
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            ticks += sum(map(int, text.rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


class RawConnection:
    """Frames to the data port and back, as bytes: what the master takes, without what a client adds."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), DEADLINE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def exchange(self, frames: bytes, answers: int = 1) -> list[bytes]:
        """Send, and give the pieces of what comes back until so many lines have come. Raises BenchError."""
        self._socket.sendall(frames)
        pieces = []
        while answers > 0:
            piece = self._socket.recv(_ROOM)
            if not piece:
                raise BenchError("the master closed the connection")
            pieces.append(piece)
            answers -= piece.count(b"\n")
        return pieces


def request(number: int, method: str, params: dict[str, Any]) -> bytes:
    """One call, as a line."""
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"
