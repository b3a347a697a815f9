"""Noticing that a file that people write was changed: a thread that looks, and tells the loop what the file says now.

Owns when to look and when to believe: a file that is broken is looked at again before that is told, because some
editors write in place. The content of the files, and the meaning of a change, are not known here. It is a thread since
the file may lie on a network file system that hangs, and polls since those tell nobody of changes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from wire.errors import ConfigError
from wire.message import Message

log = logging.getLogger("muster.files")

T = TypeVar("T")
Mark = tuple[int, ...]


class Pace(NamedTuple):
    """Seconds. `look`: between two looks at the file's marks; `whole`: at most between two readings of all of it,
    whatever its marks say; `recent`: a file that was just changed is read once more so much later, for a second change
    within one tick of the file system's clock leaves no other trace; `again`: from a broken file to the next look;
    `patience`: how long a broken file that keeps changing is given."""

    look: float = 0.5
    whole: float = 60.0
    recent: float = 2.0
    again: float = 0.3
    patience: float = 3.0


PACE = Pace()


class Sight(NamedTuple):
    """The result of one look at the file: its marks and content, and either what it says (`value`) or a fault."""

    mark: Mark
    data: bytes
    value: Any
    fault: Message | None


class FileWatcher(Generic[T]):
    """Watches from its making until `close`. `on_value` and `on_fault` are called in the loop.

    `on_value` gets what the file says whenever that differs from what was told before, at first, and after a fault;
    `on_fault` gets the fault, once. `turn` is held while the file is read and told of.
    """

    name = "file watch"

    def __init__(
        self,
        path: Path,
        loop: asyncio.AbstractEventLoop,
        on_value: Callable[[T], None],
        on_fault: Callable[[Message], None],
        *,
        pace: Pace = PACE,
        turn: threading.Lock | None = None,
    ) -> None:
        self._path = path
        self._loop = loop
        self._on_value = on_value
        self._on_fault = on_fault
        self._pace = pace
        self._turn = turn or threading.Lock()
        self._told: Sight | None = None
        self._read_at = 0.0
        self._end = threading.Event()
        self._posting = threading.Lock()
        self.thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self.thread.start()

    def close(self) -> None:
        """Tell nothing any more, from this moment on; the thread ends by itself. Never blocks."""
        with self._posting:
            self._end.set()

    def _run(self) -> None:
        while True:
            try:
                self._look()
            except Exception:  # a defect here must not end the watch in silence
                log.exception("%s could not be looked at", self._path)
            if self._end.wait(self._pace.look):
                return

    def _look(self) -> None:
        if self._told is not None and time.monotonic() < self._read_at and self.mark() == self._told.mark:
            return
        before = None
        give_up = time.monotonic() + self._pace.patience
        while True:
            with self._turn:
                sight = self.see()
                stands_still = before is not None and (before.data, before.fault) == (sight.data, sight.fault)
                if sight.fault is None or stands_still or time.monotonic() > give_up:
                    self._tell(sight)
                    return
            before = sight
            if self._end.wait(self._pace.again):
                return

    def read(self, path: Path) -> bytes:
        """The file as it lies. Raises ConfigError."""
        raise NotImplementedError

    def parse(self, data: bytes, path: Path) -> T:
        """Return the value of these bytes. Raises ConfigError."""
        raise NotImplementedError

    def see(self) -> Sight:
        """Read all of it, now."""
        # The marks first: a change between the two shows at the next look.
        mark, data = self.mark(), b""
        try:
            data = self.read(self._path)
            return Sight(mark, data, self.parse(data, self._path), None)
        except ConfigError as error:
            return Sight(mark, data, None, error.args[0])

    def mark(self) -> Mark:
        """Return marks that change when the file does. The file is opened for that: NFS then asks its server instead of
        its memory."""
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            return (error.errno or 0,)
        try:
            info = os.fstat(fd)
        finally:
            os.close(fd)
        return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns

    def _tell(self, sight: Sight) -> None:
        told, self._told = self._told, sight
        same = told is not None and (told.mark, told.data, told.fault) == (sight.mark, sight.data, sight.fault)
        self._read_at = time.monotonic() + (self._pace.whole if same else min(self._pace.recent, self._pace.whole))
        if same:
            return
        fault = sight.fault
        if fault is None:
            self._post(lambda: self._on_value(sight.value))
        elif told is None or told.fault != fault:
            self._post(lambda: self._on_fault(fault))

    def _post(self, call: Callable[[], None]) -> None:
        with self._posting:
            if not self._end.is_set():
                self._loop.call_soon_threadsafe(self._unless_closed, call)

    def _unless_closed(self, call: Callable[[], None]) -> None:
        if not self._end.is_set():
            call()
