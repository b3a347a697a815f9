"""Finding a task in the monthly files: an index beside them, in SQLite, of where each line stands.

Owns `history/index.sqlite`, which is made of the files alone: whatever is wrong with it, it is made anew. The files are
read in pieces and never held; of equal ids the last line counts, and a line `{"gone":[ID]}` takes one out. Lines that
cannot be read are counted by file, but for those whose task stands in a later line: a kill cut them, and it was
archived again. It may block for long: who asks does so in a thread, always the same one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from master.core.tasks.records import read_task
from master.core.tasks.task import Task

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")

FILE = "index.sqlite"
VERSION = 2
HIGHEST = (1 << 63) - 1
"""SQLite has no higher numbers, and nobody has such a task."""
PIECE = 1 << 20
_TABLES = """
CREATE TABLE months (name TEXT PRIMARY KEY, size INTEGER);
CREATE TABLE unreadable (month TEXT, at INTEGER, id INTEGER);
CREATE TABLE tasks (id INTEGER PRIMARY KEY, month TEXT, at INTEGER, size INTEGER, ended REAL, submitted REAL,
                    owner TEXT, state TEXT, text TEXT);
CREATE INDEX by_end ON tasks (ended, id);
"""
_LOST = """
SELECT month, count(*) FROM unreadable AS cut WHERE NOT EXISTS (
    SELECT 1 FROM tasks WHERE tasks.id=cut.id AND (tasks.month, tasks.at) > (cut.month, cut.at)) GROUP BY month
"""
_TABLE_NAMES = ("months", "tasks", "unreadable")
_BEGINNING = re.compile(rb'\{"id":(\d{1,18}),')
"""Of a task's line: how `history` writes it."""
_ORDERS = {"id": "id", "submitted": "submitted", "ended": "ended", "owner": "owner", "state": "state"}


class Line(msgspec.Struct):
    """A line that is no task: the ids of tasks that are gone from the file."""

    gone: list[int]


class Wanted(msgspec.Struct, frozen=True):
    """Which archived tasks, and which part of them, the newest end first; as in `task.list`. `known`: of whom the text
    is searched, of others the id alone; None: of all."""

    states: tuple[str, ...]
    owners: tuple[str, ...] = ()
    search: str = ""
    known: tuple[str, ...] | None = None
    since: float | None = None
    sort: str | None = None
    reverse: bool = False
    limit: int = 0
    offset: int = 0


class Page(msgspec.Struct):
    """Archived tasks, how many there are in all, and how many lines of which files could not be read."""

    tasks: list[Task]
    total: int
    unreadable: dict[str, int]


_decode_line = msgspec.json.Decoder(Line).decode


def text_of(task: Task) -> str:
    """Return the text that a search looks at."""
    command = task.command if isinstance(task.command, str) else " ".join(task.command)
    return f"{task.id} {task.name} {task.project} {command} {task.cwd}".casefold()


