"""The child that measures this machine, for as long as somebody reads what it says.

It leaves all that may hang for good, GPU drivers and network file systems, to forks of its own (`gpu.reader`, `disks`),
so that its other figures go on.
"""

from __future__ import annotations

import json
import os
import select
import time
from typing import Callable, NoReturn, Tuple, Union

from wire.agent import Sampling

from .. import fork
from ..gpu.reader import GpuReader
from .disks import Disks
from .host import Host, Moment

FIRST_S = 0.1
"""The shortest time that CPU figures are worth something; the first sample does not come earlier."""
GPU_PATIENCE_S = 0.3
"""So long a sample waits for the GPUs' figures; after that it goes out with the last ones."""
FIRST_GPU_PATIENCE_S = 2.0
"""The first sample waits longer: the master knows nothing of the GPUs yet."""
Part = Union[GpuReader, Disks]


class _Child:
    """The child: it measures every `every_s` seconds."""

    def __init__(self, output: int, sampling: Sampling, attempts: str, every_s: float) -> None:
        self._output = output
        self._every_s = every_s
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
            patience = FIRST_GPU_PATIENCE_S if before.at == first else GPU_PATIENCE_S
            self._wait(due + patience, lambda: not self._gpus.asked)
            self._wait(first + FIRST_S)
            before = self._tell(before)
            due = max(due + self._every_s, before.at)
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


def measure(output: int, agent: int, sampling: Sampling, attempts: str, every_s: float) -> NoReturn:
    """The child: a line every `every_s` seconds, until nobody reads or the agent, its parent, is dead."""
    try:
        fork.die_with_parent(agent)
        _Child(output, sampling, attempts, every_s).run()
        os._exit(0)
    except BrokenPipeError:
        os._exit(0)
    except BaseException as error:  # noqa: BLE001  (this is a fork: nothing may return into the code above)
        os.write(2, f"the sampling ended: {error!r}\n".encode("utf-8", "replace"))
        os._exit(1)
