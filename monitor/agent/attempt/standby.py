"""The process of a shim: forked from the agent, it waits for a launch, and where nothing is left of that, for the next.

It owns what outlasts an attempt: signals, the pipe of orders, and whether there is another attempt in it. `shim` says
what is done for one. When the agent ends it closes the pipe: who has no attempt then is needed by nobody.
"""

from __future__ import annotations

import os
import select
import signal
from typing import Callable

from .. import fork, tree
from .shim import SIGNALS, Shim

MAX_ATTEMPTS = 500
"""No garbage is looked for in here, so it does not live for ever."""


class Signals:
    """`wake` can be read when a child has ended or a kill was asked for. `started`: the start of this process, by which
    it is told from a later one with its pid."""

    def __init__(self) -> None:
        self.kill_asked = False
        myself = tree.look(os.getpid())
        self.started = myself.start if myself else 0
        self.wake, write = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.signal(signal.SIGTERM, self._on_term)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def drain(self) -> None:
        """One read will do: what is left wakes the next poll at once."""
        try:
            os.read(self.wake, 4096)
        except BlockingIOError:
            return

    def _on_term(self, _number: int, _frame: object) -> None:
        self.kill_asked = True


def stand_by(order: bytes, orders: int, make: Callable[[Signals], Shim]) -> None:
    """Everything, from the fork on. `order`: the first launch as a line; if empty, it comes by the pipe `orders`, as
    all others do."""
    os.setsid()
    signals = Signals()
    fork.become_subreaper()
    if not order:
        make(signals).rehearse()
    for left in reversed(range(MAX_ATTEMPTS)):
        order = order or _wait(orders, signals)
        if not order.endswith(b"\n") or not make(signals).run(order, is_last=not left):
            return
        order = b""


def _wait(orders: int, signals: Signals) -> bytes:
    """The launch; not a whole line when nobody needs this shim."""
    poller = select.poll()
    poller.register(orders, select.POLLIN)
    poller.register(signals.wake, select.POLLIN)
    while True:
        ready = [fd for fd, _ in poller.poll()]
        if orders in ready:
            return _read_line(orders)
        signals.drain()
        # Looked at in this order: the agent asks for a kill only after it gave the launch.
        if signals.kill_asked and not poller.poll(0):
            return b""


def _read_line(fd: int) -> bytes:
    """Return what the agent wrote: a line, or less if it ended meanwhile."""
    data = os.read(fd, 65536)
    while data and not data.endswith(b"\n"):
        more = os.read(fd, 65536)
        if not more:
            break
        data += more
    return data