class ArchiveIndex:
    """The index of one history folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: sqlite3.Connection | None = None

    def find(self, task_id: int) -> Task | None:
        """The task, as it was archived last. Raises OSError."""
        return self._retried(lambda: self._find(task_id)) if task_id <= HIGHEST else None

    def page(self, wanted: Wanted) -> Page:
        """Raises OSError."""
        return self._retried(lambda: self._page(wanted))

    def month_of(self, task_id: int) -> str | None:
        """The name of the file that holds the task. Raises OSError."""
        if task_id > HIGHEST:
            return None
        rows = self._retried(
            lambda: self._caught_up().execute("SELECT month FROM tasks WHERE id=?", (task_id,)).fetchall()
        )
        return rows[0][0] if rows else None

    def close(self) -> None:
        """Give up the file."""
        if self._made is not None:
            self._made.close()
            self._made = None

    def _retried(self, work: Callable[[], T]) -> T:
        """Do this work, with a new index if anything is wrong with the present one: the files are the truth, and
        another index is made of them."""
        import sqlite3  # noqa: PLC0415  (a start has no use for it)

        try:
            return work()
        except (sqlite3.DatabaseError, _StaleError):
            self._begin_anew()
            return work()

    # -- making -----------------------------------------------------------------------------------------------

    def _connection(self) -> sqlite3.Connection:
        if self._made is None:
            import sqlite3  # noqa: PLC0415

            made = self._made = sqlite3.connect(self._folder / FILE, isolation_level=None, check_same_thread=False)
            os.chmod(self._folder / FILE, 0o600)  # noqa: PTH101  (it tells commands, as the files do)
            if made.execute("PRAGMA user_version").fetchone()[0] != VERSION:
                for name in _TABLE_NAMES:
                    made.execute(f"DROP TABLE IF EXISTS {name}")
                made.executescript(_TABLES)
                made.execute(f"PRAGMA user_version={VERSION}")
        return self._made

    def _begin_anew(self) -> None:
        self.close()
        for suffix in ("", "-journal"):
            (self._folder / f"{FILE}{suffix}").unlink(missing_ok=True)

    def _caught_up(self) -> sqlite3.Connection:
        """The connection, with all that was added to the files since."""
        base = self._connection()
        known: dict[str, int] = dict(base.execute("SELECT name, size FROM months").fetchall())
        present = {path.name: path.stat().st_size for path in sorted(self._folder.glob("????-??.jsonl"))}
        if any(size > present.get(name, -1) for name, size in known.items()):
            raise _StaleError  # shorter than it was, or gone: somebody was at it
        for name, size in present.items():
            if size > known.get(name, 0):
                base.execute("BEGIN")
                try:
                    self._read(base, name, known.get(name, 0))
                    base.execute("COMMIT")
                except BaseException:
                    base.execute("ROLLBACK")
                    raise
        return base

    def _read(self, base: sqlite3.Connection, name: str, begin: int) -> None:
        end = begin
        for at, line in _lines(self._folder / name, begin):
            end = at + len(line)
            try:
                task = read_task(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                if not self._take_out(base, line):
                    begun = _BEGINNING.match(line)
                    base.execute("INSERT INTO unreadable VALUES (?,?,?)", (name, at, int(begun[1]) if begun else None))
                continue
            if task.id > HIGHEST:
                base.execute("INSERT INTO unreadable VALUES (?,?,NULL)", (name, at))
                continue
            ended = task.ended_at or task.started_at or task.submitted_at
            row = (task.id, name, at, len(line), ended, task.submitted_at, task.owner, task.state.value, text_of(task))
            base.execute("INSERT OR REPLACE INTO tasks VALUES (?,?,?,?,?,?,?,?,?)", row)
        base.execute("INSERT INTO months VALUES (?,?) ON CONFLICT (name) DO UPDATE SET size=excluded.size", (name, end))

    @staticmethod
    def _take_out(base: sqlite3.Connection, line: bytes) -> bool:
        try:
            gone = _decode_line(line).gone
        except (msgspec.DecodeError, UnicodeDecodeError):
            return not line.strip()
        for table in ("tasks", "unreadable"):
            base.executemany(f"DELETE FROM {table} WHERE id=?", [(number,) for number in gone if number <= HIGHEST])  # noqa: S608  (ours)
        return True

    # -- looking ----------------------------------------------------------------------------------------------

    def _find(self, task_id: int) -> Task | None:
        rows = self._caught_up().execute("SELECT id, month, at, size FROM tasks WHERE id=?", (task_id,)).fetchall()
        return self._tasks(rows)[0] if rows else None

    def _page(self, wanted: Wanted) -> Page:
        base = self._caught_up()
        marks = ",".join("?" * len(wanted.states))
        where = f"state IN ({marks})" + " AND owner=?" * len(wanted.owners)
        values: list[Any] = [*wanted.states, *wanted.owners]
        if wanted.since is not None:
            where, values = f"{where} AND ended>=?", [*values, wanted.since]
        if wanted.search and wanted.known is None:
            where, values = f"{where} AND instr(text, ?)>0", [*values, wanted.search.casefold()]
        elif wanted.search:
            owners = ",".join("?" * len(wanted.known or ()))
            where += f" AND instr(CASE WHEN owner IN ({owners}) THEN text ELSE CAST(id AS TEXT) END, ?)>0"
            values += [*(wanted.known or ()), wanted.search.casefold()]
        total = base.execute(f"SELECT count(*) FROM tasks WHERE {where}", values).fetchone()[0]  # noqa: S608  (all of it is ours)
        # Unsorted, the newest end comes first; sorted, the least.
        way = "DESC" if wanted.reverse == (wanted.sort is not None) else "ASC"
        order = f"{_ORDERS.get(wanted.sort or 'ended', 'ended')} {way}, id {way}"
        rows = base.execute(
            f"SELECT id, month, at, size FROM tasks WHERE {where} ORDER BY {order} LIMIT ? OFFSET ?",  # noqa: S608  (see above)
            [*values, wanted.limit, wanted.offset],
        ).fetchall()
        unreadable = dict(base.execute(_LOST).fetchall())
        return Page(self._tasks(rows), total, unreadable)

    def _tasks(self, rows: list[tuple[int, str, int, int]]) -> list[Task]:
        files: dict[str, int] = {}
        found = []
        try:
            for number, month, at, size in rows:
                if month not in files:
                    files[month] = os.open(self._folder / month, os.O_RDONLY | os.O_CLOEXEC)
                found.append(_checked(os.pread(files[month], size, at), number))
        finally:
            for fd in files.values():
                os.close(fd)
        return found


class _StaleError(Exception):
    """The files are not those that the index was made of."""


def _checked(line: bytes, number: int) -> Task:
    try:
        task = read_task(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _StaleError from None
    if task.id != number:
        raise _StaleError
    return task


def _lines(path: Path, begin: int) -> Iterator[tuple[int, bytes]]:
    """Whole lines from `begin` on, and where they begin. One that has no end yet is left for later."""
    with path.open("rb") as file:
        file.seek(begin)
        at, rest = begin, b""
        while data := file.read(PIECE):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield at, line + b"\n"
                at += len(line) + 1
