"""The fork of the agent that stands over one probe: runs it, keeps the head of what it prints, ends its whole tree.

It owns one command's tree as its parent and subreaper, and answers with one line on a pipe. When nobody reads that pipe
any more (the asking connection or the agent is gone), the tree is killed. A command that cannot even be killed, because
the kernel has it waiting for a dead file server, is left behind: the answer does not wait for it.
"""

from __future__ import annotations

import codecs
import os
import select
import signal
import time
from contextlib import suppress
from typing import Any, Dict, NoReturn, Optional, Tuple

from wire import account
from wire.framing import encode

from .. import fork, tree

MAX_OUTPUT = 512 * 1024
MAX_ERROR = 600
GIVE_UP_S = 1.0
"""How long a killed tree is waited for."""
KILL_AGAIN_S = 0.05
CHUNK = 65536
MAX_WAIT_S = 3600.0
REFUSED = 86
"""With this a command's process ends that may not become its account."""
MAX_CHUNKS = 32
"""A pipe that nobody writes to any more holds less than so many."""


class Probe:
    """`message` is what was asked (wire.agent.Probe), `answers` the pipe to the agent, `environment` what the asked
    variables are laid over."""

    def __init__(self, message: Dict[str, Any], answers: int, environment: Dict[str, str]) -> None:
        self._message = message
        self._environment = environment
        self._answers = answers
        self._limit: int = min(message["output_limit"], MAX_OUTPUT)
        self._left = memoryview(message["stdin"].encode())
        self._output = bytearray()
        self._truncated = False
        self._error = ""
        self._code: Optional[int] = None
        self._main = 0
        self._alone = False
        self._wanted = True
        self._poller = select.poll()
        self._wake = self._stdin = self._stdout = self._errors = -1

    def run(self) -> None:
        """Everything, from the fork to the answer."""
        os.setsid()
        end = time.monotonic() + self._message["timeout_s"]
        fork.become_subreaper()
        self._hear_children()
        self._poller.register(self._answers, 0)
        self._fork()
        self._watch(end)
        self._kill()
        self._drain()
        if self._wanted:
            self._answer()

    def _hear_children(self) -> None:
        self._wake, write = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._poller.register(self._wake, select.POLLIN)

    def _fork(self) -> None:
        stdin, self._stdin = os.pipe()
        self._stdout, output = os.pipe()
        self._errors, errors = os.pipe()
        myself = os.getpid()
        self._main = os.fork()
        if self._main == 0:
            env = {**self._environment, **self._message["env"]}
            _become(self._message, env, (stdin, output, output), errors, myself)
        for fd in (stdin, output, errors):
            os.close(fd)
        os.set_blocking(self._stdin, False)
        os.set_blocking(self._stdout, False)
        self._poller.register(self._stdin, select.POLLOUT)
        self._poller.register(self._stdout, select.POLLIN)

    def _watch(self, end: float) -> None:
        """Until the command ends, its time is over, or nobody wants to know any more."""
        self._reap()
        while self._main and self._wanted:
            left = end - time.monotonic()
            if left <= 0:
                self._error = f"timed out after {self._message['timeout_s']:g} s"
                return
            for fd, _ in self._poller.poll(int(min(left, MAX_WAIT_S) * 1000) + 1):
                self._on_ready(fd)

    def _on_ready(self, fd: int) -> None:
        if fd == self._wake:
            os.read(fd, 4096)
            self._reap()
        elif fd == self._answers:
            self._wanted = False
        elif fd == self._stdin:
            self._feed()
        elif not self._read():
            self._poller.unregister(fd)  # everybody closed it

    def _feed(self) -> None:
        try:
            self._left = self._left[os.write(self._stdin, self._left) :]
        except BrokenPipeError:
            self._left = self._left[:0]  # it does not want to read it
        if not self._left:
            self._poller.unregister(self._stdin)
            os.close(self._stdin)

    def _read(self) -> bool:
        """Take some output; False at its end. Raises BlockingIOError when there is none for now."""
        data = os.read(self._stdout, CHUNK)
        room = self._limit - len(self._output)
        self._output += data[:room]
        self._truncated = self._truncated or len(data) > room
        return bool(data)

    def _reap(self) -> None:
        while not self._alone:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._alone = True
                return
            if pid == 0:
                return
            if pid == self._main:
                self._main = 0
                self._code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)

    def _kill(self) -> None:
        """Everything that is left, however far it hid, until it is gone or will not go."""
        code, give_up = self._code, time.monotonic() + GIVE_UP_S
        self._reap()
        while not self._alone and time.monotonic() < give_up:
            tree.send(tree.descendants([os.getpid()], tree.everyone()), signal.SIGKILL)
            time.sleep(KILL_AGAIN_S)
            self._reap()
        self._code = code  # what our own kill made of it is no answer

    def _drain(self) -> None:
        chunks = 0
        with suppress(BlockingIOError):
            while chunks < MAX_CHUNKS and self._read():
                chunks += 1

    def _answer(self) -> None:
        why = os.read(self._errors, 4096).decode("utf-8", "replace") if self._code is not None else ""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        answer = {
            "op": "probed",
            "probe_id": self._message["probe_id"],
            "code": None if why else self._code,
            "output": decoder.decode(bytes(self._output), not self._truncated),
            "truncated": self._truncated,
            "error": why or self._error,
        }
        if why and self._code == REFUSED:
            answer["refused"] = True
        data = memoryview(encode(answer))
        while data:
            data = data[os.write(self._answers, data) :]


def _become(
    message: Dict[str, Any], env: Dict[str, str], streams: Tuple[int, ...], errors: int, parent: int
) -> NoReturn:
    """The command's own process: only here are its folder and its program touched, which may hang."""
    place = message["cwd"] or "/"
    try:
        os.setsid()
        fork.reset_signals()
        for number, fd in enumerate(streams):
            os.dup2(fd, number)
        if message.get("run_as") is not None:
            env = {**_change(message), **env}
        fork.die_with_parent(parent)  # not before it is who it will be: the kernel forgets it then
        os.chdir(place)
        place = message["argv"][0]
        os.execvpe(place, message["argv"], env)  # noqa: S606  (no shell wanted)
    except account.AccountError as error:
        os.write(errors, str(error)[:MAX_ERROR].encode("utf-8", "replace"))
        os._exit(REFUSED)
    except BaseException as error:  # noqa: BLE001  (this is a fork: nothing may return into the code above)
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        os.write(errors, f"{place}: {reason}"[:MAX_ERROR].encode("utf-8", "replace"))
    os._exit(127)


def _change(message: Dict[str, Any]) -> Dict[str, str]:
    """Become the account of a probe; the variables that every log-in of it has. Raises AccountError."""
    found = account.find(message["run_as"], message["run_as_allowed"])
    account.become(found)
    os.umask(message.get("umask", 0o022))
    return found.variables()
