"""A master for the client's tests: real sockets, the real dialect, answers that a test lays down. Schedules nothing."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wire.framing import encode
from wire.message import NONE, Message

Verb = Callable[[dict[str, Any]], Any]


class Refusal(Exception):  # noqa: N818  (it is an answer, not a defect)
    """Raised by a verb of a test: answered as an error with this stable code, and what else is said of it."""

    def __init__(self, code: str, message: str | Message, **data: Any) -> None:
        super().__init__(str(message))
        if isinstance(message, Message):
            data |= {"key": message.key, "args": message.plain_args()}
        self.data = {"code": code, **data}


def unknown_node(name: str) -> Message:
    """Return what a master refuses with whose registry has no nodes."""
    return Message("node_not_in_registry", node=name, nodes=NONE)


class HangUp(Exception):  # noqa: N818  (an order to the server)
    """Raised by a verb of a test: the connection is closed without an answer."""


def task(task_id: int, state: str = "waiting", **fields: Any) -> dict[str, Any]:
    """A task with every key of the surface."""
    return {
        "id": task_id, "name": "", "owner": "ada", "project": "", "state": state, "reason": None,
        "command": ["python", "train.py"], "cwd": "/data", "env": "", "gpus": 0, "gpu_memory_mib": None,
        "share": False, "node": None, "after": [], "priority": 0, "urgent": False, "time_limit_s": None,
        "attempt": 1, "submitted_at": 1000.0, "started_at": None, "ended_at": None, "exit_code": None,
        "log_path": "", "cancel_requested": False, "allocation": [], **fields,
    }  # fmt: skip


class _Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        master: FakeMaster = self.server.master  # type: ignore[attr-defined]
        try:
            for line in self.rfile:
                request = json.loads(line)
                # Before the answer, which lets a test add those of the next one.
                notes = master.after.pop(request["method"], [])
                self.wfile.write(encode(master.answer(request)))
                for note in notes:
                    self.wfile.write(encode({"jsonrpc": "2.0", "method": "task.changed", "params": note}))
        except (HangUp, ConnectionError):
            return


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64


class FakeMaster:
    """Verbs by name, calls as they came. `after`: notifications to send once after the answer to a method."""

    def __init__(self, verbs: dict[str, Verb]) -> None:
        self.verbs = verbs
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.after: dict[str, list[dict[str, Any]]] = {}
        self._server = _Server(("127.0.0.1", 0), _Connection)
        self._server.master = self  # type: ignore[attr-defined]
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> FakeMaster:  # noqa: PYI034  (not meant to be inherited from)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to one request."""
        envelope = {"jsonrpc": "2.0", "id": request["id"]}
        if request["method"] == "server.hello" and "server.hello" not in self.verbs:
            return {**envelope, "result": {"lab": request["params"]["lab"]}}  # it is of every lab
        self.calls.append((request["method"], request["params"]))
        if request["method"] not in self.verbs:  # as every master does; who hears nothing asks again for a while
            error = {"code": -32601, "message": "there is no such verb", "data": {"code": "unknown_method"}}
            return {**envelope, "error": error}
        try:
            return {**envelope, "result": self.verbs[request["method"]](request["params"])}
        except Refusal as error:
            return {**envelope, "error": {"code": -32000, "message": str(error), "data": error.data}}

    def asked(self, method: str) -> list[dict[str, Any]]:
        """The parameters of each call of a method."""
        return [params for name, params in self.calls if name == method]

    def conf(self, folder: Path) -> str:
        """A conf.json that leads here: all three ports are the same one."""
        path = folder / "conf.json"
        ports = dict.fromkeys(("monitor_port", "data_port", "train_state_port"), self.port)
        path.write_text(json.dumps({"socket_info": ports}))
        return str(path)
