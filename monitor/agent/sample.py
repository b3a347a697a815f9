"""Samples of the machine: a child process that measures, and the agent's side that restarts it when it falls silent.

The child is apart because a hung driver or /proc must never delay a launch. What may hang for good, GPU drivers and
network file systems, it leaves to forks of its own (`gpu_reader`, `sample_disks`), so that its other figures go on.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from typing import Any, Callable, Dict, NoReturn, Optional, Tuple, Union

from wire.agent import Sampling

from . import tree
from .daemon import close_all_but
from .gpu_reader import GpuReader
from .host import Host, Moment
from .sample_disks import Disks

EVERY_S = 2.0
SILENT_S = 10.0
FIRST_S = 0.1
"""The shortest time that CPU figures are worth something; the first sample does not come earlier."""
GPU_PATIENCE_S = 0.3
"""So long a sample waits for the GPUs' figures; after that it goes out with the last ones."""
Part = Union[GpuReader, Disks]


def sampling_of(hello: Dict[str, Any]) -> Sampling:
    """What a master's hello asks for. Masters before that key look at nothing but the machine."""
    told = hello.get("sampling")
    if not isinstance(told, dict):
        return Sampling(gpus="declared", folders=[])
    folders = told.get("folders")
    known = [folder for folder in folders if isinstance(folder, str)] if isinstance(folders, list) else []
    return Sampling(gpus=str(told.get("gpus", "auto")), folders=known)


class _Child:
    """The child: it measures every EVERY_S seconds."""

    def __init__(self, output: int, sampling: Sampling, attempts: str) -> None:
        self._output = output
        self._host = Host()
        self._gpus = GpuReader(sampling["gpus"], attempts)
        self._disks = Disks(sampling["folders"])
        self._parts: Tuple[Part, ...] = (self._gpus, self._disks)
        self._poller = select.poll()
        self._poller.register(output, 0)  # it becomes ready only when nobody can read any more

    def run(self) -> None:
        """Measure until nobody reads."""
        before = self._host.look(time.monotonic())
        first = before.at
        due = before.at
        while True:
            self._gpus.ask(time.monotonic())
            # At the beginning the master knows nothing of the GPUs yet, so those figures are worth waiting for.
            patience = EVERY_S if before.at == first else GPU_PATIENCE_S
            self._wait(due + patience, lambda: not self._gpus.asked)
            self._wait(first + FIRST_S)
            before = self._tell(before)
            due = max(due + EVERY_S, before.at)
            self._wait(due)

    def _tell(self, before: Moment) -> Moment:
        after = self._host.look(time.monotonic())
        sample = {"op": "sample", "at": time.time(), **self._host.figures(before, after)}
        sample.update(self._gpus.figures)
        sample["disks"] = self._disks.figures
        os.write(self._output, json.dumps(sample, allow_nan=False).encode() + b"\n")
        return after

    def _wait(self, until: float, done: Callable[[], bool] = lambda: False) -> None:
        """Serve the parts until a time (monotonic seconds) has come or something is done."""
        while True:
            now = time.monotonic()
            for part in self._parts:
                part.look(now)
            if done() or now >= until:
                return
            known = {part.fd: part for part in self._parts if part.fd >= 0}
            for fd in known:
                self._poller.register(fd, select.POLLIN)
            ready = self._poller.poll((min(until, now + 1.0) - now) * 1000 + 1)
            for fd in known:
                self._poller.unregister(fd)
            for fd, _ in ready:
                if fd == self._output:
                    os._exit(0)
                known[fd].on_ready(time.monotonic())


def measure(output: int, agent: int, sampling: Sampling, attempts: str) -> NoReturn:
    """The child: a line every EVERY_S seconds, until nobody reads or the agent, its parent, is dead."""
    try:
        tree.die_with_parent(agent)
        _Child(output, sampling, attempts).run()
        os._exit(0)
    except BrokenPipeError:
        os._exit(0)
    except BaseException as error:  # noqa: BLE001  (this is a fork: nothing may return into the code above)
        os.write(2, f"the sampling ended: {error!r}\n".encode("utf-8", "replace"))
        os._exit(1)


class Sampler:
    """The agent's side. `fd`: where samples arrive, -1 while there is no child. `sampling`: what the next child looks
    at; `attempts`: the folder of claims, by which tasks of this agent are told from other people's."""

    def __init__(self, attempts: str) -> None:
        self.fd = -1
        self.pid = 0
        self.sampling = sampling_of({})
        self._attempts = attempts
        self._heard = 0.0
        self._head = b""

    def start(self, now: float) -> None:
        """Fork a child; `now` is monotonic. Raises OSError."""
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
            close_all_but({write})
            measure(write, agent, self.sampling, self._attempts)
        os.close(write)
        os.set_blocking(read, False)
        self.fd, self.pid, self._heard, self._head = read, pid, now, b""

    def stop(self) -> None:
        """End the child, if there is one."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)  # our child, not yet reaped

    def is_silent(self, now: float) -> bool:
        """Whether it has said nothing for too long."""
        return now - self._heard > SILENT_S

    def read(self, now: float) -> Optional[bytes]:
        """The newest whole line, without its newline; None when there is none. Raises EOFError when the child ended."""
        try:
            data = os.read(self.fd, 65536)
        except BlockingIOError:
            return None  # the event was another descriptor's, which had this number before
        if not data:
            raise EOFError
        self._heard = now
        lines = (self._head + data).split(b"\n")
        self._head = lines.pop()
        return lines[-1] if lines else None
