"""Makes shims: forks of the agent, one of them ahead of its launch, so that a launch waits for no fork, and those that
have nothing left to stand over again.

It owns the pipes by which they get their launches, and who stands by. `shim` says what a shim does, `keeper` what it
belongs to.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import time
from typing import Any, Callable, Dict, List, NoReturn

from .. import fork
from ..folder import Folder
from . import spawn
from .shim import SIGNALS, Shim
from .standby import stand_by

AGAIN_S = 1.0
PIPE_CAPACITY = 65536
"""Bytes that an empty pipe takes without waiting."""
REST_S = 5.0
"""After so long without a launch one that stands by is enough."""


class Forks:
    """`reports` is the pipe that shims write to; `environment` what a log-in here gives, filled in before the first
    fork; `complain` writes to the agent's log."""

    def __init__(
        self,
        folder: Folder,
        boot_id: str,
        reports: int,
        environment: Dict[str, str],
        complain: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._boot_id = boot_id
        self._reports = reports
        self._environment = environment
        self._complain = complain
        self._spawns = spawn.is_possible()
        self._orders: Dict[int, int] = {}
        """Of each shim of ours that lives, by its pid, the pipe to it."""
        self._spares: List[int] = []
        """Those that stand by; the one that did something last comes first, while its memory is warm."""
        self._started_at = 0.0
        self._again_at = 0.0

    def wants_spare(self, now: float) -> bool:
        """Whether no spare stands by and one may be made; `now` is monotonic seconds."""
        return not self._spares and now >= self._again_at

    def start(self, launch: Dict[str, Any]) -> int:
        """Have a shim run a launch: a spare, or a new one; gives its pid. Raises OSError where none can be forked."""
        order = json.dumps(launch).encode("ascii") + b"\n"
        self._started_at = time.monotonic()
        while self._spares:
            pid = self._spares.pop()
            if self._give(pid, order):
                return pid
            self.dismiss(pid)
        return self._fork(order)

    def prepare(self, now: float) -> None:
        """Fork a spare, where it is wanted. For quiet moments: among many launches it would only be more work."""
        if not self.wants_spare(now):
            return
        try:
            self._spares.append(self._fork(b""))
        except OSError as error:
            self._complain(f"no spare shim: {error.strerror}")
            self._again_at = now + AGAIN_S

    def take_back(self, pid: int) -> None:
        """A shim of ours says that its attempt has left it nothing: it stands by."""
        if pid in self._orders and pid not in self._spares:
            self._spares.append(pid)

    def look(self, now: float) -> None:
        """From time to time: after a burst most of those that stand by may go."""
        if len(self._spares) > 1 and now - self._started_at > REST_S:
            for pid in self._spares[:-1]:
                self.dismiss(pid)

    def dismiss_all(self) -> None:
        """Let those that stand by go."""
        for pid in list(self._spares):
            self.dismiss(pid)

    def dismiss(self, pid: int) -> None:
        """There are no more launches for this one: it ends when it has nothing to stand over and sees its pipe
        closed."""
        if pid in self._spares:
            self._spares.remove(pid)
        if pid in self._orders:
            os.close(self._orders.pop(pid))

    def reap(self, pid: int, now: float) -> bool:
        """A child ended; whether it stood by, or was to go. Somebody kills those, so the next one waits a moment."""
        if pid not in self._orders:
            return False
        if pid in self._spares:
            self._again_at = now + AGAIN_S
        self.dismiss(pid)
        return True

    def _give(self, pid: int, order: bytes) -> bool:
        """Whether it has the launch. It acts on nothing but a whole line."""
        try:
            return len(order) <= PIPE_CAPACITY and os.write(self._orders[pid], order) == len(order)
        except OSError:
            return False  # it was killed, and its end is not yet told

    def _fork(self, order: bytes) -> int:
        orders, write = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            pid = os.fork()
            if pid == 0:
                self._become_shim(order, orders)
        except OSError:
            os.close(write)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            os.close(orders)
        self._orders[pid] = write
        return pid

    def _become_shim(self, order: bytes, orders: int) -> NoReturn:
        # A collection here would touch, and so copy, every page that is shared with the agent.
        gc.disable()
        try:
            fork.close_all_but({self._reports, orders})
            stand_by(
                *(order, orders),
                lambda signals: Shim(
                    *(self._folder, self._reports, self._boot_id, self._environment, signals), spawns=self._spawns
                ),
            )
        except BaseException as error:  # noqa: BLE001  (this is a fork: nothing may return into the code above)
            self._complain(f"a shim failed: {error!r}")
            os._exit(70)
        os._exit(0)
