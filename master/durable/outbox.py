"""The outbox: the moves of tasks, for consumers that must miss none, read from the journal itself.

A record of the journal says in `moves` which tasks changed their state, in order, if anybody reads them. Nothing else
is written for an event: the journal is the outbox. Owns one `Reader` for each consumer, the place from which a
compaction must keep records, and the piece `outbox` of the state: the floor, which says durably how far each consumer
had come when the journal was last compacted. It refuses to know what consumers do.

* At least once. A consumer's cursor moves after the consumer has finished, so a crash in between repeats events. An
  event has the same id each time: number and checksum of its record, and its place in that.
* A compaction records the floor before it cuts the journal, and cuts nothing behind it. So a cursor that a power cut
  took back, or that was removed, falls back to the floor, and the journal still has all since.
* The journal keeps at most `KEPT_BYTES` for consumers. One that lags further behind gets a `Gap` in their place; so
  does one whose records were lost, or written while nobody noted moves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from master.core.tasks.records import NotedMove, read_tasks
from master.core.tasks.task import Task
from master.core.tasks.transitions import State
from master.durable.cursor import Cursor, Place
from master.durable.disk import Disk, SyncFailedError
from master.durable.journal import CRC_DIGITS, Journal, decode_record

if TYPE_CHECKING:
    from pathlib import Path

    from wire.message import Message

PIECE = "outbox"
FOLDER = "outbox"
KEPT_BYTES = 16 * 1024 * 1024
"""The journal keeps at most so many bytes for consumers that lag behind, beyond what a start needs."""
SLICE = 256 * 1024
"""Bytes of the journal that are read at once."""
MOST = 100
"""Events that a reader gives at once."""
MOST_BYTES = 1024 * 1024
"""Bytes of tasks after which a reader gives what it has: one record may hold very many large tasks."""

Wants: TypeAlias = Callable[[State, State], bool]
"""Tells whether a consumer wants a move from the first state to the second."""


class Moved(msgspec.Struct, frozen=True):
    """A task's move, as `Move`. `id`: the same each time that the event comes. `task`: as it was written with the move;
    None if it was removed in the same moment."""

    id: str
    task_id: int
    before: State
    after: State
    task: Task | None


class Gap(msgspec.Struct, frozen=True):
    """The moves in the records `first` to `last` are lost to this consumer."""

    first: int
    last: int

    @property
    def id(self) -> str:
        """Return a name that no other event has."""
        return f"gap-{self.first}-{self.last}"


Event: TypeAlias = Moved | Gap


class _Noted(msgspec.Struct):
    """The part of a record that a reader looks at first."""

    tasks: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    moves: list[NotedMove] | msgspec.UnsetType = msgspec.UNSET


class _Numbered(msgspec.Struct):
    """A task of which nothing else is looked at."""

    id: int


class _Record:
    """A record that is being read. `begin`: where it begins, as `Journal.begin`; `next`: the first move not given."""

    def __init__(self, seq: int, crc: int, noted: _Noted, begin: int) -> None:
        self.seq = seq
        self.crc = crc
        self.begin = begin
        self.next = 0
        self.moves = noted.moves or []
        self._raw = noted.tasks
        self._tasks: dict[int, Task] | dict[int, msgspec.Raw] | None = None
        self.decoded = 0
        """Bytes of the tasks that were given."""

    @property
    def place(self) -> Place:
        """Return how far it was read."""
        return Place(self.seq, self.crc, self.next, len(self.moves))

    def event(self, index: int) -> Moved:
        """Return the event of one of its moves."""
        if self._tasks is None:
            raw = b"[]" if self._raw is msgspec.UNSET else bytes(self._raw)
            self._tasks = {task.id: task for task in read_tasks(raw)} if len(raw) <= MOST_BYTES else _raws(raw)
        move = self.moves[index]
        name = f"{self.seq}-{self.crc:08x}-{index}"
        return Moved(name, move.id, move.before, move.after, self._task(self._tasks.get(move.id)))

    def _task(self, found: Task | msgspec.Raw | None) -> Task | None:
        if not isinstance(found, msgspec.Raw):
            return found
        text = bytes(found)
        self.decoded += len(text)
        return read_tasks(b"[%s]" % text)[0]


def _raws(raw: bytes) -> dict[int, msgspec.Raw]:
    """Of very many tasks, or large ones, each is read when it is given."""
    numbers = msgspec.json.decode(raw, type=list[_Numbered])
    tasks = msgspec.json.decode(raw, type=list[msgspec.Raw])
    return {one.id: task for one, task in zip(numbers, tasks, strict=True)}


class Reached(msgspec.Struct, frozen=True):
    """How far a reader has read. `begin`: where the record of that place begins, counted as `Journal.begin`."""

    place: Place
    begin: int


class Reader:
    """One consumer's way through the journal: `read` events, deliver them, then `finish`, or go `back`."""

    def __init__(self, journal: Journal, cursor: Cursor, places: list[Place]) -> None:
        """`places`: where to go on; if the journal has another history there, the next of them counts."""
        self._journal = journal
        self._cursor = cursor
        self._places = places
        self.place = places[0]
        """How far the consumer has finished."""
        self.begin = journal.begin
        """Where the record of that place begins, or one before it."""
        self.back()

    def back(self) -> None:
        """Give again what was read and not finished."""
        self._at = max(self.begin, self._journal.begin)
        self._resume: Place | None = self.place
        self._next = self.place.seq
        self._record: _Record | None = None

    @property
    def is_at_end(self) -> bool:
        """Tell whether everything was read that is on the disk."""
        return not self._is_open and self._at >= self._journal.end

    @property
    def _is_open(self) -> bool:
        return self._record is not None and self._record.next < len(self._record.moves)

    def read(self, wants: Wants, most: int = MOST) -> list[Event]:
        """Return the next events, about `most` of them, fewer if they are large. There may be more even if this returns
        none: see `is_at_end`.
        Raises OSError."""
        events: list[Event] = []
        self._go_on(events, wants, most)
        for begin, line in self._lines():
            if len(events) >= most or self._is_open:
                break
            self._at = begin + len(line) + 1
            if (record := self._understood(begin, line)) is None:
                continue
            if (gap := self._gap_before(record.seq)) is not None:
                _add_gap(events, gap)
            if not self._resumes(record):
                break
            self._record, self._next = record, record.seq + 1
            self._go_on(events, wants, most)
        return events

    @property
    def reached(self) -> Reached | None:
        """Return how far was read; None if nothing was yet."""
        return None if self._record is None else Reached(self._record.place, self._record.begin)

    def finish(self, reached: Reached | None = None) -> None:
        """Note that all events are finished that were read, or those that were until this was `reached`."""
        reached = reached or self.reached
        if reached is None:
            return
        self.begin = reached.begin
        if reached.place != self.place:
            self.place = reached.place
            self._cursor.write(self.place)

    def keep_cursor(self) -> None:
        """Make the cursor's file again if it could not be made before."""
        if not self._cursor.is_open:
            self._cursor.begin(self.place)

    def close(self) -> None:
        """Close the cursor's file."""
        self._cursor.close()

    def _go_on(self, events: list[Event], wants: Wants, most: int) -> None:
        record = self._record
        end = 0 if record is None else record.decoded + MOST_BYTES
        while record is not None and record.next < len(record.moves) and len(events) < most and record.decoded < end:
            move = record.moves[record.next]
            if wants(move.before, move.after):
                events.append(record.event(record.next))
            record.next += 1

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines of the next slice that is on the disk, with where they begin."""
        journal = self._journal
        begin = self._at = max(self._at, journal.begin)
        size, left = SLICE, journal.end - begin
        if left <= 0:
            return
        data = journal.read(begin - journal.begin, min(size, left))
        while b"\n" not in data and len(data) < left:
            size *= 2
            data = journal.read(begin - journal.begin, min(size, left))
        offset = 0
        while (end := data.find(b"\n", offset)) >= 0:
            yield begin + offset, data[offset:end]
            offset = end + 1

    def _understood(self, begin: int, line: bytes) -> _Record | None:
        """Return the record of this line. None if it was finished before, or says nothing of moves that there were:
        then the next record shows the gap."""
        record = decode_record(line)
        if record is None or record.seq < self._next:
            return None
        try:
            noted = msgspec.json.decode(record.body, type=_Noted)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        if noted.moves is msgspec.UNSET and noted.tasks is not msgspec.UNSET:
            return None
        return _Record(record.seq, int(line[:CRC_DIGITS], 16), noted, begin)

    def _gap_before(self, seq: int) -> Gap | None:
        first = self._next if self._resume is None else self._resume.next_missing
        return Gap(first, seq - 1) if first < seq else None

    def _resumes(self, record: _Record) -> bool:
        """Go on in the record where the consumer had come to. False: the journal has another history there."""
        place, self._resume = self._resume, None
        if place is None or record.seq != place.seq:
            return True
        if place.crc and place.crc != record.crc and len(self._places) > 1:
            self._places = self._places[1:]
            self.place, self.begin = self._places[0], self._journal.begin
            self.back()
            return False
        record.next = min(place.done, len(record.moves))
        return True


class Outbox:
    """The readers of a store's journal, by the name of their consumer. Until `begin` nobody reads."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        self._disk = disk
        self._folder = folder
        self._readers: dict[str, Reader] = {}
        self._floor_begin: int | None = None
        self.notes: list[Message] = []
        """Messages for the log about files that could not be written."""

    @property
    def is_read(self) -> bool:
        """Tell whether records must say which tasks moved."""
        return bool(self._readers)

    def begin(self, names: Collection[str], journal: Journal, floor: msgspec.Raw | None) -> bool:
        """Make a reader for each of these consumers. A new one begins at the present. Of one that is not among them
        nothing is kept. `floor`: the piece of the state. True: it has to be written, because others read now."""
        floors = _places(floor)
        with suppress(OSError, SyncFailedError):  # without its folder no cursor can be written, which is told below
            if names or floors:
                self._disk.make_folder(self._folder)
            for name in floors.keys() - set(names):
                self._disk.remove(self._folder / name)
        for name in names:
            cursor = Cursor(self._disk, self._folder / name)
            reader = Reader(journal, cursor, _where(cursor.load(), floors.get(name), journal.seq))
            if (fault := cursor.begin(reader.place)) is not None:
                self.notes.append(fault)
            self._readers[name] = reader
        return floors.keys() != set(names)

    def reader(self, name: str) -> Reader:
        """Return the reader of this consumer."""
        return self._readers[name]

    def floor(self) -> msgspec.Raw:
        """Return the piece of state that says how far all have come. From now on a cut may go so far."""
        self._floor_begin = min((reader.begin for reader in self._readers.values()), default=None)
        for reader in self._readers.values():
            reader.keep_cursor()
        if not self._readers:
            return msgspec.Raw(b"null")
        return msgspec.Raw(msgspec.json.encode({name: reader.place for name, reader in self._readers.items()}))

    @property
    def kept_from(self) -> int | None:
        """Where the first record begins that a cut must keep for a consumer; None if there is none."""
        return self._floor_begin

    def close(self) -> None:
        """Close the cursors."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()


def _add_gap(events: list[Event], gap: Gap) -> None:
    """Tell of one gap where there is nothing to tell between two."""
    if events and isinstance(before := events[-1], Gap):
        events[-1] = Gap(before.first, gap.last)
    else:
        events.append(gap)


def _places(floor: msgspec.Raw | None) -> dict[str, Place]:
    if floor is None:
        return {}
    try:
        return msgspec.json.decode(floor, type=dict[str, Place])
    except msgspec.DecodeError:
        return {}


def _where(saved: Place | None, floor: Place | None, last: int) -> list[Place]:
    """Return where a consumer goes on, the best first. `last`: the journal's last record."""
    if floor is None:
        return [Place(last)]
    is_possible = saved is not None and floor.seq <= saved.seq <= last
    return [saved, floor, Place()] if saved is not None and is_possible else [floor, Place()]
