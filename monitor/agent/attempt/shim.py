"""The fork of the agent that stands over one attempt: claims it, starts it, watches it, ends it, records its end.

It owns one command's whole tree, as its parent and subreaper, from the claim to the last process. It talks to nobody
but the record on disk and the pipe of reports, so the agent and the master may come and go. SIGTERM asks it to kill.
Shim and command are forked before their launch is known where that is possible: forks are most of what a start costs.

The order at the end is what the rest relies on: the whole tree is dead, the exit is synced, the log gets its last
line, then the report goes out. A log that hangs therefore delays only the report: the agent looks at the records too.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
import stat
import time
from contextlib import suppress
from typing import Any, Dict, List, Optional

from .. import fork, tree
from ..folder import Folder
from ..log import plain
from . import as_owner, blame, record, reports, start
from .failpoint import reach
from .log_watch import BEYOND, LogWatch

LEFTOVER_GRACE_S = 2.0
KILL_AGAIN_S = 0.1
RETRY_DISK_S = 1.0
REHEARSAL = '{"launch_id": "", "argv": [""], "env": {}, "log_path": "", "grace_s": 0.5, "time_limit_s": null}'
SIGNALS = (signal.SIGTERM, signal.SIGCHLD)
"""Blocked by the agent around its fork, so that none is lost before the handlers here stand."""


class Shim:
    """`reports`: the descriptor of the pipe that the agent reads. `environment`: what a log-in here gives."""

    def __init__(self, folder: Folder, reports: int, boot_id: str, environment: Dict[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._launch: Dict[str, Any] = {}
        self._launch_id = ""
        self._reports = reports
        self._boot_id = boot_id
        self._record = -1
        self._wake = -1
        self._poller = select.poll()
        self._errors = -1
        self._orders: Optional[socket.socket] = None
        """By which a command that runs as its owner tells of itself."""
        self._own_log = -1
        """Its log, open: root follows no path to it."""
        self._log: Optional[LogWatch] = None
        self._why = ""
        self._error = ""
        self._fault = blame.TASK
        self._main = 0
        self._code: Optional[int] = None
        self._cause = ""
        self._started_at: Optional[float] = None
        self._limit: Optional[float] = None
        self._kill_at: Optional[float] = None
        self._kill_asked = False
        self._alone = False

    def run(self, order: bytes, orders: int) -> None:
        """Everything, from the forks to the report. `order`: the launch as a line; if empty, it comes by `orders`."""
        os.setsid()
        self._hear_signals()
        fork.become_subreaper()
        command = None
        with suppress(OSError):
            command = self._fork()
        order = order or self._wait_for_order(orders)
        if not order.endswith(b"\n"):
            return  # nobody needs this shim, and the process that stands by hears it from the end of its socket
        self._launch = json.loads(order)
        self._launch_id = self._launch["launch_id"]
        try:
            command = command or self._fork()
        except OSError as error:
            self._report(record.not_started(f"no process could be made for the command: {error.strerror}", blame.NODE))
            return
        if not self._claim():
            return
        reach(self._folder, "shim.after_claim")
        self._start(command, order)
        self._watch()
        self._finish()

    def _wait_for_order(self, orders: int) -> bytes:
        """The launch; not a whole line when this spare is to end."""
        self._rehearse()
        poller = select.poll()
        poller.register(orders, select.POLLIN)
        poller.register(self._wake, select.POLLIN)
        while True:
            ready = [fd for fd, _ in poller.poll()]
            if orders not in ready:
                _drain(self._wake)
                self._reap()
                # Looked at in this order: the agent asks for a kill only after it gave the launch.
                if not (self._kill_asked or self._alone) or poller.poll(0):
                    continue
                return b""
            return _read_line(orders)

    def _hear_signals(self) -> None:
        self._wake, write = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.signal(signal.SIGTERM, self._on_term)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        self._poller.register(self._wake, select.POLLIN)

    def _on_term(self, _number: int, _frame: object) -> None:
        self._kill_asked = True

    def _claim(self) -> bool:
        try:
            self._record = record.claim(self._folder, self._launch_id)
        except record.ClaimedError:
            self._report({"is": "look"})
            return False
        except OSError as error:
            self._report(self._unclaimed(error))
            return False
        try:
            self._write_claim()
        except OSError as error:
            record.forget(self._folder, self._launch_id)
            self._report(self._unclaimed(error))
            return False
        return True

    def _write_claim(self) -> None:
        record.append(self._record, record.encode(self._claim_line(self._launch)))

    def _claim_line(self, launch: Dict[str, Any]) -> record.Line:
        myself = tree.look(os.getpid())
        line = {"is": "claim", "launch_id": launch["launch_id"], "boot_id": self._boot_id, "at": time.time()}
        line.update(shim=os.getpid(), shim_start=myself.start if myself else 0, log_path=launch["log_path"])
        return line

    def _unclaimed(self, error: OSError) -> record.Line:
        text = f"the launch cannot be recorded in {self._folder.path}: {error.strerror}"
        return record.not_started(text, blame.NODE)

    def _fork(self) -> socket.socket:
        """Make the process that becomes the command; gives the socket on which it waits for its launch."""
        ours, theirs = socket.socketpair()
        self._errors, write = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            self._main = os.fork()
            if self._main == 0:
                ours.close()
                start.stand_by(theirs, write, self._environment)
        except OSError:
            ours.close()
            os.close(self._errors)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            theirs.close()
            os.close(write)
        return ours

    def _rehearse(self) -> None:
        """Touch what a launch will touch: the first use of a page that the agent has too costs more than the work."""
        record.encode(self._claim_line(json.loads(REHEARSAL)))
        record.encode(record.exit_line(0, "", "", time.time()))
        with suppress(record.ClaimedError, OSError):
            record.claim(self._folder, ".")  # a name that is taken

    def _start(self, command: socket.socket, order: bytes) -> None:
        try:
            start.hand_over(command, order, self._record)
        except OSError as error:
            self._error = f"the command's process ended before its start ({error.strerror})"
            self._fault = blame.NODE
        if "login" in self._launch:
            self._orders = command
        else:
            command.close()
        self._poller.register(self._errors, select.POLLIN)
        if self._launch["time_limit_s"] is not None:
            self._limit = time.monotonic() + self._launch["time_limit_s"]

    def _watch(self) -> None:
        while True:
            self._reap()
            if self._alone:
                break
            now = time.monotonic()
            self._advance(now)
            for fd, _ in self._poller.poll(self._timeout_ms(now)):
                if fd == self._wake:
                    _drain(fd)
                elif self._log is not None and fd == self._log.fd:
                    self._hear_log(self._log)
                else:
                    self._hear_start()
        if self._errors >= 0:
            self._hear_start()

    def _hear_start(self) -> None:
        """The pipe closes at the exec, or says first what went wrong."""
        said = os.read(self._errors, 4096).decode("utf-8", "replace")
        if said:
            self._fault, _, self._error = said.partition(" ")
        self._poller.unregister(self._errors)
        os.close(self._errors)
        self._errors = -1
        if self._error:
            return
        self._started_at = time.time()
        process = tree.look(self._main)
        line = {"is": "start", "pid": self._main, "pid_start": process.start if process else 0, "at": self._started_at}
        line.update(self._hear_owner())
        try:
            record.append(self._record, record.encode(line))
        except OSError as error:
            _complain(f"{self._launch_id}: the start could not be recorded: {error.strerror}")
        self._report(line)
        reach(self._folder, "shim.after_start")
        self._watch_log()

    def _hear_owner(self) -> record.Line:
        """Of a command that runs as its owner: who that is, and where its log lies."""
        if self._orders is None:
            return {}
        told = as_owner.hear(self._orders)
        self._orders.close()
        self._own_log = told.pop("log", -1)
        return told

    def _watch_log(self) -> None:
        limit = self._launch.get("log_bytes")
        if not isinstance(limit, int) or limit <= 0:
            return
        try:
            self._log = LogWatch(self._launch["log_path"] if self._own_log < 0 else self._own_log, limit)
        except (OSError, RuntimeError) as error:  # no thread is to be had: the task is worth more than its log's limit
            _complain(f"{self._launch_id}: its log is not watched: {error}")
            return
        self._poller.register(self._log.fd, select.POLLIN)

    def _hear_log(self, log: LogWatch) -> None:
        """It is large: the master is told; it is too large: the task ends."""
        if BEYOND in os.read(log.fd, 16):
            self._why = f"{log.size} bytes in {self._launch['log_path']}, {log.limit} are allowed"
            self._cause = self._cause or "log_too_large"
            self._terminate(time.monotonic(), self._launch["grace_s"])
            return
        line = {"is": "log", "bytes": log.size, "limit": log.limit}
        try:
            record.append(self._record, record.encode(line))
        except OSError as error:
            _complain(f"{self._launch_id}: the size of its log could not be recorded: {error.strerror}")
        self._report(line)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._alone = True
                return
            if pid == 0:
                return
            if pid == self._main:
                self._main = 0
                self._code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
                self._cause = self._cause or "exited"

    def _advance(self, now: float) -> None:
        """What time and signals ask for, while something lives."""
        if self._kill_asked:
            self._kill_asked = False
            self._cause = self._cause or "killed"
            self._terminate(now, self._grace_s())
        if self._limit is not None and self._main and now >= self._limit:
            self._limit = None
            self._cause = self._cause or "timed_out"
            self._terminate(now, self._launch["grace_s"])
        if not self._main and self._kill_at is None:
            self._terminate(now, LEFTOVER_GRACE_S)
        if self._kill_at is not None and now >= self._kill_at:
            tree.send(self._tree(), signal.SIGKILL)
            self._kill_at = now + KILL_AGAIN_S

    def _grace_s(self) -> float:
        asked = record.asked_grace(self._folder, self._launch_id)
        return float(self._launch["grace_s"] if asked is None else asked)

    def _terminate(self, now: float, grace_s: float) -> None:
        kill_at = now + max(0.0, grace_s)
        self._kill_at = kill_at if self._kill_at is None else min(self._kill_at, kill_at)
        tree.terminate(self._tree())

    def _tree(self) -> List[tree.Process]:
        return tree.descendants([os.getpid()], tree.everyone())

    def _timeout_ms(self, now: float) -> Optional[int]:
        times = [self._kill_at, self._limit if self._main else None]
        known = [at for at in times if at is not None]
        return max(0, int((min(known) - now) * 1000) + 1) if known else None

    def _finish(self) -> None:
        if self._error:
            line = record.not_started(self._error, self._fault)
            if self._cause == "killed":
                line = record.exit_line(None, "killed", self._error, None)
        else:
            why = self._why if self._cause == "log_too_large" else ""
            line = record.exit_line(self._code, self._cause, why, self._started_at)
        reach(self._folder, "shim.before_exit_record")
        self._record_exit(record.encode(line))
        reach(self._folder, "shim.after_exit_record")
        self._close_log()
        self._report(line)

    def _record_exit(self, data: bytes) -> None:
        """Until the disk takes it: without it nobody may hear of the exit."""
        while not self._could_record(data):
            time.sleep(RETRY_DISK_S)

    def _could_record(self, data: bytes) -> bool:
        try:
            record.append(self._record, data, sync=True)
            if record.is_elsewhere(self._folder, self._launch_id, self._record):
                record.leave(self._folder, self._launch_id, data)  # where the agent that adopted it looks
        except OSError as error:
            _complain(f"{self._launch_id}: the exit cannot be recorded yet: {error.strerror}")
            return False
        return True

    def _close_log(self) -> None:
        if self._code is None or self._error:
            return
        try:
            log = self._own_log
            if "login" not in self._launch:
                log = os.open(self._launch["log_path"], os.O_WRONLY | os.O_APPEND | os.O_NOCTTY | os.O_NONBLOCK)
            elif log < 0 or not stat.S_ISREG(os.fstat(log).st_mode):
                return
            os.write(log, b"\nProgram Exit With Code %d\n" % self._code)
        except OSError as error:
            _complain(f"{self._launch_id}: the last line of {self._launch['log_path']}: {error.strerror}")

    def _report(self, line: record.Line) -> None:
        try:
            reports.send(self._reports, self._launch_id, line)
        except OSError as error:
            if error.errno != errno.EAGAIN:  # full: no agent reads now; it will look at the record
                _complain(f"{self._launch_id}: no report: {error.strerror}")


def _read_line(fd: int) -> bytes:
    """What the agent wrote: a line, or less if it ended meanwhile."""
    data = os.read(fd, 65536)
    while data and not data.endswith(b"\n"):
        more = os.read(fd, 65536)
        if not more:
            break
        data += more
    return data


def _drain(fd: int) -> None:
    """One read will do: what is left wakes the next poll at once."""
    try:
        os.read(fd, 4096)
    except BlockingIOError:
        return


def _complain(text: str) -> None:
    try:
        os.write(2, f"{time.strftime('%F %T')} shim: {plain(text)}\n".encode("utf-8", "replace"))
    except OSError:
        return  # the log's disk may be the one that is full; the watch goes on
