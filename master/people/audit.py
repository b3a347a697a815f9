"""The audit log: who changed what, from where, and with what result; and who was refused.

A line is a JSON object. It does not contain a call's arguments, only the object that the call is about, so that it
holds no secrets. Consecutive calls of one caller are one line. Owns what is written and how much of it; `audit_file`
owns the files, and `master.verbs.call` decides which calls are recorded.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType

from master.callers.addresses import origin
from master.people.audit_busy import BusyUsers, Who
from master.people.audit_file import AuditFile, lines_backwards
from master.people.tokens import redacted
from wire.harmless import harmless

log = logging.getLogger("muster.audit")

OK = "ok"
WAIT_S = 0.1
"""Seconds that a line of ids waits for more of them."""
HELD = 64 << 10
"""Bytes, about, that are written without waiting longer."""
WINDOW_S = 60.0
LISTED, LISTED_OF_ALL = 20, 200
"""Lines about refused calls in WINDOW_S: of one address, and of all together. Others are counted."""
TOLD_APART = 20
"""So many addresses are listed, each with the number of its calls that were left out."""
TARGET = 200
"""Characters."""
OLDER = 20_000
"""So many older lines in a row end a search by time: a clock that was set back leaves some among newer ones."""
_LINE = 150
_MOST_RUNS = 1000
"""Of a line that grows."""


class AuditEntry(msgspec.Struct, frozen=True):
    """A line of the audit log: `at` (seconds since the epoch), who (`user`, null where nobody knows) called from where
    (`from`, `via`) which `verb` about what (`target`: ids, a name or a path), and the `result`: `ok`, or the code of
    the error. `left` means that the caller did not wait for it. `task`: the task that called, with its token.
    `left_out`: so many calls that were refused, or could not be written (`not_written`), have no line of their own;
    with `ok`: the line is of so many calls of a user who made very many in a minute, and `target` tells the first."""

    at: float
    user: str | None
    address: str = msgspec.field(name="from")
    via: str
    verb: str
    target: str
    result: str
    left_out: int | UnsetType = UNSET
    task: int | UnsetType = UNSET


class Wanted(msgspec.Struct, frozen=True):
    """Which lines are asked for: not older than `since`, of this `user`, about this `verb` or noun. None: all."""

    since: float | None = None
    user: str | None = None
    verb: str | None = None

    def holds(self, entry: AuditEntry) -> bool:
        """Whether the line is one of them, whenever it was written."""
        if self.user is not None and entry.user != self.user:
            return False
        return self.verb is None or entry.verb == self.verb or entry.verb.startswith(f"{self.verb}.")


class Found(msgspec.Struct, frozen=True):
    """Lines, the newest first; `unreadable`: so many were met that are none."""

    entries: list[AuditEntry]
    unreadable: int


class _Pending:
    """A line that is not written yet, and grows while the same caller goes on with the same verb. `after`: the id
    beyond the last one, 0 where it is about no id; `runs`: the ids before those from `first` on, each run as (first,
    after)."""

    __slots__ = ("after", "at", "first", "runs", "text", "who")

    def __init__(self, at: float, who: Who, target: int | str) -> None:
        self.at = at
        self.who = who
        self.runs: list[tuple[int, int]] = []
        self.text = ""
        self.first = self.after = 0
        if isinstance(target, str):
            self.text = target
        else:
            self.first, self.after = target, target + 1

    def leap(self, target: int) -> int:
        """Go on with an id that is not the next one; how many runs there are."""
        self.runs.append((self.first, self.after))
        self.first, self.after = target, target + 1
        return len(self.runs)

    def entry(self) -> AuditEntry:
        """The line."""
        user, address, via, verb, result, task = self.who
        ids = [*self.runs, (self.first, self.after)] if self.after else []
        target = ", ".join(str(low) if low + 1 == after else f"{low}-{after - 1}" for low, after in ids)
        told = _capped(target or self.text)
        return AuditEntry(round(self.at, 3), user, address, via, verb, told, result, task=task or UNSET)


class AuditLog:
    """The audit log in `folder`. `clock`: seconds since the epoch. All but `read` is called in the loop."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._file = AuditFile(folder)
        self._clock = clock
        self._lines: list[_Pending] = []
        self._size = 0
        self._next: asyncio.TimerHandle | None = None
        self._refused: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        self._busy = BusyUsers()
        self._window: asyncio.TimerHandle | None = None
        self._lost = 0
        self._told = False

    def stay(self) -> None:
        """Write into the folder that is there now, whatever is put in its place. Raises OSError."""
        self._file.stay()

    def record(
        self, user: str | None, address: str, via: str, verb: str, target: int | str, *, result: str = OK, task: int = 0
    ) -> None:
        """Note a call that is over. `target`: an id, or ids, a name or a path as text; `result`: OK or the error's
        code; `task`: that called. Never raises, and never waits."""
        who = Who(user, address, via, verb, result, task)
        lines = self._lines
        if lines and (last := lines[-1]).who == who and type(target) is int and last.after:
            if target == last.after:
                last.after = target + 1
            elif last.leap(target) > _MOST_RUNS:
                self.flush()
            return
        if self._has_line(who, target):
            lines.append(_Pending(self._clock(), who, target))
            self._size += _LINE + (0 if isinstance(target, int) else len(target))
        if self._size > HELD or (lines and not lines[-1].after):
            self.flush()  # before anybody is told: only ids wait, which a load of submits joins to a line
        elif self._next is None and lines:
            self._next = asyncio.get_running_loop().call_later(WAIT_S, self.flush)

    def flush(self) -> None:
        """Write what waits. A disk that takes nothing is reported once in the master's log."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        lines, self._lines, self._size = self._lines, [], 0
        if lines:
            self._write([line.entry() for line in lines])

    def close(self) -> None:
        """Write all that is left, and no more."""
        self.flush()
        self._sum_up()
        self._file.close()

    async def read(self, wanted: Wanted, limit: int) -> Found:
        """The newest lines, at most `limit`. Raises OSError."""
        self.flush()
        return await asyncio.to_thread(_read, self.folder, wanted, limit)

    def _write(self, entries: list[AuditEntry]) -> None:
        if self._lost:
            missing = AuditEntry(round(self._clock(), 3), None, "", "", "", "", "not_written", left_out=self._lost)
            entries = [missing, *entries]
        try:
            self._file.write(b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))
        except OSError as error:
            self._lost += sum(entry.left_out is UNSET for entry in entries)
            if not self._told:
                self._told = True
                why = error.strerror or str(error)
                log.error("the audit log in %s cannot be written: %s; it has gaps now", self.folder, why)  # noqa: TRY400
        else:
            self._lost = 0

    # -- calls without a line of their own --------------------------------------------------------------------

    def _has_line(self, who: Who, target: int | str) -> bool:
        if self._window is None:
            self._window = asyncio.get_running_loop().call_later(WINDOW_S, self._sum_up)
        return not self._busy.joins(who, target) if who.result == OK else self._is_listed(origin(who.address))

    def _is_listed(self, origin_: str) -> bool:
        """Whether a refused call has a line; else it is counted."""
        if self._refused[origin_] < LISTED and self._refused.total() < LISTED_OF_ALL:
            self._refused[origin_] += 1
            return True
        known = origin_ in self._left_out or len(self._left_out) < TOLD_APART
        self._left_out[origin_ if known else ""] += 1
        return False

    def _sum_up(self) -> None:
        """The time is over: tell of the calls without a line of their own, and begin anew."""
        if self._window is not None:
            self._window.cancel()
            self._window = None
        self._refused.clear()
        left, self._left_out = self._left_out, Counter()
        now = round(self._clock(), 3)
        entries = [AuditEntry(now, None, place, "", "", "", "refused", left_out=count) for place, count in left.items()]
        for who, joined in self._busy.end(now).items():
            told, task = _capped(joined.target), who.task or UNSET
            entries.append(
                AuditEntry(now, who.user, who.address, who.via, who.verb, told, OK, left_out=joined.count, task=task)
            )
        if entries:
            self._write(entries)


def _read(folder: Path, wanted: Wanted, limit: int) -> Found:
    found: list[AuditEntry] = []
    unreadable = older = 0
    for lines in lines_backwards(folder):
        for line in lines:
            try:
                entry = msgspec.json.decode(line, type=AuditEntry)
            except msgspec.MsgspecError:
                unreadable += 1
                continue
            if wanted.since is not None and entry.at < wanted.since:
                older += 1
                if older > OLDER:
                    return Found(found, unreadable)
                continue
            older = 0
            if wanted.holds(entry):
                found.append(entry)
                if len(found) >= limit:
                    return Found(found, unreadable)
        time.sleep(0)  # the loop has its turn, however much there is to read
    return Found(found, unreadable)


def _capped(text: str) -> str:
    text = harmless(redacted(text[: TARGET + 1]))
    return text if len(text) <= TARGET else f"{text[: TARGET - 1]}…"
