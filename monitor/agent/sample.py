"""Samples of the machine: a child process that measures, and the agent's side that restarts it when it falls silent.

The child is apart because a hung driver or /proc must never delay a launch. Only /proc is read: CPU, load, memory.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from typing import Any, Dict, List, NoReturn, Optional, Tuple

from . import tree
from .daemon import close_all_but

EVERY_S = 2.0
SILENT_S = 10.0
Times = List[Tuple[int, int]]


def read_times() -> Times:
    """(busy, total) ticks: the whole machine first, then each CPU."""
    times: Times = []
    with open("/proc/stat", encoding="ascii") as file:
        for line in file:
            if not line.startswith("cpu"):
                break
            ticks = [int(field) for field in line.split()[1:9]]
            times.append((sum(ticks) - ticks[3] - ticks[4], sum(ticks)))
    return times


def read_memory() -> Tuple[int, int]:
    """(total, available) memory in MiB."""
    found: Dict[str, int] = {}
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            key, _, rest = line.partition(":")
            found[key] = int(rest.split()[0])
    return found["MemTotal"] // 1024, found["MemAvailable"] // 1024


def percents(before: Times, after: Times) -> List[float]:
    """How busy each line of `read_times` was between two readings, 0 to 100."""
    spans = [(b1 - b0, t1 - t0) for (b0, t0), (b1, t1) in zip(before, after)]
    return [round(100.0 * busy / total, 1) if total > 0 else 0.0 for busy, total in spans]


def take(before: Times, after: Times) -> Dict[str, Any]:
    """One `sample` message."""
    shares = percents(before, after)
    total, available = read_memory()
    return {
        "op": "sample",
        "at": time.time(),
        "cpu_percent": shares[0] if shares else 0.0,
        "cpu_percents": shares[1:],
        "load": [round(value, 2) for value in os.getloadavg()],
        "memory_total_mib": total,
        "memory_available_mib": available,
    }


def measure(output: int, agent: int) -> NoReturn:
    """The child: a line every EVERY_S seconds, until nobody reads or the agent, its parent, is dead."""
    try:
        tree.die_with_parent(agent)
        before = read_times()
        listener = select.poll()
        listener.register(output, 0)
        while not listener.poll(EVERY_S * 1000):  # it becomes ready only when nobody can read any more
            after = read_times()
            os.write(output, json.dumps(take(before, after)).encode() + b"\n")
            before = after
        os._exit(0)
    except BrokenPipeError:
        os._exit(0)
    except BaseException as error:  # noqa: BLE001  (this is a fork: nothing may return into the code above)
        os.write(2, f"the sampling ended: {error!r}\n".encode())
        os._exit(1)


class Sampler:
    """The agent's side. `fd`: where samples arrive, -1 while there is no child."""

    def __init__(self) -> None:
        self.fd = -1
        self.pid = 0
        self._heard = 0.0
        self._head = b""

    def start(self, now: float) -> None:
        """Fork a child; `now` is monotonic. Raises OSError."""
        read, write = os.pipe()
        agent = os.getpid()
        pid = os.fork()
        if pid == 0:
            for number in (signal.SIGTERM, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            close_all_but({write})
            measure(write, agent)
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
