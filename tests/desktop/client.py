"""A stand-in for the desktop client that labs have: it connects and writes exactly as that one does.

The reader of that one loses frames that one receive gives it together. This one takes each frame alone, for on a busy
machine it is its own delay that brings them together; it remembers what the other could not have read, and what was
sent so close that the other might have lost it, so that a test can say that it never happened.
"""

from __future__ import annotations

import json
import queue
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Self, TypeVar

from master.desktop import pushes
from tests.desktop.arrivals import TERMINATOR, Arrival, Arrivals
from tests.waiting import PATIENCE_S, until

RECEIVE = 1 << 20
MODES = {"mon", "task_mon"}

T = TypeVar("T")
Tables = dict[str, list[dict[str, Any]]]


class Frame(NamedTuple):
    """One frame that was read: when (it came after `since`), and what it said."""

    since: float
    at: float
    mode: str
    ui: str
    info: Any


class Reader(threading.Thread):
    """One connection, and what its reader made of it. `began`: when it was about to connect; `judges`: whether the
    sender is at its other end, so that frames that come too close are his doing."""

    def __init__(self, address: tuple[str, int], *, judges: bool = True) -> None:
        super().__init__(daemon=True)
        self.began = time.monotonic()
        self.socket = socket.create_connection(address, timeout=PATIENCE_S)
        self.socket.settimeout(None)
        self._arrivals = Arrivals(self.socket)
        self._judges = judges
        self._unreadable: list[str] = []
        self.frames: queue.Queue[Frame] = queue.Queue()
        self.seen: list[Frame] = []
        self.ended = threading.Event()
        self.start()

    def run(self) -> None:
        """Read until the connection ends."""
        data = b"?"
        while data:
            try:
                data, arrived = self._arrivals.receive(RECEIVE)
            except OSError:
                break
            for one in arrived:
                self._take(one)
        self.ended.set()

    def _take(self, arrival: Arrival) -> None:
        try:
            value = json.loads(arrival.data.decode("ascii"))
            frame = Frame(arrival.since, arrival.at, value["mode"], value["ui"], value["info"])
        except (ValueError, KeyError, TypeError):
            self._unreadable.append(arrival.data.decode("utf-8", "backslashreplace"))
            return
        self.seen.append(frame)
        self.frames.put(frame)

    @property
    def read_err(self) -> list[str]:
        """What could not be read, and what was sent too close behind something else."""
        close = self._arrivals.too_close if self._judges else []
        return [*self._unreadable, *(f"too close behind another: {begin!r}" for begin in close)]

    def next(self, patience: float = PATIENCE_S) -> Frame:
        """The next frame that was not asked for yet. Raises queue.Empty."""
        return self.frames.get(timeout=patience)

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def close(self) -> None:
        """Drop the socket, once nobody reads from it any more."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RD)
        self.join()
        self.socket.close()


class DesktopClient:
    """The three connections, opened in the client's order, and the question it begins with. `ports`: addresses by the
    names of conf.json; `judges`: see `Reader`."""

    def __init__(self, ports: dict[str, tuple[str, int]], *, judges: bool = True) -> None:
        self.monitor = Reader(ports["monitor_port"], judges=judges)
        self.data = Reader(ports["data_port"], judges=judges)
        self.train = Reader(ports["train_state_port"], judges=judges)
        self.readers = (self.data, self.monitor, self.train)
        self._before = 0
        """How many pushes of the tables had come when it last asked for something."""
        self.ask("get_root")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, mode: str, info: Any, ui: str = "main") -> None:
        """Send a request and do not wait."""
        self._before = len(self.train.seen)
        self.data.send(request(mode, info, ui))

    def ask(self, mode: str, info: Any = "", ui: str = "main", *, patience: float = PATIENCE_S) -> Any:
        """Send a request; what the reply says, whose `ui` must be the request's and whose mode must be its own."""
        reply = self.reply(mode, info, ui, patience=patience)
        assert reply.mode == REPLIES[mode], reply
        return reply.info

    def reply(self, mode: str, info: Any = "", ui: str = "main", *, patience: float = PATIENCE_S) -> Frame:
        """Send a request and give the next frame, whatever it is."""
        self.send(mode, info, ui)
        frame = self.data.next(patience)
        assert frame.ui == ui, frame
        return frame

    def add(self, command: str, **keys: Any) -> str:
        """Add a task; what the box says, empty if it was filed."""
        text = self.ask("add_task", form(command, **keys), "task_ctrl")
        assert isinstance(text, str)
        return text

    def tasks(self) -> Tables:
        """The three tables as they are now, or later. The next push may be older: it may be on its way already, and for
        a while a master tells again what it has encoded. So this is the push behind the first one that came so late
        that the one behind it was encoded after the question."""
        asked_at = time.monotonic()
        while self.train.next().since < asked_at + pushes.EVERY_S / pushes.ENCODINGS:
            pass
        lists = self.train.next().info
        assert isinstance(lists, dict)
        return lists

    def watch(self, what: str, look: Callable[[Tables], T | None], patience: float = PATIENCE_S) -> T:
        """What `look` finds first in the tables pushed since the last request. Each push is looked at, for a row may
        scroll by between two looks at the newest. Raises NeverError."""
        looked = self._before

        def found() -> T | None:
            nonlocal looked
            while looked < len(self.train.seen):
                looked += 1
                if value := look(self.train.seen[looked - 1].info):
                    return value
            return None

        return until(what, found, patience)

    @property
    def read_err(self) -> list[str]:
        """What any of the three readers could not read."""
        return [text for reader in self.readers for text in reader.read_err]

    def close(self) -> None:
        """Close the window."""
        for reader in self.readers:
            with suppress(OSError):
                reader.send(f"CLIEND_CLOSE{TERMINATOR}".encode())
            reader.close()


REPLIES = {
    "get_root": "ret_root",
    "env_list": "ret_env_list",
    "test_env": "ret_test_env",
    "py_v": "ret_py_v",
    "cuda_pt": "ret_cuda_pt",
    "cuda_tf": "ret_cuda_tf",
    "pkgs": "ret_pkgs",
    "get_folder": "ret_folder",
    "get_file": "ret_file",
    "save_file": "ret_save_file",
    "file_operate": "ret_file_operate",
    "rm_file": "ret_rm_file",
    "add_task": "ret_add_task",
    "change_task": "ret_change_task",
    "del_task": "ret_del_task",
    "resub_task": "ret_resub_task",
    "stop_task": "ret_stop_task",
    "get_train_log_path": "ret_train_log_path",
    "get_server_log": "ret_server_log",
}


def request(mode: str, info: Any, ui: str = "main") -> bytes:
    """A request as the client writes it: standard JSON, ASCII, the terminator left as it is where it stands in it."""
    return (json.dumps({"mode": mode, "ui": ui, "info": info}) + TERMINATOR).encode("ascii")


def form(command: str, **keys: Any) -> dict[str, Any]:
    """What the client's dialog of a task holds."""
    plain = {
        "task_id": "",
        "envs": "",
        "path": "/",
        "exec": command,
        "need_gpus": "0",
        "slaver": "<默认>",
        "prev": "(无)",
        "is_urgent": 0,
        "is_reuse_gpu": 0,
        "state": "",
    }
    return {**plain, **keys}
