"""All attempts of this node: launches, kills, reports, what a restarted agent finds, and what is forgotten.

It owns the table of attempts. It knows no sockets: messages for the master go to `emit`. Shims are made by `forks`;
those that died without an exit are handed to `orphans`; what is to stand still is `pausing`'s.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Any, Callable, Dict, List, Optional

from .. import tree
from ..folder import Folder
from ..probe.logins import Logins
from . import anew, blame, claims, early, given_files, living, record, stages
from .attempt import ENDED, Attempt, said
from .awaited import Awaited
from .failpoint import reach
from .forks import Forks
from .orphans import Orphans
from .pausing import Pausing
from .reports import Reports
from .survey import Survey

LOOK_EVERY_S = 1.0
LOST = "the exit code is unknown: the agent's state folder was lost while it ran, or the attempt's record there"
Message = Dict[str, Any]


class Keeper:
    """`environment`: what a log-in here gives, filled in before the first launch; `logins`: what it gives others.
    `emit` takes a message for the master, `flush` sends what was emitted, `complain` writes to the agent's log."""

    def __init__(
        self,
        folder: Folder,
        boot_id: str,
        reports: int,
        environment: Dict[str, str],
        *,
        logins: Logins,
        emit: Callable[[Message], None],
        flush: Callable[[], None],
        complain: Callable[[str], None],
    ) -> None:
        self.attempts: Dict[str, Attempt] = {}
        self._folder = folder
        self._boot_id = boot_id
        self._reports = Reports(reports, complain)
        self._emit = emit
        self._flush = flush
        self._complain = complain
        self._awaited = Awaited(logins, self._start, self._refuse)
        self._shims: Dict[int, Attempt] = {}
        self._survey = Survey(self.attempts, self._shims)
        self._orphans = Orphans(
            folder, end=self._end_orphan, fallen=self._survey.fallen_later, unproven=self._tell_unproven
        )
        self._pausing = Pausing(self._tell)
        self.forks = Forks(folder, boot_id, reports, environment, complain)
        self._look_at = 0.0
        self._carried: Dict[str, List[int]] = {}
        """By the launch id that they carry the processes that lived when this agent began, and of which it knows no
        more."""

    def load(self) -> None:
        """Take over what the folder holds from before, and what runs although the folder does not tell of it. Raises
        OSError."""
        found = living.shims(self._folder)
        for launch_id in sorted({*record.sweep(self._folder), *found}):
            self._adopt(launch_id, found.get(launch_id), loading=True)
        self._pausing.recognise(self.attempts.values())
        self._carried = {key: pids for key, pids in tree.carried(os.geteuid()).items() if key not in self.attempts}

    @property
    def idle(self) -> bool:
        """Nothing lives here, and nothing is known here only."""
        ended = all(attempt.state == ENDED and attempt.durable for attempt in self.attempts.values())
        return ended and not self._awaited.any

    @property
    def waits_for_ack(self) -> bool:
        """Whether the master may not know yet that something has ended."""
        return any(attempt.state == ENDED for attempt in self.attempts.values())

    def hurried(self, now: float) -> bool:
        """Whether `look` should be called several times a second: some tree outlived its shim, or is to stand still;
        `now` is monotonic seconds."""
        return self._orphans.any or self._pausing.hurried(now)

    def inventory(self) -> List[Message]:
        """Every attempt that the master has not acknowledged."""
        return [attempt.entry() for attempt in self.attempts.values()]

    def repeat_exits(self) -> None:
        """Emit every exit that waits for its ack."""
        for attempt in self.attempts.values():
            if attempt.state == ENDED:
                self._tell(attempt)

    def launch(self, message: Message) -> None:
        """Start an attempt; for one that is known, answer with its state."""
        problem = _wrong(message)
        launch_id = message.get("launch_id")
        if not isinstance(launch_id, str):
            self._complain(f"a launch without an id: {problem}")
            return
        known = self.attempts.get(launch_id)
        if known is not None:
            self._tell(known)
            return
        if problem:
            self._refuse(launch_id, problem, blame.TASK)
        elif launch_id in self._carried:
            self._doubt_launch(launch_id)
        elif message.get("run_as") is None:
            self._start(launch_id, message)
        else:
            self._awaited.begin(launch_id, message)

    def kill(self, launch_id: str, grace_s: float) -> None:
        """Kill an attempt's whole tree: TERM, then KILL after `grace_s` seconds. An unknown one is claimed as ended."""
        if launch_id in self._carried and launch_id not in self.attempts and record.LAUNCH_ID.match(launch_id):
            self._doubt_launch(launch_id)
        attempt = self.attempts.get(launch_id)
        if attempt is None:
            self._awaited.drop(launch_id)
            self._claim_killed(launch_id, grace_s)
            return
        if attempt.state == ENDED:
            self._tell(attempt)
            return
        attempt.kill_asked, attempt.grace_s = True, grace_s
        self._pausing.ends(attempt)
        if attempt.orphan:
            self._orphans.kill(attempt, time.monotonic())
        else:
            self._ask_shim(attempt)
        if attempt.unproven:
            self._tell_unproven(attempt)

    def pause(self, launch_id: str) -> None:
        """Stop an attempt's whole tree, if it runs. One that does not run yet is asked for again once it does."""
        attempt = self.attempts.get(launch_id)
        if attempt is not None:
            self._pausing.pause(attempt, time.monotonic())

    def resume(self, launch_id: str) -> None:
        """Let it go on."""
        attempt = self.attempts.get(launch_id)
        if attempt is not None:
            self._pausing.resume(attempt)

    def ack(self, launch_ids: List[str]) -> None:
        """Forget these, if they ended."""
        for launch_id in launch_ids:
            attempt = self.attempts.get(launch_id)
            if attempt is None or attempt.state != ENDED:
                continue
            del self.attempts[launch_id]
            self._forget(launch_id)
        claims.trim(self._folder, len(self.attempts))

    def hear_all(self) -> None:
        """Take what is in the pipe of reports."""
        for launch_id, line in self._reports.read():
            self._hear(launch_id, line)

    def reap(self, pid: int) -> bool:
        """One of our children ended. Whether it was a shim."""
        attempt = self._shims.pop(pid, None)
        was_ours = self.forks.reap(pid, time.monotonic())
        if attempt is None:
            return was_ours
        attempt.ours = False
        if attempt.shim == pid:  # else it lost the claim to the shim that stands over the attempt
            attempt.shim = 0
        self.hear_all()  # its last words may still be in the pipe, and they may be the only ones
        if attempt.state != ENDED:
            # The processes below the shim are our children now, whatever they have done to their environment and their
            # session.
            attempt.members |= self._survey.fallen()
            self._check_shim(attempt)
        return True

    def look(self, now: float) -> None:
        """From time to time: exits whose report is late or lost, shims that died, trees without a shim."""
        self._orphans.look(now)
        self._pausing.look(now)
        self.forks.look(now)
        if now < self._look_at:
            return
        self._look_at = now + LOOK_EVERY_S
        if self._folder.is_another():
            return  # what stands there is of the next agent, and a claim that is missing there says nothing
        self._survey.look(now)
        for attempt in list(self.attempts.values()):
            if attempt.orphan and attempt.pid is None:
                self._see_start(attempt)
            if attempt.state == ENDED or attempt.orphan:
                continue
            self._see_reach(attempt)
            size = record.size(self._folder, attempt.launch_id)
            # At the second look only: the report of a shim that has just written may be on its way, and before it the
            # last line of the log, which whoever hears of the exit goes to read.
            if size != attempt.seen and size == attempt.grown:
                self._refresh(attempt)
            attempt.grown = size
            if not attempt.ours and attempt.state != ENDED:
                self._check_shim(attempt)

    def adopt(self, entries: List[Message]) -> None:
        """The master tells of attempts whose claims are gone, or say too little: all that it knows."""
        found = living.shims(self._folder)
        for entry in entries:
            launch_id, pid = str(entry["launch_id"]), int(entry["pid"])
            known = self.attempts.get(launch_id)
            if known is not None and not (known.doubt and known.pid is None):
                continue
            live, main = found.get(launch_id), tree.look(pid) if pid else None
            if main is not None and main.start != entry["pid_start"]:
                main = None
            if main is None and live is not None and not pid:
                main = live.main
            is_ours = main is None or tree.is_our_users(main, is_owners=bool(entry.get("run_as")))
            # A command leads its session. One that has become another account's, as sudo does, is still the attempt's.
            if not record.LAUNCH_ID.match(launch_id) or not (is_ours or _leads(main)):
                self._complain(f"{launch_id[:80]!r} is not adopted: it is no launch id, or another account's")
                continue
            main = main if is_ours else None  # no account but ours, or the owner's, proves anything
            attempt = known or Attempt(launch_id)
            lines = anew.lines(launch_id, self._boot_id, live, main, entry)
            self._make_anew(attempt, lines, has_shim=live is not None)
        self.heard_all()

    def heard_all(self) -> None:
        """The master has told all that it knows, or can tell nothing: what is not found by now is gone."""
        for attempt in self.attempts.values():
            attempt.doubt = False
        self._orphans.hurry()

    def _make_anew(self, attempt: Attempt, lines: List[record.Line], *, has_shim: bool) -> None:
        """Write down what is known of an attempt whose record does not say it, and look after it; where the disk does
        not take that, in memory."""
        self.attempts[attempt.launch_id] = attempt
        if not attempt.orphan:
            self._lock_anew(attempt, lines)
        elif attempt.lock is not None:
            self._write_anew(attempt, attempt.lock, lines)
        for line in record.read_if_possible(self._folder, attempt.launch_id) or lines:
            attempt.take(line)
        for line in lines:
            attempt.take(line)
        attempt.seen = record.size(self._folder, attempt.launch_id)
        if attempt.state == ENDED:
            self._has_ended(attempt)
        elif not attempt.orphan and (attempt.lock is not None or not has_shim):
            attempt.error = attempt.error or LOST
            self._orphans.add(attempt)
        self._pausing.recognise([attempt])

    def _lock_anew(self, attempt: Attempt, lines: List[record.Line]) -> None:
        try:
            attempt.lock, fd = record.reopen(self._folder, attempt.launch_id)
        except OSError as error:
            self._complain(f"{attempt.launch_id}: its record cannot be made anew: {error.strerror}")
            return
        self._write_anew(attempt, fd, lines)
        if fd != attempt.lock:
            os.close(fd)

    def _write_anew(self, attempt: Attempt, fd: int, lines: List[record.Line]) -> None:
        try:
            record.append(fd, b"".join(map(record.encode, lines)))
        except OSError as error:
            self._complain(f"{attempt.launch_id}: its record cannot be made anew: {error.strerror}")

    def _has_ended(self, attempt: Attempt) -> None:
        attempt.durable = True
        if attempt.lock is not None and not attempt.orphan:
            os.close(attempt.lock)
            attempt.lock = None

    def _doubt_launch(self, launch_id: str) -> None:
        """It is to be started or killed, and what carries its id lives: its claim is gone."""
        attempt = Attempt(launch_id)
        self._make_anew(attempt, anew.lines(launch_id, self._boot_id, None, None, {}), has_shim=False)

    def _see_reach(self, attempt: Attempt) -> None:
        """See whether its shim may signal its command, which may have become another account's, as `sudo` does."""
        main = tree.Process(attempt.pid or 0, 0, attempt.pid_start or 0, "")
        is_beyond = bool(main.pid) and not tree.may_signal(main) and tree.is_alive(main.pid, main.start)
        pids = [main.pid] if is_beyond else []
        if pids != attempt.unproven:
            attempt.unproven = pids
            self._tell_unproven(attempt)

    def _tell_unproven(self, attempt: Attempt) -> None:
        self._emit({"op": "unproven", "launch_id": attempt.launch_id, "pids": attempt.unproven})

    def _forget(self, launch_id: str) -> None:
        try:
            record.forget(self._folder, launch_id)
        except OSError as error:  # the next start finds it again, and the master acknowledges it again
            self._complain(f"{launch_id}: cannot be removed: {error.strerror}")

    def _refuse(self, launch_id: str, why: str, fault: str) -> None:
        attempt = self.attempts[launch_id] = Attempt(launch_id)
        self._end(attempt, record.not_started(why, fault), durable=False)

    def _start(self, launch_id: str, message: Message) -> None:
        attempt = self.attempts[launch_id] = Attempt(launch_id)
        env = message["env"]
        attempt.given = said(env.get("CUDA_VISIBLE_DEVICES"), env.get("MUSTER_TASK_NAME"), message["log_path"])
        try:
            self._fork(attempt, message)
        except OSError as error:
            text = f"no process could be made for the launch: {error.strerror}"
            self._end(attempt, record.not_started(text, blame.NODE), durable=False)

    def _fork(self, attempt: Attempt, message: Message) -> None:
        if given_files.brings_any(message):
            given_files.place(message, self._folder.attempts, self._folder.state_id())
        reach(self._folder, "agent.before_fork")
        attempt.shim = self.forks.start(message)
        reach(self._folder, "agent.after_fork")
        attempt.ours = True
        self._shims[attempt.shim] = attempt

    def _ask_shim(self, attempt: Attempt) -> None:
        try:
            record.ask_grace(self._folder, attempt.launch_id, attempt.grace_s)
        except OSError as error:  # no claim yet, or a full disk: the shim then takes the grace of its launch
            self._complain(f"{attempt.launch_id}: the grace of a kill: {error.strerror}")
        if attempt.ours:
            os.kill(attempt.shim, signal.SIGTERM)  # our child, not yet reaped: its pid is nobody else's
        elif attempt.shim:
            tree.send([tree.Process(attempt.shim, 0, attempt.shim_start, "")], signal.SIGTERM)

    def _claim_killed(self, launch_id: str, grace_s: float) -> None:
        if not record.LAUNCH_ID.match(launch_id):
            self._complain(f"a kill of {launch_id[:80]!r}, which is no launch id")
            return
        try:
            fd = record.claim(self._folder, launch_id)
        except record.ClaimedError:
            self._adopt(launch_id)
            self.kill(launch_id, grace_s)
            return
        except OSError as error:
            self._complain(f"{launch_id}: killed before its launch, remembered in memory only: {error.strerror}")
            fd = None
        attempt = self.attempts[launch_id] = Attempt(launch_id)
        self._record_end(attempt, record.exit_line(None, "killed", "", None), fd)

    def _hear(self, launch_id: str, line: record.Line) -> None:
        try:
            self._hear_line(launch_id, line)
        except (ValueError, KeyError, TypeError) as error:
            self._complain(f"{launch_id[:80]!r}: a report that cannot be read: {str(line)[:200]} ({error!r})")

    def _hear_line(self, launch_id: str, line: record.Line) -> None:
        if line.get("is") == "exit" and "free" in line:
            self._release(launch_id, line["free"])
        attempt = self.attempts.get(launch_id)
        if attempt is None:
            # A shim of the agent before us, slower than our first look. But whoever shares our account can write here,
            # and no path is made of what is no launch id.
            if record.LAUNCH_ID.match(launch_id) and record.size(self._folder, launch_id):
                self._adopt(launch_id)
            return
        if line.get("is") == "look":
            if attempt.state != ENDED:
                self._refresh(attempt)
            return
        if attempt.take(line):
            attempt.durable = attempt.state == ENDED and record.size(self._folder, launch_id) > 0
            self._tell(attempt)

    def _release(self, launch_id: str, pid: int) -> None:
        """A shim has nothing left to stand over. One that we have asked for a kill may hear of it only now: it is given
        nothing that this kill is not meant for."""
        attempt = self._shims.get(pid)
        if attempt is None or attempt.launch_id != launch_id:
            return  # it was another agent's, or somebody made it up
        if attempt.kill_asked:
            self.forks.dismiss(pid)
            return
        del self._shims[pid]
        attempt.ours = False
        self.forks.take_back(pid)

    def _adopt(self, launch_id: str, live: Optional[living.LiveShim] = None, *, loading: bool = False) -> None:
        attempt = self.attempts[launch_id] = Attempt(launch_id)
        lines = self._read(launch_id)
        boot_ids = [line["boot_id"] for line in lines if line.get("is") == "claim"]
        if loading and not record.has_start(lines) and boot_ids[:1] in ([], [self._boot_id]):
            self._adopt_unknown(attempt, lines, live)
            return
        self._refresh(attempt)
        if attempt.state == ENDED:
            return
        if boot_ids and boot_ids[0] != self._boot_id:
            line = record.exit_line(None, "rebooted", "", attempt.started_at)
            self._record_end(attempt, line, record.lock(self._folder, launch_id))
            return
        self._check_shim(attempt)

    def _read(self, launch_id: str) -> List[record.Line]:
        """The lines of a record, none where it cannot be read."""
        try:
            with suppress(PermissionError):
                return record.read(self._folder, launch_id)
            record.regain(self._folder, launch_id)
            return record.read(self._folder, launch_id)
        except OSError as error:
            self._complain(f"{launch_id}: its record cannot be read: {error.strerror}")
            return []

    def _adopt_unknown(self, attempt: Attempt, lines: List[record.Line], live: Optional[living.LiveShim]) -> None:
        """Its record does not say who claimed it, or what began. Its shim shows that, if it lives; else the master may
        know, and until it has told nothing is over."""
        for line in lines:
            attempt.take(line)
        if live is not None and live.main is None:
            shim = live.shim
            if (shim.pid, shim.start) == (attempt.shim, attempt.shim_start):
                self._check_shim(attempt)  # nothing is lost: its command has not begun
                return
        if live is not None:
            known = anew.lines(attempt.launch_id, self._boot_id, live, live.main, {})
            self._make_anew(attempt, known, has_shim=True)
            return
        attempt.doubt = True
        self._complain(f"{attempt.launch_id}: its record is lost, or damaged, and no shim stands over it")
        self._make_anew(attempt, [], has_shim=False)
        attempt.strict = True

    def _check_shim(self, attempt: Attempt) -> None:
        """A record that nobody holds has no shim any more."""
        fd = self._lock(attempt)
        if fd is None:
            return
        self._refresh(attempt)  # the shim may have written its exit and gone since we read
        if attempt.state == ENDED:
            os.close(fd)
            return
        attempt.lock = fd
        self._orphans.add(attempt)

    def _see_start(self, attempt: Attempt) -> None:
        """Of one whose shim writes into a record that is gone."""
        is_there = attempt.shim and tree.is_alive(attempt.shim, attempt.shim_start)
        main = living.main_of(attempt.shim) if is_there else None
        if main is None:
            return
        line = anew.begun(main)
        if attempt.lock is not None:
            self._write_anew(attempt, attempt.lock, [line])
        if attempt.take(line):
            self._tell(attempt)

    def _refresh(self, attempt: Attempt) -> None:
        attempt.seen = record.size(self._folder, attempt.launch_id)
        news = [attempt.take(line) for line in record.read(self._folder, attempt.launch_id)]
        if any(news):
            attempt.durable = attempt.state == ENDED
            self._tell(attempt)

    def _end(self, attempt: Attempt, line: record.Line, *, durable: bool) -> None:
        attempt.take(line)
        attempt.durable = durable
        self._tell(attempt)

    def _lock(self, attempt: Attempt) -> Optional[int]:
        """The record, if nobody else may still start or record this attempt."""
        try:
            return record.lock(self._folder, attempt.launch_id)
        except FileNotFoundError:
            return self._claim_late(attempt)
        except OSError as error:
            self._complain(f"{attempt.launch_id}: its record cannot be opened: {error.strerror}")
            return None

    def _claim_late(self, attempt: Attempt) -> Optional[int]:
        """The shim died before its claim: make the claim, so that the end can be kept."""
        try:
            return record.claim(self._folder, attempt.launch_id)
        except record.ClaimedError:
            return None
        except OSError as error:
            self._complain(f"{attempt.launch_id}: its claim cannot be made: {error.strerror}")
            return None

    def _record_end(self, attempt: Attempt, line: record.Line, fd: Optional[int]) -> None:
        """End an attempt that nobody watches; where the disk does not take it, in memory until the next start."""
        durable = False
        if fd is not None:
            try:
                record.append(fd, record.encode(line), sync=True)
                durable = True
            except OSError as error:
                self._complain(f"{attempt.launch_id}: its end cannot be recorded: {error.strerror}")
            os.close(fd)
        self._end(attempt, line, durable=durable)

    def _end_orphan(self, attempt: Attempt, line: record.Line) -> None:
        self._end(attempt, line, durable=True)

    def _tell(self, attempt: Attempt) -> None:
        message = attempt.news()
        if message is None:
            return
        if attempt.state == ENDED:
            given_files.remove(attempt.given_files)  # its shim did that, unless it was killed
            attempt.given_files = []
            reach(self._folder, "agent.before_exit_sent")
        self._emit(message)
        if attempt.state == ENDED:
            reach(self._folder, "agent.after_exit_sent", self._flush)


