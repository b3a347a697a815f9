"""Takes points and gets them into InfluxDB, however long that takes: a bounded buffer and one thread that writes.

Owns batching, the order of tries, what is dropped, and what is told about it. A full buffer loses its oldest points;
whoever adds points never waits. Knows neither the content of points nor InfluxDB's protocol.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from monitor.influx_errors import DeniedError, InfluxError, MissingError, RefusedError, UnavailableError
from wire.errors import ConfigError

log = logging.getLogger("muster.influx")

BUFFER_BYTES = 64 << 20
"""The most bytes kept for later: some hours of a lab of ten machines."""
BATCH_BYTES = 512 << 10
"""One request: below what proxies let through by default."""


class Pace(NamedTuple):
    """Seconds. `flush`: between two writes; `first` and `longest`: the back-off; `asked`: the most that it may ask
    for; `denied`: the pause after a refused token, which only a person can change; `report`: between two lines about
    losses."""

    flush: float = 1.0
    first: float = 0.5
    longest: float = 30.0
    asked: float = 600.0
    denied: float = 60.0
    report: float = 60.0


PACE = Pace()


class Tally(NamedTuple):
    """Counts of points since the start: `written`, `waiting`, `dropped` because the buffer was full, `refused` for
    good. `last_write`: when some were written last, in seconds since the epoch; None if never."""

    written: int
    waiting: int
    dropped: int
    refused: int
    last_write: float | None


class Server(Protocol):
    """One InfluxDB and one bucket of it. Every method raises an InfluxError."""

    def write(self, body: bytes) -> None:
        """Write lines of the line protocol; their times are nanoseconds."""

    def make_bucket(self) -> None:
        """Make the bucket (or database), which is not there."""

    def close(self) -> None:
        """Close the connections."""


class _Piece(NamedTuple):
    number: int
    text: bytes
    points: int


class Batch(NamedTuple):
    """The next points to write. `last` names its last piece to the buffer."""

    last: int
    body: bytes
    points: int


class Buffer:
    """Points in line protocol, in pieces that are written whole. For several threads."""

    def __init__(self, limit: int = BUFFER_BYTES) -> None:
        self._limit = limit
        self._pieces: deque[_Piece] = deque()
        self._size = 0
        self._next = 0
        self._dropped = 0
        self.dropped_ever = 0
        self._points = 0
        self._changed = threading.Condition()

    def add(self, text: str, points: int) -> None:
        """Keep points for writing; the oldest go when there is no room."""
        if not points:
            return
        with self._changed:
            self._pieces.append(_Piece(self._next, text.encode(errors="replace"), points))
            self._next += 1
            self._size += len(self._pieces[-1].text)
            self._points += points
            while self._size > self._limit and len(self._pieces) > 1:
                lost = self._take().points
                self._dropped += lost
                self.dropped_ever += lost
            self._changed.notify_all()

    def wait(self, timeout: float) -> bool:
        """Wait until there is something; whether there is."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._pieces), timeout)

    def peek(self, limit: int = BATCH_BYTES) -> Batch | None:
        """The oldest pieces, about `limit` bytes of them; they stay until `done`."""
        with self._changed:
            chosen: list[_Piece] = []
            size = 0
            for piece in self._pieces:
                if chosen and size + len(piece.text) > limit:
                    break
                chosen.append(piece)
                size += len(piece.text)
        if not chosen:
            return None
        body = b"".join(piece.text for piece in chosen)
        return Batch(chosen[-1].number, body, sum(piece.points for piece in chosen))

    def done(self, batch: Batch) -> None:
        """The batch is written, or never will be."""
        with self._changed:
            while self._pieces and self._pieces[0].number <= batch.last:
                self._take()

    def dropped(self) -> int:
        """How many points were lost for want of room since this was asked last."""
        with self._changed:
            dropped, self._dropped = self._dropped, 0
        return dropped

    @property
    def points(self) -> int:
        """How many wait."""
        return self._points

    @property
    def size(self) -> int:
        """How many bytes wait."""
        return self._size

    def _take(self) -> _Piece:
        piece = self._pieces.popleft()
        self._size -= len(piece.text)
        self._points -= piece.points
        return piece


