"""`python -m monitor --conf FILE`: follows a master and writes what it tells to InfluxDB, until it is told to end.

A process of its own, and a client of the master like any other: an outage of InfluxDB cannot reach the scheduler, and
one of the master only pauses the points. Owns the threads, the lock that keeps a lab to one writer, and the log.
"""

from __future__ import annotations

import argparse
import fcntl
import logging
import os
import queue
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from client.api import Client, connect
from monitor.influx import Point, to_text, writer_point
from monitor.influx_recorder import Recorder
from monitor.influx_settings import Settings, load_settings, lock_file, service_token
from monitor.influx_status import STATUS_FILE, StatusFile
from monitor.influx_writer import Buffer, Tally, Writer
from wire.errors import ConfigError, LockedError, MusterError
from wire.lab import read as read_lab
from wire.message import Message
from wire.state_folder import check_alone

log = logging.getLogger("muster.influx")

GAUGE_S = 10.0
"""How often the state of queue and nodes is written; samples are written as they come."""
HISTORY = 2000
"""How many ended tasks are told again after each connect, for those that ended while nobody listened."""
PENDING = 10_000
"""Messages that may wait here; beyond it the master keeps only the newest of each task and node for us."""
RECONNECT_S = (0.2, 15.0)
LOOK_S = 0.2
LAST_WORDS_S = 5.0
COMPLAINT_S = 60.0
LOCK_S = 2.0
Streamed = Literal["tasks", "nodes"]
What = Literal[Streamed, "master"]


class Stream(threading.Thread):
    """Follows one stream of the master over all its restarts. Puts (what, message) on the queue; None: it broke."""

    def __init__(self, conf: str, what: Streamed, messages: queue.Queue[tuple[What, dict[str, Any] | None]]) -> None:
        super().__init__(name=what, daemon=True)
        self._conf = conf
        self._what = what
        self._messages = messages

    def run(self) -> None:
        """Follow it for ever."""
        shortest, longest = RECONNECT_S
        pause, told = shortest, ""
        while True:
            try:
                for message in self._follow():
                    if told:
                        log.info("connected to the master again (%s)", self._what)
                    pause, told = shortest, ""
                    self._messages.put((self._what, message))
            except MusterError as error:
                if error.code != told:
                    log.warning("%s: %s; trying again", self._what, error)
                    told = error.code
            except Exception:
                log.exception("following the %s failed", self._what)  # a defect; it must not end the others' points
            self._messages.put((self._what, None))
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  (spreads the load)
            pause = min(pause * 2, longest)

    def _follow(self) -> Iterator[dict[str, Any]]:
        # Each time anew: a master that starts makes another one.
        with connect(conf=self._conf, token=service_token(Path(self._conf))) as client:
            client.close()  # the stream has one of its own, that of nodes asks for nothing; a request opens it anew
            for message in client.watch(self._what):
                yield message
                if message["method"] == "snapshot" and self._what == "tasks":
                    yield _history(client)


def _history(client: Client) -> dict[str, Any]:
    """The newest ended tasks, asked for once the stream flows, so that none ends in between."""
    tasks, _total = client.list_tasks(active=False, ended=True, limit=HISTORY)
    return {"method": "history", "params": {"tasks": tasks}}


class Asker(threading.Thread):
    """Asks the master how it does. That it is away the streams tell."""

    def __init__(self, conf: str, messages: queue.Queue[tuple[What, dict[str, Any] | None]]) -> None:
        super().__init__(name="master", daemon=True)
        self._conf = conf
        self._messages = messages

    def run(self) -> None:
        """Ask for ever."""
        while True:
            try:
                self._ask()
            except MusterError as error:
                log.debug("the master does not say how it does: %s", error)
            except Exception:
                log.exception("asking the master failed")
            time.sleep(GAUGE_S)

    def _ask(self) -> None:
        with connect(conf=self._conf, token=service_token(Path(self._conf))) as client:
            while True:
                self._messages.put(("master", {"method": "server.info", "params": client.info()}))
                time.sleep(GAUGE_S)


