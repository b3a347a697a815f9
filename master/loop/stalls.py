"""How long the turns of the event loop take, and where the long ones are.

A master does all its work in one loop; while one turn goes on, everybody else waits. So each turn is measured, from
when the selector has returned until it is called again, in wall time and in the loop's own CPU time beside it: the
difference between the two was spent waiting, for a CPU that others had (which the kernel counts), for the disk, or for
the interpreter while another thread had it. During a long turn the signal of a timer records where it is, again and
again until it is over: it records the names of functions, never their values.

Owns the measuring, and what is kept of it; other modules decide what is too long, and who is informed.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
import time
from asyncio import SelectorEventLoop
from bisect import bisect_right
from collections import Counter
from math import inf
from selectors import SelectorKey
from types import FrameType
from typing import Any

import msgspec

from master.loop.selector import TurnSelector

log = logging.getLogger("muster.loop")

EDGES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Seconds: between which turns are counted together."""
_COUNTED_S = EDGES[0]
LOOK_S = 0.02
"""A turn that goes on for so long is looked at, and again after as long."""
KEPT = 8
"""So many turns are remembered for their wall time, and as many for their CPU time."""
MINUTE_S = 60.0
TOLD_S, TOLD_AGAIN_S = 1.0, 60.0
"""A turn of TOLD_S has a line in the log; one in TOLD_AGAIN_S."""
CLOCKS_S = 0.005
"""So old may be, when a turn begins, what is known of how long this thread had a CPU, or none."""
ASLEEP_S = 0.005
"""A loop that slept for so long between two turns may do so again: then no timer is left to wake it."""
_NAMES, _PLACES = 8, 64
"""Functions that are named of one look, and places that are told apart of one turn."""
_OURS = ("master.", "wire.")
_TURN = ("asyncio.base_events", "_run_once")


class Stall(msgspec.Struct, frozen=True, kw_only=True):
    """A turn of the loop that took long, and began `at` (seconds since the epoch). Seconds: `wall`; `cpu`, the loop's
    own work; `denied`, when it was ready to go on and others had the CPUs (null: the kernel does not tell); the rest it
    waited, for the disk or for another thread. `garbage`: for so long objects were looked through for garbage. `where`:
    the functions in which it was seen most often, the innermost last; "" where it was not seen in any."""

    at: float
    wall: float
    cpu: float
    denied: float | None
    garbage: float
    where: str


class LoopTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long the turns of the master's loop took `since` then (seconds since the epoch); nobody is answered while one
    goes on. So many `turns` took `wall` seconds, and the loop `cpu` seconds of a CPU. `by_wall` and `by_cpu` count them
    by what one took: less than the first of `edges` (seconds), from each to the next, longer than the last. `longest`:
    those that took longest, by either; `minute_wall`, `minute_cpu`: the most that one took in the last one or two
    minutes."""

    since: float
    turns: int
    wall: float
    cpu: float
    edges: tuple[float, ...]
    by_wall: list[int]
    by_cpu: list[int]
    minute_wall: float
    minute_cpu: float
    longest: list[Stall]


class StallWatch(TurnSelector):
    """Of one loop, which runs in the main thread, for signals are handled there. It is the loop's selector, since that
    is what each turn ends and begins with."""

    def __init__(self) -> None:
        super().__init__()
        self._denied = _Denied()
        self._seen: Counter[str] = Counter()
        self._begun = self._clocks_until = 0.0
        self._garbage = self._garbage_at = 0.0
        self._is_set = self._is_woken = self._is_over = self._sleeps = False
        self._told_at = -TOLD_AGAIN_S
        self._before = signal.signal(signal.SIGALRM, self._look)
        signal.siginterrupt(signal.SIGALRM, False)  # noqa: FBT003  (what a turn waits for goes on)
        gc.callbacks.append(self._collected)
        self.start_over()

    @classmethod
    def loop(cls) -> tuple[StallWatch, SelectorEventLoop]:
        """A loop that is watched, and who watches it until it is closed."""
        watch = cls()
        return watch, SelectorEventLoop(watch)

    def start_over(self) -> None:
        """Forget all that was measured, for what matters begins now."""
        self._since = time.time()
        self.turns, self._wall, self._cpu_before = 0, 0.0, time.thread_time()
        self._by_wall, self._by_cpu = [0] * (len(EDGES) + 1), [0] * (len(EDGES) + 1)
        self._longest: list[Stall] = []
        self._minute = self._minute_before = (0.0, 0.0)
        self._minute_ends = time.monotonic() + MINUTE_S
        self._read_clocks(time.monotonic())

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Between two turns. This is done for each of them, however short, so it does little."""
        ended = time.monotonic()
        took = ended - self._begun
        self._begun = inf
        self.turns += 1
        self._wall += took
        if took >= _COUNTED_S:
            self._count(took)
        if self._sleeps and timeout != 0:
            self._unset()
        ready = super().select(timeout)
        self._begun = begun = time.monotonic()
        if begun > self._clocks_until:
            self._read_clocks(begun)
            self._sleeps = begun - ended > ASLEEP_S
        if self._is_woken:
            self._is_woken, self._sleeps = False, True
        if not self._is_set:
            self._set()
        return ready

    def began(self) -> float:
        """When this turn of the loop did, by its clock."""
        return self._begun

    def stop(self) -> None:
        """Measure no further turns. Call this before the loop is closed: a signal would have no loop to wake then."""
        if gc.callbacks.count(self._collected):
            self._is_over = self._is_set = True  # first: a look that comes meanwhile sets the timer, which would end us
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, self._before)
            gc.callbacks.remove(self._collected)

    def close(self) -> None:
        """The loop is over."""
        self.stop()
        self._denied.close()
        super().close()

    def told(self) -> LoopTimes:
        """Return the measurements so far, without the turn of the loop that is going on."""
        self._turn_minute(time.monotonic())
        long = sum(self._by_wall)
        return LoopTimes(
            since=self._since,
            turns=self.turns,
            wall=self._wall,
            cpu=time.thread_time() - self._cpu_before,
            edges=EDGES,
            by_wall=[self.turns - long, *self._by_wall[1:]],
            by_cpu=[self.turns - long + self._by_cpu[0], *self._by_cpu[1:]],
            minute_wall=max(self._minute[0], self._minute_before[0]),
            minute_cpu=max(self._minute[1], self._minute_before[1]),
            longest=sorted(self._longest, key=lambda stall: -stall.wall),
        )

    def _read_clocks(self, now: float) -> None:
        """They cost more than a short turn may; of a long one it is enough to know what they told a little before."""
        self._begun = now
        self._clocks_until = now + CLOCKS_S
        self._wall_then = self._wall
        self._cpu_then, self._denied_then = time.thread_time(), self._denied.seconds()
        self._garbage = 0.0

    def _set(self) -> None:
        """Look at this turn if it lasts. The timer is left to run on over short ones that follow each other closely,
        for to set it costs more than such a turn may."""
        self._is_set = True
        signal.setitimer(signal.ITIMER_REAL, LOOK_S)

    def _unset(self) -> None:
        if self._is_set and not self._is_over:
            self._is_set = False
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    # -- turns that are not short -----------------------------------------------------------------------------

    def _count(self, wall: float) -> None:
        # Of what the thread worked since its clock was read, short turns before this one had a part.
        before = self._wall - self._wall_then - wall
        cpu = min(wall, max(0.0, time.thread_time() - self._cpu_then - before))
        self._by_wall[bisect_right(EDGES, wall)] += 1
        self._by_cpu[bisect_right(EDGES, cpu)] += 1
        self._turn_minute(time.monotonic())
        self._minute = (max(self._minute[0], wall), max(self._minute[1], cpu))
        if wall >= LOOK_S:
            self._remember(wall, cpu)
        self._seen.clear()

    def _turn_minute(self, now: float) -> None:
        if now >= self._minute_ends:
            is_next = now < self._minute_ends + MINUTE_S
            self._minute_before = self._minute if is_next else (0.0, 0.0)
            self._minute = (0.0, 0.0)
            self._minute_ends = now + MINUTE_S

    def _remember(self, wall: float, cpu: float) -> None:
        before, now = self._denied_then, self._denied.seconds()
        denied = None if before is None or now is None else min(max(0.0, now - before), max(0.0, wall - cpu))
        [(where, _)] = self._seen.most_common(1) or [("", 0)]
        stall = Stall(
            at=time.time() - wall, wall=wall, cpu=cpu, denied=denied, garbage=min(self._garbage, wall), where=where
        )
        kept = [*self._longest, stall]
        by_wall = sorted(kept, key=lambda one: -one.wall)[:KEPT]
        by_cpu = sorted(kept, key=lambda one: -one.cpu)[:KEPT]
        self._longest = by_wall + [one for one in by_cpu if one not in by_wall]
        if wall >= TOLD_S and time.monotonic() >= self._told_at + TOLD_AGAIN_S:
            self._told_at = time.monotonic()
            log.warning("everybody waited %.2f s, for %.2f s of a CPU, in %s", wall, cpu, where or "an unknown place")

    # -- looks ------------------------------------------------------------------------------------------------

    def _look(self, _signal: int, frame: FrameType | None) -> None:
        """Record where the loop is in its code, or that it sleeps."""
        if self._is_over:
            return
        lasts = time.monotonic() - self._begun
        self._is_set = lasts >= 0
        self._is_woken = not self._is_set  # from its sleep, which costs a turn: none is left to do so again
        if self._is_set:
            signal.setitimer(signal.ITIMER_REAL, LOOK_S if lasts >= LOOK_S else LOOK_S - lasts)
        if lasts < LOOK_S:
            return
        if len(self._seen) < _PLACES and (where := _place(frame)):
            self._seen[where] += 1

    def _collected(self, phase: str, _info: dict[str, Any]) -> None:
        if phase == "start":
            self._garbage_at = time.monotonic()
        else:
            self._garbage += time.monotonic() - self._garbage_at


def _place(frame: FrameType | None) -> str:
    """The functions of ours that lead there."""
    names: list[str] = []
    while frame is not None and len(names) < _NAMES:
        module = frame.f_globals.get("__name__", "")
        if (module, frame.f_code.co_name) == _TURN:
            break  # beneath it stands what began the loop, always the same
        if module.startswith(_OURS) and module != __name__:
            names.append(f"{module}.{frame.f_code.co_qualname}")
        frame = frame.f_back
    return " > ".join(reversed(names))


class _Denied:
    """How long this thread was ready to run and had no CPU, as the kernel counts it."""

    def __init__(self) -> None:
        try:
            self._fd = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._fd = -1

    def seconds(self) -> float | None:
        """Since the thread began; None where the kernel does not count."""
        if self._fd < 0:
            return None
        _, denied, times = os.pread(self._fd, 128, 0).split()
        return int(denied) / 1e9 if int(times) else None

    def close(self) -> None:
        """Ask no more."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
