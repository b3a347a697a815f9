"""The environments that log-ins give, by account: asked for when the first command is to run as it, and kept while the
agent lives.

It owns who waits for which answer. An account whose shell hangs keeps only those waiting who want to be it.
"""

from __future__ import annotations

import select
import time
from typing import Any, Callable, Dict, List, Optional

from wire.account import Door

from .login import Answer, Login

AGAIN_S = 300.0
"""So long an answer is kept that stands in for one that did not come: a home may have been away for a moment."""
Then = Callable[[Optional[Answer]], None]


class Logins:
    """`door`: the accounts as which commands may run here; `complain` writes to the agent's log."""

    def __init__(self, poller: select.poll, door: Door, complain: Callable[[str], None]) -> None:
        self._poller = poller
        self._door = door
        self._complain = complain
        self._known: Dict[str, Answer] = {}
        self._again_at: Dict[str, float] = {}
        self._asked: Dict[int, str] = {}
        self._open: Dict[str, Login] = {}
        self._waiting: Dict[str, List[Then]] = {}

    def ask(self, message: Dict[str, Any], then: Then) -> None:
        """Have `then` called with what a log-in gives of the account that a launch or a probe is to run as: now, or
        once it is known. With None, where that is the agent itself. Raises AccountError, and OSError where no process
        can be made for the question."""
        name = self._door.account_of(message)
        if name is None:
            then(None)
            return
        known = self._known.get(name)
        if known is not None and time.monotonic() < self._again_at.get(name, float("inf")):
            then(known)
            return
        if name not in self._open:
            login = self._open[name] = Login(name, message["run_as_allowed"])
            self._waiting[name] = []
            self._asked[login.fd] = name
            self._poller.register(login.fd, select.POLLIN)
        self._waiting[name].append(then)

    def owns(self, fd: int) -> bool:
        """Whether an answer comes by this descriptor."""
        return fd in self._asked

    def on_ready(self, fd: int) -> None:
        """Take what came of an answer."""
        name = self._asked[fd]
        answer = self._open[name].hear()
        if answer is not None:
            self._answered(name, fd, answer)

    def look(self, now: float) -> None:
        """From time to time: give up those that do not answer; `now` is monotonic seconds."""
        for fd, name in list(self._asked.items()):
            login = self._open[name]
            if now >= login.end:
                self._answered(name, fd, login.give_up())

    def reap(self, pid: int) -> bool:
        """A child ended; whether it was one that asked. Its output, if any, is still in its pipe."""
        for name, login in list(self._open.items()):
            if login.pid == pid:
                self._answered(name, login.fd, login.hear() or login.lost())
                return True
        return False

    def _answered(self, name: str, fd: int, answer: Answer) -> None:
        self._poller.unregister(fd)
        del self._asked[fd], self._open[name]
        if answer.fault:
            self._complain(answer.fault)
            self._again_at[name] = time.monotonic() + AGAIN_S
        else:
            self._again_at.pop(name, None)
        if not answer.refusal:
            self._known[name] = answer
        for then in self._waiting.pop(name):
            then(answer)