class Collector:
    """Takes the messages of both streams, one after the other, and hands their points to the buffer; and tells `muster
    status` what became of them."""

    def __init__(self, buffer: Buffer, tally: Callable[[], Tally], told: StatusFile, *, hides: bool = False) -> None:
        self.messages: queue.Queue[tuple[What, dict[str, Any] | None]] = queue.Queue(PENDING)
        self._recorder = Recorder(hides=hides)
        self._buffer = buffer
        self._tally = tally
        self._told = told
        self._gauge_at = 0.0
        self._complain_at = 0.0

    def run(self, stopping: threading.Event) -> None:
        """Work until `stopping` is set."""
        while not stopping.is_set():
            with suppress(queue.Empty):
                self._take(*self.messages.get(timeout=LOOK_S))
            late = time.monotonic() - self._gauge_at
            if late >= 0:
                # At a steady pace: a panel that adds up spans of GAUGE_S finds a figure in each of them.
                self._gauge_at += GAUGE_S if late < GAUGE_S else late + GAUGE_S
                self._tell(self._gauges, "how things are")
            self._told.show(self._tally(), time.monotonic())

    def _gauges(self) -> list[Point]:
        now, counts = time.time_ns(), self._tally()._asdict()
        del counts["last_write"]  # the time of the newest point is just that
        return [*self._recorder.tick(now), writer_point(counts, now)]

    def _take(self, what: What, message: dict[str, Any] | None) -> None:
        if message is None:
            self._recorder.lost(what)
            return
        if message["method"] == "snapshot":
            self._gauge_at = 0.0  # there is something to tell again: now
        self._tell(lambda: self._recorder.handle(message, time.time_ns()), message)

    def _tell(self, points: Callable[[], list[Point]], of: object) -> None:
        try:
            self._buffer.add(*to_text(points()))
        except Exception:
            # From a master or an agent of another version: the rest of what they say is still worth having.
            if time.monotonic() >= self._complain_at:
                self._complain_at = time.monotonic() + COMPLAINT_S
                log.exception("what the master told makes no sense: %.300r", of)


def main(words: list[str] | None = None) -> int:
    """Run it. Exit codes: 0 told to end, 1 it could not start (one line on stderr says why)."""
    conf = Path(_arguments().parse_args(words).conf).absolute()
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", force=True
    )
    logging.getLogger("influxdb_client").setLevel(logging.CRITICAL)  # what failed is told here, in our words
    try:
        settings = load_settings(conf)
        lock = lock_file(conf)
        check_alone(str(conf), str(lock.parent), read_lab(str(conf)))
        _lock(lock)
        _work(conf, settings)
    except MusterError as error:
        sys.stderr.write(f"error: {error.code}: {error}\n")
        return 1
    return 0


def _work(conf: Path, settings: Settings) -> None:
    log.info("writing to %s, %s", settings.url, settings.bucket)
    from monitor.influx_server import connect as connect_influx  # noqa: PLC0415  (slow; the lock is held by now)

    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    buffer = Buffer()
    writer = Writer(buffer, lambda: connect_influx(load_settings(conf)))
    collector = Collector(
        buffer, writer.tally, StatusFile(lock_file(conf).with_name(STATUS_FILE)), hides=settings.hides
    )
    writer.start()
    streams: tuple[Streamed, Streamed] = ("tasks", "nodes")
    for what in streams:
        Stream(str(conf), what, collector.messages).start()
    Asker(str(conf), collector.messages).start()
    collector.run(stopping)
    writer.stop(LAST_WORDS_S)
    log.info("ended")


def _lock(path: Path) -> int:
    """Hold the lab's lock while the descriptor that it gives is open, until this process is gone. Raises LockedError
    with the pid of who holds it, ConfigError."""
    try:
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(Message("influx_lock_refused", path=str(path), detail=error.strerror)) from None
    try:
        _flock(fd)
    except BlockingIOError:
        pid = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
        os.close(fd)
        if not pid:
            raise LockedError(Message("influx_lock_held_unseen", path=str(path))) from None
        raise LockedError(Message("influx_lock_held", path=str(path), pid=pid)) from None
    os.ftruncate(fd, 0)
    os.pwrite(fd, b"%d\n" % os.getpid(), 0)
    return fd


def _flock(fd: int) -> None:
    """Take the lock; try for LOCK_S seconds, because a check of it (`muster up`, `down`, `status`) takes it for an
    instant.

    Raises BlockingIOError.
    """
    deadline = time.monotonic() + LOCK_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(LOCK_S / 50)
        else:
            return


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m monitor", description="Write what the master tells of nodes, GPUs and tasks to InfluxDB."
    )
    parser.add_argument("--conf", required=True, help="conf.json with a section `influx`")
    return parser
