"""Eyes on a run from outside, each a thread: the published files, the stream of tasks, the books of who holds what.

They know what is documented (names of files, verbs, states) and nothing of our code. `problems` is empty when all held.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.storm.line import GoneError, Line, RefusedError
from tests.waiting import NeverError, until

PUBLISHED = ("wait_task.json", "exec_task.json", "hist_task.json", "state.json")
ENDED = frozenset({"succeeded", "failed", "cancelled", "timed_out", "lost"})
QUEUED = frozenset({"waiting", "held"})
RUNNING = frozenset({"running", "paused"})
ACTIVE = RUNNING | {"starting"}
TOLD = 20


class Watcher(threading.Thread):
    """Looks again and again until it is stopped; that there is no master just now is nothing to tell."""

    pause_s = 0.05

    def __init__(self) -> None:
        super().__init__(name=type(self).__name__, daemon=True)
        self.looks = 0
        self.problems: list[str] = []
        self._stopped = threading.Event()

    def run(self) -> None:
        """Look."""
        while not self._stopped.wait(self.pause_s):
            try:
                with suppress(GoneError, RefusedError):
                    self.look()
            except Exception as error:  # noqa: BLE001  (a thread's end must be seen by the run, whatever it was)
                self.tell(f"{self.name} stopped looking: {error!r}")
                return

    def look(self) -> None:
        """Look once."""
        raise NotImplementedError

    def tell(self, problem: str) -> None:
        """Keep a problem, the first few."""
        if len(self.problems) < TOLD:
            self.problems.append(problem)

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()


class FilesWatcher(Watcher):
    """Reads each published file whenever it is another one: it always parses, and names no task twice. `paused`:
    somebody damages them on purpose."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.paused = threading.Lock()
        self._folder = folder
        self._seen: dict[str, tuple[int, int]] = {}

    def look(self) -> None:
        """All of them."""
        with self.paused:
            for name in PUBLISHED:
                with suppress(FileNotFoundError):
                    self._look_at(name)

    def _look_at(self, name: str) -> None:
        path = self._folder / name
        status = path.stat()
        if self._seen.get(name) == (status.st_ino, status.st_mtime_ns):
            return
        self._seen[name] = (status.st_ino, status.st_mtime_ns)
        self.looks += 1
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            self.tell(f"{name} was seen while it was not JSON: {error}")
            return
        if name != "state.json":
            ids = [task["id"] for task in found]
            if len(set(ids)) != len(ids):
                self.tell(f"{name} has a task twice")


class StreamWatcher(Watcher):
    """Follows every task over the port for that: what has ended stays ended, and what runs never waits again."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self._states: dict[int, str] = {}

    def look(self) -> None:
        """As long as the connection holds."""
        with Line(self._port, timeout=1.0) as line:
            line.call("subscribe", snapshot="none")
            for said in line.heard():
                task = said["params"].get("task")
                if task is not None:
                    self._take(task["id"], task["state"])

    def _take(self, number: int, state: str) -> None:
        self.looks += 1
        before = self._states.get(number, "waiting")
        went_back = (before in ENDED and state != before) or (before in RUNNING and state not in RUNNING | ENDED)
        if went_back:
            self.tell(f"task {number} was shown as {before} and then as {state}")
        self._states[number] = state


class LedgerWatcher(Watcher):
    """Compares what nodes say is held with what running tasks say that they hold.

    Tasks and nodes are asked for in turn. A task that held a GPU before and after the nodes were asked must hold it
    there, and what a node shows before and after the tasks were asked must be a task's.
    """

    pause_s = 1.0

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self.most_held = 0

    def look(self) -> None:
        """Once around."""
        with Line(self._port) as line:
            first, tasks_1 = self._nodes(line), self._tasks(line)
            second, tasks_2 = self._nodes(line), self._tasks(line)
        self.looks += 1
        self.most_held = max(self.most_held, len(second))
        for gpu, holder in first.items() & second.items():
            if tasks_1.get(gpu) != {holder}:
                self.tell(f"GPU {gpu} is held by {holder} for the nodes, by {tasks_1.get(gpu)} for the tasks")
        for place, holders in tasks_2.items():
            if len(holders) > 1:
                self.tell(f"GPU {place} is booked for {sorted(holders)}")
            if tasks_1.get(place) == holders and {second.get(place)} != holders:
                self.tell(f"GPU {place} is held by {holders} for the tasks, by {second.get(place)} for the nodes")

    @staticmethod
    def _nodes(line: Line) -> dict[tuple[str, int], int]:
        gpus = [(node["name"], gpu) for node in line.call("node.list") for gpu in node["gpus"]]
        return {(name, gpu["index"]): gpu["held_by"][0] for name, gpu in gpus if gpu["held_by"]}

    @staticmethod
    def _tasks(line: Line) -> dict[tuple[str, int], set[int]]:
        found: dict[tuple[str, int], set[int]] = {}
        for task in line.call("task.list", active=True)["tasks"]:
            if task["state"] in ACTIVE:
                for part in task["allocation"]:
                    for gpu in part["gpus"]:
                        found.setdefault((part["node"], gpu), set()).add(task["id"])
        return found


class SecretsWatcher(Watcher):
    """Looks through the command lines of this machine, and all of its namespaces, for a secret."""

    pause_s = 3.0

    def __init__(self, secret: str) -> None:
        super().__init__()
        self._secret = secret.encode()

    def look(self) -> None:
        """All processes."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    line = (entry / "cmdline").read_bytes()
                    if self._secret in line.replace(b"\0", b" ") or self._secret in line:
                        self.tell(f"a secret stands in a command line: {line!r}")
        self.looks += 1


def holders_of(secret: str, folders: list[Path], but: Callable[[Path], bool]) -> list[str]:
    """The files beneath these folders that hold a secret."""
    found = []
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_symlink() and not but(path):
                with suppress(OSError):
                    if secret.encode() in path.read_bytes():
                        found.append(str(path))
    return found


def wait_until(what: str, condition: Callable[[], Any], patience: float) -> str | None:
    """Wait for a condition; None when it came, else that it did not."""

    def came() -> Any:
        with suppress(GoneError, RefusedError):
            return condition()
        return None

    try:
        until(what, came, patience)
    except NeverError as error:
        return str(error)
    return None
