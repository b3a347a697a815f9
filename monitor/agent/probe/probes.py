"""The probes that run now: short questions of the master about this node, each in a fork of its own (`probe`).

It owns their number, their pipes, and that each is answered, even if its fork is killed or frozen. Nothing is durable,
and nothing outlives the connection that asked.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import time
from typing import Any, Callable, Dict, NoReturn, Optional

from wire.account import AccountError

from .. import fork, tree
from .login import Answer
from .logins import Logins
from .probe import GIVE_UP_S, Probe

MAX_PROBES = 24
PATIENCE_S = GIVE_UP_S + 4.0
"""Beyond a probe's own time; then its fork is killed, and the answer is ours."""
Message = Dict[str, Any]


class _Running:
    """One probe. `fd`: where its answer comes, -1 once nobody waits for it."""

    def __init__(self, probe_id: str, timeout_s: float, fd: int, end: float) -> None:
        self.probe_id = probe_id
        self.timeout_s = timeout_s
        self.fd = fd
        self.end = end
        self.head = bytearray()


class Probes:
    """`emit` takes a message for the master, `emit_line` one that is encoded already. `environment`: what a log-in
    here gives, filled in before the first probe; `logins`: what it gives others."""

    def __init__(
        self,
        poller: select.poll,
        environment: Dict[str, str],
        *,
        logins: Logins,
        emit: Callable[[Message], None],
        emit_line: Callable[[bytes], None],
        complain: Callable[[str], None],
    ) -> None:
        self._poller = poller
        self._environment = environment
        self._logins = logins
        self._asker = 0
        """The number of the connection that asks now."""
        self._emit = emit
        self._emit_line = emit_line
        self._complain = complain
        self._running: Dict[int, _Running] = {}
        self._by_fd: Dict[int, _Running] = {}

    def ask(self, message: Message) -> None:
        """Run a probe; what cannot be run is answered at once."""
        problem = _wrong(message)
        if not isinstance(message.get("probe_id"), str):
            self._complain("a probe without an id")
        elif problem:
            self._refuse(message["probe_id"], problem)
        else:
            try:
                self._find_account(message)
            except AccountError as error:
                self._refuse(message["probe_id"], str(error))
            except OSError as error:  # of the question what a log-in gives
                self._refuse(message["probe_id"], f"no process could be made for the probe: {error.strerror}")

    def owns(self, fd: int) -> bool:
        """Whether an answer comes by this descriptor."""
        return fd in self._by_fd

    def on_ready(self, fd: int) -> None:
        """Take what came of an answer."""
        probe = self._by_fd[fd]
        try:
            data = os.read(fd, 1 << 18)
        except BlockingIOError:
            return
        probe.head += data
        if data and not data.endswith(b"\n"):
            return
        self._close(probe)
        if data:
            self._emit_line(bytes(probe.head[:-1]))
        else:
            self._refuse(probe.probe_id, "the process that ran the probe was killed")

    def reap(self, pid: int) -> None:
        """A child ended; its answer, if it gave one, is still in the pipe."""
        self._running.pop(pid, None)

    def look(self, now: float) -> None:
        """From time to time: end those whose fork does not end them."""
        for pid, probe in self._running.items():
            if now < probe.end:
                continue
            tree.send(tree.descendants([pid], tree.everyone()), signal.SIGKILL)
            os.kill(pid, signal.SIGKILL)  # our child, not yet reaped: its pid is nobody else's
            if probe.fd >= 0:
                self._close(probe)
                self._refuse(probe.probe_id, f"timed out after {probe.timeout_s:g} s")

    def drop(self) -> None:
        """The connection that asked is gone: the forks hear it from their pipes, and end what they run."""
        self._asker += 1
        for probe in list(self._by_fd.values()):
            self._close(probe)

    def _find_account(self, message: Message) -> None:
        """Start it, or let it wait for what a log-in of its account gives. Raises AccountError, OSError."""
        asker = self._asker

        def known(login: Optional[Answer]) -> None:
            if asker != self._asker:
                return  # nobody waits for it any more
            if login is not None and login.refusal:
                self._refuse(message["probe_id"], login.refusal)
                return
            if login is None:
                message.pop("run_as", None)
            else:
                message["umask"] = login.umask
            try:
                self._start(message, time.monotonic(), self._environment if login is None else login.variables)
            except OSError as error:
                self._refuse(message["probe_id"], f"no process could be made for the probe: {error.strerror}")

        self._logins.ask(message, known)

    def _start(self, message: Message, now: float, environment: Dict[str, str]) -> None:
        """Fork a probe, unless there are too many. Raises OSError."""
        if len(self._by_fd) >= MAX_PROBES:
            self._refuse(message["probe_id"], f"{MAX_PROBES} probes run on this node already; ask again later")
            return
        read, write = os.pipe()
        try:
            pid = os.fork()
            if pid == 0:
                _become_probe(message, write, environment)
        except OSError:
            os.close(read)
            raise
        finally:
            os.close(write)
        os.set_blocking(read, False)
        probe = _Running(message["probe_id"], message["timeout_s"], read, now + message["timeout_s"] + PATIENCE_S)
        self._running[pid] = self._by_fd[read] = probe
        self._poller.register(read, select.POLLIN)

    def _close(self, probe: _Running) -> None:
        self._poller.unregister(probe.fd)
        del self._by_fd[probe.fd]
        os.close(probe.fd)
        probe.fd = -1

    def _refuse(self, probe_id: str, error: str) -> None:
        answer = {"op": "probed", "probe_id": probe_id, "code": None, "output": "", "truncated": False}
        self._emit({**answer, "error": error})


def _become_probe(message: Message, answers: int, environment: Dict[str, str]) -> NoReturn:
    gc.disable()  # a collection would touch, and so copy, every page that is shared with the agent
    try:
        fork.close_all_but({answers})
        Probe(message, answers, environment).run()
    except BaseException as error:  # noqa: BLE001  (this is a fork: nothing may return into the code above)
        if not isinstance(error, BrokenPipeError):  # the asker went while it was answered
            os.write(2, f"a probe failed: {error!r}\n".encode("utf-8", "replace"))
        os._exit(70)
    os._exit(0)


def _wrong(message: Message) -> Optional[str]:
    """Return the problem with a probe, None if there is none."""
    argv, env = message.get("argv"), message.setdefault("env", {})
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
        return "argv is not a list of words"
    if not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
        return "env is not an object of strings"
    if not isinstance(message.setdefault("cwd", None), (str, type(None))):
        return "cwd is not a folder's name"
    if not isinstance(message.setdefault("stdin", ""), str):
        return "stdin is not text"
    if not isinstance(message.setdefault("timeout_s", 10.0), (int, float)) or message["timeout_s"] <= 0:
        return "timeout_s is not a positive number"
    if not isinstance(message.setdefault("output_limit", 65536), int) or message["output_limit"] < 0:
        return "output_limit is not a number of bytes"
    return None
