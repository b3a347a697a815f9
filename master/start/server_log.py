"""The master's own log: a record is one line whatever its text holds, and no flood of lines rotates older ones away.

Owns how a record looks, and what is counted instead of listed. Other modules own the file, its rotation and who may
read it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from wire.harmless import harmless

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
STRANGERS = ("muster.ports", "muster.desktop", "muster.report", "muster.people")
"""The loggers that write about connections. Anybody can make them write, at any rate."""
NODES = ("muster.link",)
"""Those who tell what a node's agent says: counted for each node by itself."""
LISTED, WINDOW_S = 10, 60.0
"""Of lines of a kind so many are written in so many seconds; the others are counted."""


class PlainFormatter(logging.Formatter):
    """Each record is one line, and the lines of its traceback begin with a bar: what others say, escapes and line ends
    included, can neither look like a line of ours nor act on a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (its name in the base class)
        """The record's own line."""
        return harmless(super().formatMessage(record))

    def formatException(self, ei: logging._SysExcInfoType) -> str:  # noqa: N802  (see above)
        """Return a traceback; the text of an exception may contain anything."""
        return "\n".join(f"  | {harmless(line)}" for line in super().formatException(ei).split("\n"))


class _Window(NamedTuple):
    """Lines of one kind since `begin` (monotonic seconds), and how one of them looks."""

    begin: float
    written: int
    counted: int
    example: logging.LogRecord


class Tally(logging.Filter):
    """Lets the first lines of a kind pass and counts the others; `tell` gets one record that says how many, as soon as
    anything is logged after the time is over."""

    def __init__(self, tell: Callable[[logging.LogRecord], None], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._tell = tell
        self._clock = clock
        self._windows: dict[Hashable, _Window] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is to be written."""
        now = self._clock()
        for kind, window in list(self._windows.items()):
            # Several threads log, and one of them sums up.
            if now - window.begin >= WINDOW_S and self._windows.pop(kind, None) is not None:
                self._sum_up(window, now)
        kind = _kind(record)
        if kind is None:
            return True
        window = self._windows.get(kind, _Window(now, 0, 0, record))
        passes = window.written < LISTED
        self._windows[kind] = window._replace(
            written=window.written + passes, counted=window.counted + (not passes), example=record
        )
        return passes

    def close(self) -> None:
        """Tell what was counted so far."""
        now = self._clock()
        windows, self._windows = self._windows, {}
        for window in windows.values():
            self._sum_up(window, now)

    def _sum_up(self, window: _Window, now: float) -> None:
        if window.counted:
            last = window.example
            lasted = f"{window.counted} more like this within {now - window.begin:.0f} s"
            text = f"{lasted}, the last one: {last.getMessage()}"
            told = logging.LogRecord(last.name, last.levelno, last.pathname, last.lineno, text, None, None)
            self._tell(told)


def _kind(record: logging.LogRecord) -> Hashable | None:
    """Return the kind of records that are counted together; None for a record that is always written."""
    if record.levelno >= logging.ERROR:
        return None
    if record.name in STRANGERS:
        return record.msg
    first = record.args[0] if isinstance(record.args, tuple) and record.args else None
    return (record.msg, str(first)) if record.name in NODES else None


def guard(handlers: Iterable[logging.Handler]) -> list[Tally]:
    """Have these write plain lines, and count what they could be flooded with. At the end, `close` what is given."""
    tallies = []
    for handler in handlers:
        handler.setFormatter(PlainFormatter(FORMAT))
        tallies.append(Tally(handler.emit))
        handler.addFilter(tallies[-1])
    return tallies
