"""The threads that talk to the master: two that follow its subscriptions, one that asks, one for each log that is read.

What they learn they hand to `tell`, in their own thread; what it means is the state's business. A connection that
breaks is told and opened anew, for as long as it takes. Every thread can be ended at any moment: its socket is shut
under it.
"""

from __future__ import annotations

import random
import socket
import threading
from contextlib import suppress
from queue import SimpleQueue

from client.api import Client, whole_tasks
from client.session import ConnectionLostError, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from client.address import Address

    Tell: TypeAlias = Callable[[dict[str, Any]], None]

SILENCE_S = 10.0
"""After so long without news the master is asked whether it is there; it has as long for its answer."""
PAUSES_S = (0.25, 5.0)
"""Before the first try to connect again, and the longest."""
TAIL = 256 * 1024
"""Bytes of a log's end that are read at first."""
_JOIN_S = 1.0
_PORTS = {"tasks": "train_state_port", "nodes": "monitor_port"}


class Line(Session):
    """A session that another thread may end: the call under way fails at once. None is tried again: whoever reads the
    screen sees that it failed, and that is sooner than the patience of a script."""

    def __init__(self, address: Address, port: int, token: str | None, ended: threading.Event) -> None:
        super().__init__(address.host, port, token, patience=0, trust=address.trust)
        self._ended = ended

    def break_off(self) -> None:
        """End what is under way. Safe in any thread, at any moment."""
        line = self._socket
        if line is not None:
            with suppress(OSError):  # it broke by itself in this moment
                # Of a socket with TLS the plain one beneath: its own way takes from the reader what he reads with.
                socket.socket.shutdown(line, socket.SHUT_RDWR)

    def _open(self) -> None:
        super()._open()
        # Either `break_off` finds this socket, or we find that it was called.
        if self._ended.is_set():
            raise ConnectionLostError("it is not wanted any more")


class Worker:
    """A thread with one line to the master at a time, and an end."""

    def __init__(self, name: str, address: Address, token: str | None) -> None:
        self._address = address
        self._token = token
        self._ended = threading.Event()
        self._line = self._new_line(address.data)
        self._thread = threading.Thread(target=self._run, name=f"top {name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """Break off what is under way; nothing is told any more."""
        self._ended.set()
        self._line.break_off()

    def join(self) -> None:
        """Wait for the thread, but not for a machine that does not answer a connect."""
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        raise NotImplementedError

    def _client(self) -> Client:
        """A client on a line of its own, which `end` breaks."""
        client = Client(self._address, self._token)
        client.session = self._line = self._new_line(self._address.data)
        return client

    def _new_line(self, port: int) -> Line:
        return Line(self._address, port, self._token, self._ended)


class Feed(Worker):
    """Follows one subscription, `nodes` or `tasks`: the snapshot, then what changes, again after each break."""

    def __init__(self, what: str, address: Address, token: str | None, tell: Tell) -> None:
        super().__init__(what, address, token)
        self._what = what
        self._tell = tell
        self._pause = PAUSES_S[0]

    def _run(self) -> None:
        from wire.errors import MusterError

        while not self._ended.is_set():
            try:
                self._follow()
            except (ConnectionLostError, MusterError) as error:
                self._told("lost", {"feed": self._what, "why": str(error)})
            finally:
                self._line.close()
            self._ended.wait(self._pause * random.uniform(0.7, 1.3))  # noqa: S311  (not all at once after a restart)
            self._pause = min(self._pause * 2, PAUSES_S[1])

    def _follow(self) -> None:
        self._line = self._new_line(self._port())
        if self._what == "nodes":
            nodes = self._line.call("subscribe", {}, repeatable=False)["nodes"]
            self._told("nodes", nodes)
        else:
            # Subscribed first, listed second, in the short form: ten thousand tasks are megabytes in the long one.
            self._line.call("subscribe", {"snapshot": "none"}, repeatable=False)
            self._told("tasks", whole_tasks(self._line.call("task.list", {"sparse": True}, repeatable=False)))
        self._pause = PAUSES_S[0]
        while not self._ended.is_set():
            for message in self._line.notifications(SILENCE_S):
                self._told(message["method"], message.get("params", {}))
            self._line.call("server.info", {}, timeout=SILENCE_S, repeatable=False)

    def _port(self) -> int:
        known = self._address.train_state if self._what == "tasks" else self._address.monitor
        if known is not None:
            return known
        client = self._client()
        try:
            return int(client.info()["ports"][_PORTS[self._what]])
        finally:
            client.close()

    def _told(self, method: str, params: Any) -> None:
        if not self._ended.is_set():
            self._tell({"method": method, "params": params})


class Desk(Worker):
    """Asks the master what a person, or the screen, wants to know; one question at a time.

    Each answer is told as {"method": "answer", "params": {"to": what `ask` was given, "result" or "error"}}.
    """

    def __init__(self, address: Address, token: str | None, tell: Tell) -> None:
        super().__init__("desk", address, token)
        self._tell = tell
        self._questions: SimpleQueue[tuple[str, Callable[[Client], Any]] | None] = SimpleQueue()

    def ask(self, to: str, question: Callable[[Client], Any]) -> None:
        """Ask, and tell the answer with the mark `to`."""
        self._questions.put((to, question))

    def end(self) -> None:
        """Break off the question under way."""
        super().end()
        self._questions.put(None)

    def _run(self) -> None:
        from wire.errors import MusterError

        while True:
            asked = self._questions.get()
            if asked is None or self._ended.is_set():
                return
            to, question = asked
            client = self._client()
            try:
                answer: dict[str, Any] = {"to": to, "result": question(client)}
            except MusterError as error:
                answer = {"to": to, "error": f"{error.code}: {error}"}
            finally:
                client.close()
            if not self._ended.is_set():
                self._tell({"method": "answer", "params": answer})


class LogReader(Worker):
    """Follows one log from near its end, each line in its last state.

    Told as {"method": "log", "params": {"reader": this, "lines": bytes, "rest": bytes}}, or with "error", or "over".
    """

    def __init__(self, task_id: int, address: Address, token: str | None, tell: Tell) -> None:
        super().__init__(f"log {task_id}", address, token)
        self._tell = tell
        self.task_id = task_id

    def _run(self) -> None:
        from wire.errors import MusterError

        client = self._client()
        try:
            _, state = client.read_log(self.task_id, 0, 0)
            offset = self._line_begin(client, max(0, int(state["size"]) - TAIL))
            if offset:
                self._told(lines=b"[earlier output is left out]\n", rest=b"")
            for lines, rest in client.collapsed_logs(self.task_id, follow=True, offset=offset):
                self._told(lines=lines, rest=rest)
            self._told(over=True)
        except (ConnectionLostError, MusterError) as error:
            self._told(error=str(error))
        finally:
            client.close()

    def _line_begin(self, client: Client, offset: int) -> int:
        """The first place from `offset` on where a line begins; one longer than a read counts as one that begins."""
        if offset == 0:
            return 0
        data, _ = client.read_log(self.task_id, offset - 1, TAIL)
        at = data.find(b"\n")
        return offset + at if at >= 0 else offset

    def _told(self, **what: Any) -> None:
        if not self._ended.is_set():
            self._tell({"method": "log", "params": {"reader": self, **what}})