class Writer(threading.Thread):
    """The thread. After a failure the server is made anew by `connect` right before the next try, so that what was
    corrected meanwhile counts in that one."""

    def __init__(self, buffer: Buffer, connect: Callable[[], Server], pace: Pace = PACE) -> None:
        super().__init__(name="influx", daemon=True)
        self._buffer = buffer
        self._connect = connect
        self._server = connect()
        self._stale = False
        self._pace = pace
        self._stop_at: float | None = None
        self._stopping = threading.Event()
        self._told = ""
        self._mistake = ""
        self.fails = 0
        """How many tries in a row have failed."""
        self._refused = 0
        self._refusal = ""
        self._report_at = 0.0
        self._written = 0
        self._refused_ever = 0
        self._last_write: float | None = None

    def run(self) -> None:
        """Write until `stop`."""
        while not self._over():
            batch = self._buffer.peek() if self._buffer.wait(self._pace.flush) else None
            pause = self.write(batch) if batch is not None else 0.0
            self._report_losses()
            if pause or (batch is not None and not self._lags()):
                self._stopping.wait(pause or self._pace.flush)
        self._server.close()

    def stop(self, patience: float) -> None:
        """End, giving what is buffered so many seconds to get out."""
        self._stop_at = time.monotonic() + patience
        self._stopping.set()
        self.join(patience + 1)
        if self._buffer.points:
            log.warning("%d points were not written: InfluxDB did not take them in time", self._buffer.points)

    def tally(self) -> Tally:
        """Return the counts of points so far. For any thread."""
        buffer = self._buffer
        return Tally(self._written, buffer.points, buffer.dropped_ever, self._refused_ever, self._last_write)

    def _over(self) -> bool:
        if self._stop_at is None:
            return False
        return not self._buffer.points or self.fails > 0 or time.monotonic() > self._stop_at

    def _lags(self) -> bool:
        """Is there more than a batch to write? After an outage it goes out without pauses."""
        return self._buffer.size > BATCH_BYTES // 2

    def write(self, batch: Batch) -> float:
        """One try; how long to wait before the next, 0 after a success."""
        if self._stale:
            self._connect_anew()
        try:
            self._server.write(batch.body)
        except MissingError as error:
            return self._make_bucket(error)
        except RefusedError as error:
            refused = batch.points if error.points is None else error.points
            self._refused += refused
            self._refused_ever += refused
            self._count(batch.points - refused)
            self._refusal = str(error)
            self._recovered()
            self._buffer.done(batch)
            return 0.0
        except InfluxError as error:
            return self._failed(error)
        except Exception as error:
            log.exception("a write failed in a way that nobody thought of")
            return self._failed(UnavailableError(type(error).__name__))  # its words may hold the token
        self._recovered()
        self._buffer.done(batch)
        self._count(batch.points)
        return 0.0

    def _count(self, written: int) -> None:
        if written > 0:
            self._written += written
            self._last_write = time.time()

    def _make_bucket(self, missing: MissingError) -> float:
        try:
            self._server.make_bucket()
        except (MissingError, RefusedError, DeniedError) as error:
            return self._failed(DeniedError(f"{missing}, and it could not be made: {error}"))
        except UnavailableError as error:
            return self._failed(error)
        log.info("InfluxDB had no such place for points (%s): it was made", missing)
        self.fails += 1  # should it be missing still, do not ask in a tight circle
        return self._pace.first

    def _failed(self, error: InfluxError) -> float:
        """Tell it, once for each way of failing; how long to wait."""
        self.fails += 1
        denied = isinstance(error, DeniedError)
        way = type(error).__name__ if not denied else str(error)
        if way != self._told:
            self._told = way
            if denied:
                log.error(
                    "InfluxDB refuses (%s): see influx.token, influx.org, influx.bucket and influx.url in conf.json; "
                    "the next try is in %.0f s, points are kept meanwhile", error, self._pace.denied,
                )  # fmt: skip
            else:
                log.warning("InfluxDB takes no points (%s): they are kept and written later", error)
        self._stale = True
        if denied:
            return self._pace.denied * random.uniform(1.0, 1.2)  # noqa: S311  (spreads the load)
        doubled: float = self._pace.first * 2.0 ** min(self.fails - 1, 16)
        asked = error.after_s if isinstance(error, UnavailableError) else 0.0
        pause = min(self._pace.longest, doubled) * random.uniform(0.5, 1.0)  # noqa: S311  (as above)
        return max(pause, min(asked, self._pace.asked))

    def _connect_anew(self) -> None:
        try:
            server = self._connect()
        except ConfigError as error:
            if str(error) != self._mistake:
                self._mistake = str(error)
                log.error("%s", error)  # noqa: TRY400  (a person's mistake; there is nothing to trace)
            return
        self._mistake = ""
        self._stale = False
        self._server.close()
        self._server = server

    def _recovered(self) -> None:
        if self._told:
            log.warning("InfluxDB takes points again; %d were waiting", self._buffer.points)
        self._told = ""
        self.fails = 0

    def _report_losses(self) -> None:
        now = time.monotonic()
        if now < self._report_at:
            return
        self._report_at = now + self._pace.report
        dropped = self._buffer.dropped()
        if dropped:
            log.warning("%d points were dropped, the oldest first: the buffer is full", dropped)
        if self._refused:
            log.warning("InfluxDB refused %d points for good: %s", self._refused, self._refusal)
            self._refused = 0
