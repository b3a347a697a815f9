"""The agent's side of the samples: a child that measures is kept while a master listens, and its lines are passed on to
that master.

The child is apart because a hung driver or /proc must never delay a launch. It owns the child's beginning and its end,
also when it falls silent.
"""

from __future__ import annotations

import os
import select
import signal
import time
from typing import Any, Callable, Dict

from wire.agent import SAMPLE_S, Sampling

from .. import fork
from .child import measure

SILENT_S = 4.0
"""A child that says nothing for so long, or for MISSED samples if that is longer, is ended."""
MISSED = 5
NO_SAMPLES = "none"
"""The request of a master whose samples of this machine another agent takes."""


def sampling_of(hello: Dict[str, Any]) -> Sampling:
    """Return the sampling that a master's hello asks for. Masters before that key look at nothing but the machine."""
    told = hello.get("sampling")
    if not isinstance(told, dict):
        return Sampling(gpus="declared", folders=[])
    folders = told.get("folders")
    known = [folder for folder in folders if isinstance(folder, str)] if isinstance(folders, list) else []
    return Sampling(gpus=str(told.get("gpus", "auto")), folders=known)


class Sampler:
    """`emit` takes a sample for the master, as a line; `complain` writes to the agent's log. `attempts`: the folder of
    claims, by which tasks of this agent are told from other people's."""

    def __init__(
        self,
        attempts: str,
        poller: select.poll,
        *,
        emit: Callable[[bytes], None],
        complain: Callable[[str], None],
    ) -> None:
        self._attempts = attempts
        self._poller = poller
        self._emit = emit
        self._complain = complain
        self._sampling = sampling_of({})
        self._every_s = SAMPLE_S
        self._fd = -1
        self._pid = 0
        self._heard_at = 0.0
        self._head = b""

    def owns(self, fd: int) -> bool:
        """Whether samples arrive by this descriptor."""
        return fd == self._fd

    def sample_for(self, hello: Dict[str, Any]) -> None:
        """Sample what this master asks for."""
        wanted = sampling_of(hello)
        if wanted != self._sampling:
            self._sampling = wanted
            self.stop()

    def sample_every(self, seconds: float) -> None:
        """Sample so often from now on, also for masters that come later."""
        if seconds != self._every_s:
            self._every_s = seconds
            self.stop()

    def keep(self, now: float, *, wanted: bool) -> None:
        """From time to time: see that there is a child while one is wanted; `now` is monotonic seconds."""
        wanted = wanted and self._sampling["gpus"] != NO_SAMPLES
        if self._fd >= 0 and (not wanted or now - self._heard_at > max(SILENT_S, MISSED * self._every_s)):
            self.stop()
        if wanted and self._fd < 0 and not self._pid:
            try:
                self._start(now)
            except OSError as error:
                self._complain(f"no sampling: {error.strerror}")

    def on_ready(self) -> None:
        """Take what the child says: the newest whole line is what counts."""
        try:
            data = os.read(self._fd, 65536)
        except BlockingIOError:
            return  # the event was another descriptor's, which had this number before
        if not data:
            self.stop()
            return
        self._heard_at = time.monotonic()
        lines = (self._head + data).split(b"\n")
        self._head = lines.pop()
        if lines:
            self._emit(lines[-1])

    def reap(self, pid: int) -> bool:
        """A child of the agent ended; whether it was this one."""
        if pid != self._pid:
            return False
        self._pid = 0
        self.stop()
        return True

    def stop(self) -> None:
        """End the child, if there is one."""
        if self._fd >= 0:
            self._poller.unregister(self._fd)
            os.close(self._fd)
            self._fd = -1
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)  # our child, not yet reaped

    def _start(self, now: float) -> None:
        """Fork a child. Raises OSError."""
        read, write = os.pipe()
        agent = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            os.close(read)
            os.close(write)
            raise
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            fork.close_all_but({write})
            measure(write, agent, self._sampling, self._attempts, self._every_s)
        os.close(write)
        os.set_blocking(read, False)
        self._fd, self._pid, self._heard_at, self._head = read, pid, now, b""
        self._poller.register(read, select.POLLIN)
