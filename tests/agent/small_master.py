"""A very small master for tests: it builds the archive, starts real agents from it and speaks their wire to them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from master.drivers.agent_archive import build
from tests.testbed import processes
from tests.testbed.archives import VERSION, of_another_version, with_changes
from tests.waiting import PATIENCE_S, until
from wire.agent import HEARTBEAT_S, MAX_FRAME
from wire.framing import LineDecoder, encode, strict_loads

_RUN = f"-{os.getpid()}"
Message = dict[str, Any]


def alive(pid: int) -> bool:
    """Whether the process lives; a zombie does not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text[text.rindex(")") + 2] not in "ZX"


def descriptors(pid: int) -> dict[str, str]:
    """What a process has open, by number; those that are closed meanwhile are left out."""
    found = {}
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found[path.name] = str(path.readlink())
    return found


def known(launch_id: str) -> str:
    """A launch id of a test as the agent knows it. Agents look for what is left of an attempt on the whole machine, and
    tests that run side by side, in one run or in several, all call theirs t1."""
    return launch_id and launch_id + _RUN


def outward(message: Message) -> Message:
    """A message with its launch ids as the agent knows them."""
    named = dict(message)
    if "launch_id" in message:
        named["launch_id"] = known(message["launch_id"])
    if "launch_ids" in message:
        named["launch_ids"] = [known(launch_id) for launch_id in message["launch_ids"]]
    return named


def inward(message: Message) -> Message:
    """A message with its launch ids as the tests know them."""
    named = dict(message)
    if "launch_id" in message:
        named["launch_id"] = message["launch_id"].removesuffix(_RUN)
    if "attempts" in message:
        named["attempts"] = [inward(attempt) for attempt in message["attempts"]]
    return named


def _connected(address: Path) -> socket.socket:
    """A connection to an agent, however long its socket's name is."""
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(PATIENCE_S)
    folder = os.open(address.parent, os.O_RDONLY)
    try:
        made.connect(f"/proc/self/fd/{folder}/{address.name}")
    except OSError:
        made.close()
        raise
    finally:
        os.close(folder)
    return made


