"""Makes shims: forks of the agent, one of them ahead of its launch, so that a launch waits for no fork.

It owns the spare and how a launch is given to it. What a shim does is `shim`'s, what it belongs to is `keeper`'s.
"""

from __future__ import annotations

import gc
import json
import os
import signal
from typing import Any, Callable, Dict, NoReturn

from .. import fork
from ..folder import Folder
from .shim import SIGNALS, Shim

AGAIN_S = 1.0
PIPE_CAPACITY = 65536
"""Bytes that an empty pipe takes without waiting."""


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
        self._spare = 0
        self._orders = -1
        self._again_at = 0.0

    def wants_spare(self, now: float) -> bool:
        """Whether no spare stands by and one may be made; `now` is monotonic seconds."""
        return not self._spare and now >= self._again_at

    def start(self, launch: Dict[str, Any]) -> int:
        """Have a shim run a launch: the spare, or a new one; gives its pid. Raises OSError where none can be forked."""
        order = json.dumps(launch).encode("ascii") + b"\n"
        pid = self._spare
        if pid and self._give(order):
            return pid
        return self._fork(order, -1)

    def prepare(self, now: float) -> None:
        """Fork a spare, where it is wanted. For quiet moments: among many launches it would only be more work."""
        if not self.wants_spare(now):
            return
        try:
            read, self._orders = os.pipe()
        except OSError as error:
            self._put_off(now, error)
            return
        try:
            self._spare = self._fork(b"", read)
        except OSError as error:
            os.close(self._orders)
            self._put_off(now, error)
        finally:
            os.close(read)

    def dismiss(self) -> None:
        """Let the spare go, if there is one: it ends when it sees its pipe closed."""
        if self._spare:
            os.close(self._orders)
            self._spare = 0

    def reap(self, pid: int, now: float) -> bool:
        """A child ended; whether it was the spare. Somebody kills those, so the next one waits a moment."""
        if not self._spare or pid != self._spare:
            return False
        self.dismiss()
        self._again_at = now + AGAIN_S
        return True

    def _give(self, order: bytes) -> bool:
        """Whether the spare has the launch. It acts on nothing but a whole line."""
        try:
            return len(order) <= PIPE_CAPACITY and os.write(self._orders, order) == len(order)
        except OSError:
            return False  # it was killed, and its end is not yet told
        finally:
            self.dismiss()

    def _put_off(self, now: float, error: OSError) -> None:
        self._complain(f"no spare shim: {error.strerror}")
        self._again_at = now + AGAIN_S

    def _fork(self, order: bytes, orders: int) -> int:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            pid = os.fork()
            if pid == 0:
                self._become_shim(order, orders)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        return pid

    def _become_shim(self, order: bytes, orders: int) -> NoReturn:
        # A collection here would touch, and so copy, every page that is shared with the agent.
        gc.disable()
        try:
            fork.close_all_but({self._reports, orders})
            Shim(self._folder, self._reports, self._boot_id, self._environment).run(order, orders)
        except BaseException as error:  # noqa: BLE001  (this is a fork: nothing may return into the code above)
            self._complain(f"a shim failed: {error!r}")
            os._exit(70)
        os._exit(0)
