"""The process that stands over one attempt, in a fork of the agent's: claims it, starts it, watches it, ends it,
records its end.

It owns one command's whole tree, as its parent and subreaper, from the claim to the last process. It talks to nobody
but the record on disk and the pipe of reports, so the agent and the master may come and go. SIGTERM asks it to kill.
The process is there before the launch is known where that is possible (`standby`), and starts the command by vfork
(`spawn`): forks are most of what a start costs. It stands over the next attempt only after one that left it nothing.

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
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from .. import tree
from ..folder import Folder
from ..log import plain
from . import as_owner, blame, given_files, log_tail, record, reports, spawn, stages, start
from .blame import StartError
from .early import EarlySignal
from .exhaustion import OOM_HOST, KernelKills, look
from .failpoint import reach
from .log_watch import BEYOND, LOOK_S, LogWatch
from .preparation import Preparation, prepare

if TYPE_CHECKING:
    from .standby import Signals

LEFTOVER_GRACE_S = 2.0
KILL_AGAIN_S = 0.1
KILLED = 128 + signal.SIGKILL
RETRY_DISK_S = 1.0
REHEARSAL = '{"launch_id": "", "cwd": "/", "env": {}, "log_path": "/dev/null", "grace_s": 0.5, "time_limit_s": null}'
NAME_LENGTH = 256
"""Characters of a task's name that its record keeps: one block is to hold all of it."""
SIGNALS = (signal.SIGTERM, signal.SIGCHLD)
"""Blocked by the agent around its fork, so that none is lost before the handlers here stand."""