class Link:
    """One connection, as a master's: also while a test waits for something else, the agent hears from it."""

    def __init__(
        self, address: Path, *, epoch: int, incarnation: str, lineage: list[list[Any]] | None, protocol: int = 1
    ) -> None:
        self.socket = _connected(address)
        self._decoder = LineDecoder(MAX_FRAME)
        self._arrived: list[Message] = []
        self._sending = threading.Lock()
        self._over = threading.Event()
        self._beats = 0
        """How many pings were sent whose answers nobody waits for."""
        ancestry = [[epoch, incarnation]] if lineage is None else lineage
        hello = {"op": "hello", "protocol": protocol, "cluster": "test", "epoch": epoch, "incarnation": incarnation}
        self.send({**hello, "lineage": ancestry})
        self.welcome = self.read()
        self.inventory: dict[str, Message] = {}
        if self.welcome["op"] == "welcome":
            self.inventory = {entry["launch_id"]: entry for entry in self.read()["attempts"]}
        threading.Thread(target=self._beat, daemon=True).start()

    def _beat(self) -> None:
        """An agent gives up who is silent for three heartbeats, and on a busy machine a test may wait for longer."""
        while not self._over.wait(HEARTBEAT_S):
            with self._sending, suppress(OSError):
                if not self._over.is_set():
                    self._beats += 1
                    self.socket.sendall(encode({"op": "ping"}))

    def send(self, message: Message) -> None:
        with self._sending:
            self.socket.sendall(encode(outward(message)))

    def read(self) -> Message:
        """The next message; samples, and answers to what nobody asked, are left out. Raises EOFError."""
        while True:
            while not self._arrived:
                data = self.socket.recv(65536)
                if not data:
                    raise EOFError
                self._arrived = [inward(strict_loads(line)) for line in self._decoder.feed(data)]
            message: Message = self._arrived.pop(0)
            if message["op"] == "pong" and self._beats:
                with self._sending:
                    self._beats -= 1  # they are answered in their order: whoever waits for his own gets the last one
            elif message["op"] != "sample":
                return message

    def wait_for(self, op: str, launch_id: str) -> Message:
        """The next such message about this launch; others are dropped."""
        while True:
            message = self.read()
            if message["op"] == op and message.get("launch_id") == launch_id:
                return message

    def ping(self) -> None:
        """Return once the agent has dealt with everything sent before; whatever it said meanwhile is dropped."""
        self.send({"op": "ping"})
        while self.read()["op"] != "pong":
            pass

    def kill(self, launch_id: str, grace_s: float = 5.0) -> None:
        self.send({"op": "kill", "launch_id": launch_id, "grace_s": grace_s})

    def pause(self, launch_id: str) -> None:
        self.send({"op": "pause", "launch_id": launch_id})

    def resume(self, launch_id: str) -> None:
        self.send({"op": "resume", "launch_id": launch_id})

    def retire(self) -> list[Message]:
        """Have the agent end; what it said until then."""
        self._over.set()
        self.send({"op": "retire"})
        said: list[Message] = []
        with suppress(EOFError):
            while True:
                said.append(self.read())
        return said

    def ask(self, probe_id: str, argv: list[str], **keys: Any) -> None:
        base: Message = {"op": "probe", "probe_id": probe_id, "argv": argv, "cwd": None, "env": {}, "stdin": ""}
        self.send({**base, "timeout_s": 10.0, "output_limit": 65536, **keys})

    def answer(self, probe_id: str) -> Message:
        """The answer to a probe; anything else that comes meanwhile is dropped."""
        while True:
            message = self.read()
            if message["op"] == "probed" and message["probe_id"] == probe_id:
                return message

    def probe(self, argv: list[str], **keys: Any) -> Message:
        self.ask("p", argv, **keys)
        return self.answer("p")

    def ack(self, *launch_ids: str) -> None:
        self.send({"op": "ack", "launch_ids": list(launch_ids)})

    def adopt(self, *entries: Message) -> None:
        """Tell it of attempts that it has not claimed; what it has then is the new inventory."""
        self.send({"op": "adopt", "attempts": [outward(entry) for entry in entries]})
        while (message := self.read())["op"] != "inventory":
            pass
        self.inventory = {entry["launch_id"]: entry for entry in message["attempts"]}

    def close(self) -> None:
        self._over.set()
        with self._sending:
            self.socket.close()


@cache
def built() -> tuple[str, bytes]:
    """The archive, made once for all machines: that takes as long as to start an agent."""
    archive = build()
    return archive.version, archive.compiled.data


