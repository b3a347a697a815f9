"""Threads for calls that would block the loop, kept a while for the next call.

To start a thread the loop has to wait until that one has begun to run, which on a busy machine was a tenth of a second,
for each log-in. An existing thread is only given its work.

Owns the threads. The callers decide how many calls there may be at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

IDLE_S = 10.0
"""A thread that had nothing to do for so long ends."""

Call = Callable[[], object]


class KeptThreads:
    """At most so many threads of one `name`; a call beyond waits for the next that is free. They are daemons: they keep
    no master from ending."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._lock = threading.Lock()
        self._waiting: SimpleQueue[Call] = SimpleQueue()
        self._threads = self._calls = 0
        """How many there are; of calls, those that wait among them."""

    def begin(self, call: Call) -> None:
        """Call it in a thread; it must not raise. Raises RuntimeError where no thread is to be had."""
        with self._lock:
            # A thread that has just reported its call as done is not free yet, but will be before a new one has begun.
            is_short = self._threads < min(self._calls + 1, self._most)
            if is_short:
                threading.Thread(target=self._serve, name=self._name, daemon=True).start()
                self._threads += 1
            self._calls += 1
        self._waiting.put(call)

    def _serve(self) -> None:
        """In the thread."""
        while (call := self._next()) is not None:
            call()
            del call  # nothing of it is kept while there is nothing to do
            with self._lock:
                self._calls -= 1

    def _next(self) -> Call | None:
        while True:
            try:
                return self._waiting.get(timeout=IDLE_S)
            except Empty:
                with self._lock:
                    if self._threads > self._calls:
                        self._threads -= 1
                        return None