def _leads(main: Optional[tree.Process]) -> bool:
    return main is not None and main.session == main.pid


def _wrong(message: Message) -> Optional[str]:
    """Return the problem with a launch, None if there is none."""
    if not isinstance(message.get("launch_id"), str) or not record.LAUNCH_ID.match(message["launch_id"]):
        return f"the launch id {str(message.get('launch_id'))[:80]!r} is not of letters, digits, '.', '_' and '-'"
    argv, env = message.get("argv"), message.get("env")
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
        return "argv is not a list of words"
    if not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
        return "env is not an object of strings"
    if not isinstance(message.get("cwd"), str) or not isinstance(message.get("log_path"), str):
        return "cwd or log_path is missing"
    message.setdefault("grace_s", 10.0)
    message.setdefault("time_limit_s", None)
    message.pop("login", None)  # ours to say, and by it the shim knows that it is somebody's
    message["log_new"] = message.get("log_new") is True
    for key in ("log_folder", "placed_instead_of"):
        if not isinstance(message.setdefault(key, ""), str):
            return f"{key} is not text"
    if not isinstance(message["grace_s"], (int, float)):
        return "grace_s is not a number"
    if not isinstance(message["time_limit_s"], (int, float, type(None))):
        return "time_limit_s is not a number"
    return given_files.wrong(message) or early.wrong(message) or stages.wrong(message)