class Node:
    """A machine with an agent: its state folder, its archive, and what was started there."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.state = folder / "state"
        self.logs = folder / "logs"
        self.version, data = built()
        self.archive = folder / "agent.pyz"
        self.archive.write_bytes(data)
        self.python = python
        self.env = {**os.environ, "MUSTER_AGENT_IDLE_S": "30"}
        self.links: list[Link] = []
        self.agents: list[int] = []
        self.marks: list[str] = []

    def change_version(self) -> None:
        """From now on agents are started from an archive of another version, in which every module has another name,
        as a newer master might send."""
        self.change_archive({"__main__.py": (b"from agent.main", b"from newer.main")})
        newer = self.archive.with_name("newer.pyz")
        of_another_version(self.archive, newer, lambda name: name.replace("agent/", "newer/", 1))
        self.archive, self.version = newer, VERSION

    def change_archive(self, changes: dict[str, tuple[bytes, bytes]]) -> None:
        """From now on agents are started from an archive in which a text of a file, by its name, is another one."""
        other = self.archive.with_name("changed.pyz")
        with_changes(self.archive, other, changes)
        self.archive = other

    def serve(self, **env: str) -> subprocess.CompletedProcess[str]:
        command = [self.python, "-I", "-S", str(self.archive), "serve", "--state", str(self.state)]
        whole = {**self.env, **env}
        done = subprocess.run(command, env=whole, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode == 0:
            self.agents.append(int((self.state / "lock").read_text(encoding="ascii")))
        return done

    def link(
        self, epoch: int = 1, incarnation: str = "a", lineage: list[list[Any]] | None = None, *, protocol: int = 1
    ) -> Link:
        address = self.state / "agent.sock"
        link = Link(address, epoch=epoch, incarnation=incarnation, lineage=lineage, protocol=protocol)
        self.links.append(link)
        return link

    def up(self, **env: str) -> Link:
        """A new agent and a connection to it."""
        done = self.serve(**env)
        assert done.returncode == 0, done.stderr
        return self.link()

    def kill_agent(self, link: Link) -> None:
        """SIGKILL to the agent, and wait until it is gone."""
        os.kill(link.welcome["pid"], signal.SIGKILL)
        self.wait_agent_gone(link)

    def wait_agent_gone(self, link: Link) -> None:
        until("the agent's end", lambda: not alive(link.welcome["pid"]))

    def message(self, launch_id: str, command: str | list[str], **keys: Any) -> Message:
        self.marks.append(launch_id)
        argv = ["/bin/bash", "-c", command] if isinstance(command, str) else command
        base = {"op": "launch", "launch_id": launch_id, "argv": argv, "cwd": str(self.state), "env": {}}
        return {**base, "log_path": str(self.log(launch_id)), "grace_s": 5.0, "time_limit_s": None, **keys}

    def launch(self, link: Link, launch_id: str, command: str | list[str], **keys: Any) -> None:
        link.send(self.message(launch_id, command, **keys))

    def run(self, link: Link, launch_id: str, command: str | list[str], **keys: Any) -> Message:
        """Launch, and wait for the exit."""
        self.launch(link, launch_id, command, **keys)
        return link.wait_for("exit", launch_id)

    def empty(self) -> None:
        """Remove all that is in its state folder, as a cleaner, or a task, may do."""
        for path in self.state.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def log(self, launch_id: str) -> Path:
        return self.logs / f"{launch_id}.log"

    def text(self, launch_id: str) -> str:
        with suppress(FileNotFoundError):
            return self.log(launch_id).read_text(encoding="utf-8")
        return ""

    def claim(self, launch_id: str) -> Path:
        return self.state / "attempts" / known(launch_id)

    def shim_of(self, launch_id: str) -> int:
        def first_line() -> bytes:
            with suppress(FileNotFoundError):
                return (self.claim(launch_id) / "record").read_bytes().partition(b"\n")[0]
            return b""

        return int(strict_loads(until("the claim", first_line))["shim"])

    def children(self, link: Link) -> list[int]:
        """The agent's living children: its sampler, its spare, its shims."""
        pid = link.welcome["pid"]
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
        return [child for child in map(int, text.split()) if alive(child)]

    def carriers(self, launch_id: str) -> list[int]:
        """Living processes that carry the launch id."""
        mark = f"MUSTER_LAUNCH_ID={known(launch_id)}".encode()
        return [one.pid for one in processes.alive(lambda pid: processes.carries(pid, mark))]

    def forks(self) -> list[int]:
        """Living agents of this node's folder and their forks that are not a command yet."""
        folder = os.fsencode(self.state)
        return [one.pid for one in processes.alive(lambda pid: folder in processes.words(pid))]

    def clean(self) -> None:
        """End whatever a test left, so that no test sees another's processes."""
        for link in self.links:
            link.close()
        agents = filter(_is_agent, self.agents)  # the number of one that is gone may be another process's by now
        roots = {*agents, *self.forks()}.union(*map(self.carriers, self.marks))
        for process in _with_descendants(roots):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        for mark in self.marks:  # what was forked meanwhile
            for pid in self.carriers(mark):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.state, ignore_errors=True)


def _is_agent(pid: int) -> bool:
    with suppress(OSError):
        return b"\0--state\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _with_descendants(roots: set[int]) -> list[psutil.Process]:
    found = []
    for pid in roots:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            found += [process, *process.children(recursive=True)]
    return found