class Shim:
    """`reports`: the descriptor of the pipe that the agent reads. `environment`: what a log-in here gives. `signals`:
    of this process. `spawns`: `spawn` is possible here."""

    def __init__(
        self,
        folder: Folder,
        reports: int,
        boot_id: str,
        environment: Dict[str, str],
        signals: Signals,
        *,
        spawns: bool,
    ) -> None:
        self._folder = folder
        self._environment = environment
        self._signals = signals
        self._spawns = spawns
        self._launch: Dict[str, Any] = {}
        self._launch_id = ""
        self._reports = reports
        self._boot_id = boot_id
        self._record = -1
        self._poller = select.poll()
        self._errors = -1
        self._orders: Optional[socket.socket] = None
        """By which a command's own process tells of itself."""
        self._own_log = -1
        """Its log, open: no path is followed to it again, where something else may lie by then."""
        self._readable = -1
        """The same, to be read, where the command runs as its owner."""
        self._stages: Optional[stages.Stages] = None
        """Those before the command."""
        self._preparation: Optional[Preparation] = None
        """Under way; there is no command yet."""
        self._kills: Optional[KernelKills] = None
        self._look_at_log: Optional[float] = None
        """When there will be something to see: whoever is over before needs no thread for it."""
        self._log: Optional[LogWatch] = None
        self._why = ""
        self._error = ""
        self._fault = blame.TASK
        self._main = 0
        self._code: Optional[int] = None
        self._cause = ""
        self._started_at: Optional[float] = None
        self._limit: Optional[float] = None
        self._early: Optional[EarlySignal] = None
        self._kill_at: Optional[float] = None
        self._alone = False
        self._is_last = True

    def run(self, order: bytes, *, is_last: bool) -> bool:
        """Everything, to the report; whether the agent was told that this process can stand over another attempt.
        `order`: the launch as a line; `is_last`: there shall be no other."""
        self._is_last = is_last
        self._launch = json.loads(order)
        self._launch_id = self._launch["launch_id"]
        self._poller.register(self._signals.wake, select.POLLIN)
        if not self._claim():
            return False
        reach(self._folder, "shim.after_claim")
        self._start()
        self._watch()
        return self._finish()

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
        line = {"is": "claim", "launch_id": launch["launch_id"], "boot_id": self._boot_id, "at": time.time()}
        line.update(shim=os.getpid(), shim_start=self._signals.started, log_path=launch["log_path"])
        line.update(given_files.paths(launch))
        env = launch["env"]
        line.update(gpus=env.get("CUDA_VISIBLE_DEVICES"), name=env.get("MUSTER_TASK_NAME", "")[:NAME_LENGTH])
        if os.geteuid() == 0:  # nobody else may read what processes of other accounts carry
            line["home"] = tree.group_apart(os.getpid())
        return line

    def _unclaimed(self, error: OSError) -> record.Line:
        text = f"the launch cannot be recorded in {self._folder.path}: {error.strerror}"
        return record.not_started(text, blame.NODE)

    def rehearse(self) -> None:
        """Touch what a launch will touch: the first use of a page that the agent has too costs more than the work."""
        record.encode(self._claim_line(json.loads(REHEARSAL)))
        record.encode(record.exit_line(0, "", "", time.time()))
        with suppress(record.ClaimedError, OSError):
            record.claim(self._folder, ".")  # a name that is taken
        if not self._spawns:
            return
        launch = json.loads(REHEARSAL)
        with suppress(StartError):
            # Without a thread: who has one is dead before its pipe is closed, and a launch may still get into that.
            log = prepare(launch)
            with suppress(StartError):
                spawn.spawn(["/"], start.variables(launch, self._environment), log)  # a folder is no program
            os.close(log)

    def _start(self) -> None:
        """Have it prepared, or have it done all by a process of its own."""
        try:
            self._stages = stages.of(self._launch)
            if self._spawns and "login" not in self._launch:
                self._preparation = Preparation(self._launch)
                self._poller.register(self._preparation.fd, select.POLLIN)
            else:
                self._fork()
        except StartError as error:
            self._error, self._fault = str(error), error.fault
        except OSError as error:
            self._error, self._fault = f"no process could be made for the command: {error.strerror}", blame.NODE
        if self._launch["time_limit_s"] is not None:
            self._limit = time.monotonic() + self._launch["time_limit_s"]
            self._early = EarlySignal.of(self._launch, self._limit)

    def _fork(self) -> None:
        """Make the process that becomes the command. Raises OSError."""
        ours, theirs = socket.socketpair()
        self._errors, write = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            self._main = os.fork()
            if self._main == 0:
                ours.close()
                start.become(self._launch, theirs, write, self._environment, self._stage_fd)
        except OSError:
            os.close(self._errors)
            self._errors = -1
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            theirs.close()
            os.close(write)
            if not self._main:
                ours.close()
        self._poller.register(self._errors, select.POLLIN)
        self._orders = ours

    def _watch(self) -> None:
        while True:
            self._reap()
            if self._alone and self._preparation is None:
                break
            now = time.monotonic()
            self._advance(now)
            if self._preparation is not None and self._kill_at is not None:
                break  # nothing runs yet; what hangs in there ends with us
            for fd, _ in self._poller.poll(self._timeout_ms(now)):
                if fd == self._signals.wake:
                    self._signals.drain()
                elif self._preparation is not None and fd == self._preparation.fd:
                    self._spawn(self._preparation)
                elif self._log is not None and fd == self._log.fd:
                    self._hear_log(self._log)
                else:
                    self._hear_start()
        if self._errors >= 0:
            self._hear_start()

    def _spawn(self, preparation: Preparation) -> None:
        """All is there that may hang: the command begins."""
        self._poller.unregister(preparation.fd)
        self._preparation = None
        try:
            self._own_log = preparation.finish()
            variables = start.variables(self._launch, self._environment)
            self._main = spawn.spawn(self._launch["argv"], variables, self._own_log, self._stage_fd)
        except StartError as error:
            self._error, self._fault = str(error)[: start.MAX_ERROR], error.fault
            return
        finally:
            os.chdir("/")
        self._alone = False
        self._started()

    def _hear_start(self) -> None:
        """The pipe closes at the exec, or says first what went wrong."""
        said = os.read(self._errors, 4096).decode("utf-8", "replace")
        if said:
            self._fault, _, self._error = said.partition(" ")
        self._poller.unregister(self._errors)
        os.close(self._errors)
        self._errors = -1
        if not self._error:
            self._started()

    def _started(self) -> None:
        self._launch.pop("token", None)
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
        self._kills = KernelKills()
        self._watch_log_from(time.monotonic())

    def _hear_owner(self) -> record.Line:
        """Of a command that a process of its own began: its log, and whose it is, where it runs as its owner."""
        if self._orders is None:
            return {}
        told = as_owner.hear(self._orders)
        self._orders.close()
        self._own_log, self._readable = told.pop("log", -1), told.pop("read", -1)
        return told

    def _watch_log_from(self, now: float) -> None:
        limit = self._launch.get("log_bytes")
        if isinstance(limit, int) and limit > 0:
            self._look_at_log = now + LOOK_S

    def _watch_log(self) -> None:
        self._look_at_log, limit = None, self._launch["log_bytes"]
        try:
            self._log = LogWatch(self._own_log, limit)
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
                if self._stages is not None and os.WIFEXITED(status) and not self._cause:
                    self._code = self._stages.code(self._code)
                self._cause = self._cause or "exited"

    def _advance(self, now: float) -> None:
        """Do what time and signals ask for, while some process lives."""
        if self._signals.kill_asked:
            self._signals.kill_asked = False
            self._cause = self._cause or "killed"
            self._terminate(now, self._grace_s())
        if self._look_at_log is not None and now >= self._look_at_log:
            self._watch_log()
        if self._early is not None and self._may_warn() and now >= self._early.at:
            self._early.send(self._tree(), self._main)
        if self._limit is not None and self._is_under_way and now >= self._limit:
            self._limit = None
            self._cause = self._cause or "timed_out"
            self._terminate(now, self._launch["grace_s"])
        if not self._is_under_way and self._kill_at is None:
            self._terminate(now, LEFTOVER_GRACE_S)
        if self._kill_at is not None and now >= self._kill_at:
            tree.send(self._tree(), signal.SIGKILL)
            self._kill_at = now + KILL_AGAIN_S

    @property
    def _stage_fd(self) -> int:
        return -1 if self._stages is None else self._stages.shells

    @property
    def _is_under_way(self) -> bool:
        """Is there the command, or will there be?"""
        return bool(self._main) or self._preparation is not None

    def _may_warn(self) -> bool:
        """Whether there is a command by now that may have said what it heeds, and need not end anyway."""
        is_due = self._early is not None and self._early.reached is None
        return is_due and self._started_at is not None and bool(self._main) and self._kill_at is None

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
        early = self._early.at if self._early is not None and self._may_warn() else None
        times = [self._kill_at, early, self._look_at_log, self._limit if self._is_under_way else None]
        known = [at for at in times if at is not None]
        return max(0, int((min(known) - now) * 1000) + 1) if known else None

    def _finish(self) -> bool:
        given_files.remove(given_files.paths(self._launch).values())
        if self._error:
            line = record.not_started(self._error, self._fault)
            if self._cause == "killed":
                line = record.exit_line(None, "killed", self._error, None)
        else:
            why = self._why if self._cause == "log_too_large" else ""
            line = record.exit_line(self._code, self._cause, why, self._started_at)
            line.update(self._found())
        reach(self._folder, "shim.before_exit_record")
        self._record_exit(record.encode(line))
        reach(self._folder, "shim.after_exit_record")
        self._close_log()
        is_free = self._leaves_nothing()
        os.close(self._record)
        return self._report({**line, "free": os.getpid()} if is_free else line) and is_free

    def _leaves_nothing(self) -> bool:
        """Is this process as it was before: no descendant, no kill asked for, no thread that may hang, no other rights
        in use? Anything but the plainest of ends is its last one."""
        is_plain = self._cause == "exited" and self._code == 0 and self._kill_at is None and "login" not in self._launch
        is_alone = self._alone and self._log is None and self._errors < 0
        return is_plain and is_alone and not self._is_last and not self._signals.kill_asked

    def _found(self) -> record.Line:
        """Return all else that is known of its end."""
        found: record.Line = {}
        if self._early is not None and self._early.reached is not None:
            found["reached"] = self._early.reached
        if self._cause != "exited" or not self._code:
            return found
        log = self._readable if "login" in self._launch else f"/proc/self/fd/{self._own_log}"
        tail = log_tail.read(log) if log != -1 else log_tail.Tail(b"")
        ran_out = look(tail)
        if ran_out is not None:
            found.update(ran_out=ran_out.what, last_line=log_tail.shown(ran_out.line))
        else:
            found["last_line"] = tail.last_line()
        if ran_out is None and self._code == KILLED and self._kills is not None and self._kills.any():
            found["ran_out"] = OOM_HOST
        return {key: value for key, value in found.items() if value != ""}

    def _record_exit(self, data: bytes) -> None:
        """Until the disk takes it: without it nobody may hear of the exit."""
        while not self._could_record(data):
            time.sleep(RETRY_DISK_S)

    def _could_record(self, data: bytes) -> bool:
        try:
            record.append(self._record, data, sync=True)
            if record.is_elsewhere(self._folder, self._launch_id, self._record):
                self._is_last = True  # its agent has lost the folder, and the next one takes us for this attempt's
                record.leave(self._folder, self._launch_id, data)  # where the agent that adopted it looks
        except OSError as error:
            _complain(f"{self._launch_id}: the exit cannot be recorded yet: {error.strerror}")
            return False
        return True

    def _close_log(self) -> None:
        if self._stages is not None:
            self._stages.close()
        try:
            if self._own_log >= 0 and self._code is not None and not self._error:
                self._write_last_line(b"\nProgram Exit With Code %d\n" % self._code)
            for fd in (self._own_log, self._readable):
                if fd >= 0:
                    os.close(fd)
        except OSError as error:
            _complain(f"{self._launch_id}: the last line of {self._launch['log_path']}: {error.strerror}")

    def _write_last_line(self, line: bytes) -> None:
        if stat.S_ISREG(os.fstat(self._own_log).st_mode):
            os.write(self._own_log, line)
        elif "login" not in self._launch:
            # Not to wait for who reads a pipe, and without changing how its other writers wait.
            flags = os.O_WRONLY | os.O_APPEND | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
            fd = os.open(f"/proc/self/fd/{self._own_log}", flags)
            os.write(fd, line)
            os.close(fd)

    def _report(self, line: record.Line) -> bool:
        """Whether it is on its way."""
        try:
            return reports.send(self._reports, self._launch_id, line)
        except OSError as error:
            if error.errno != errno.EAGAIN:  # full: no agent reads now; it will look at the record
                _complain(f"{self._launch_id}: no report: {error.strerror}")
            return False


def _complain(text: str) -> None:
    try:
        os.write(2, f"{time.strftime('%F %T')} shim: {plain(text)}\n".encode("utf-8", "replace"))
    except OSError:
        return  # the log's disk may be the one that is full; the watch goes on
