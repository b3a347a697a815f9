"""The journal: numbered records, appended, synced in groups, read back up to where a power cut left them.

A record is one line, `CRC32 SEQ SYNCED JSON`: the checksum (8 hex digits) is over the rest of the line, SEQ counts
from 1 without gaps, SYNCED is the number of the last record that was known to be on the disk when this one was
written. The JSON is the store's business. This module knows lines and their file; it refuses to know tasks.

Why SYNCED. The records of one commit go out in one write, and a power cut may keep any of the sectors of a write that
was not synced: the third record of the last commit without the first. Nobody was answered for either, so that is a
torn tail and is cut. A bad record which a later one names as synced is another matter: it was on the disk, somebody
was answered, and the disk lost it. Then we refuse to go on. Without the mark the two cannot be told apart.
"""

from __future__ import annotations

import errno
import logging
from binascii import crc32
from typing import TYPE_CHECKING, ClassVar

import msgspec

from master.durable.disk import Disk, SyncFailedError, publish, write_all
from wire.errors import MusterError, StoreCorruptError, StoreUnavailableError
from wire.message import Message

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger("muster.store")

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
REFUSED = FULL | {errno.EROFS}
"""The errors of a disk that takes nothing now and may later. Anything else (EIO) means that it is broken."""


JOURNAL = "journal.jsonl"
CRC_DIGITS = 8
HEADER_BYTES = 64
"""A record's checksum and numbers are in fewer."""
PIECE_BYTES = 64 * 1024


class JournalChangedError(MusterError):
    """Somebody emptied the journal under the master, which alone knows what was in it."""

    code: ClassVar[str] = "journal_changed"
    rpc_code: ClassVar[int] = -32012


class Record(msgspec.Struct, frozen=True, gc=False):
    """One line that was read: `body` is its JSON."""

    seq: int
    synced: int
    body: bytes


class Reading(msgspec.Struct, frozen=True):
    """The content of a journal: the good records, and how many bytes they take; beyond is a torn tail. `bad`: the lines
    that were skipped because somebody said so; what they told was told before record `before` (None: nobody knows)."""

    records: list[Record]
    size: int
    bad: tuple[int, ...] = ()
    before: int | None = None


def encode_record(seq: int, synced: int, body: bytes) -> bytes:
    """One line of the journal."""
    numbers = b"%d %d " % (seq, synced)
    # Joined, for a record may have megabytes: formatting would copy them twice, into a quarter more than they need.
    return b"".join((b"%08x " % crc32(body, crc32(numbers)), numbers, body, b"\n"))


def decode_record(line: bytes) -> Record | None:
    """Take a line without its newline apart; None if it is not what was once written."""
    try:
        checksum, seq, synced, body = line.split(b" ", 3)
        if len(checksum) != CRC_DIGITS or int(checksum, 16) != crc32(memoryview(line)[CRC_DIGITS + 1 :]):
            return None
        return Record(int(seq), int(synced), body)
    except ValueError:
        return None


def read_journal(data: bytes, path: Path, base: int) -> Reading:
    """Find the good records of a journal's content. `base`: the last record that the other files already knew.

    Raises StoreCorruptError, naming `path` and the line, when a record is bad or missing that had reached the disk.
    """
    lines = data.split(b"\n")
    lines.pop()  # after the last newline: nothing, or a record that never got its own
    records: list[Record] = []
    size = 0
    for number, line in enumerate(lines, 1):
        record = decode_record(line)
        if record is None:
            _check_torn(lines, number, base, records[-1].seq if records else None, path)
            break
        if records and record.seq != records[-1].seq + 1:
            raise _corrupt(path, number, Message("record_out_of_order", record=record.seq, before=records[-1].seq))
        records.append(record)
        size += len(line) + 1
    if records and not records[0].seq - 1 <= base <= records[-1].seq:
        first, last = records[0].seq, records[-1].seq
        raise _corrupt(path, len(records), Message("records_elsewhere", first=first, last=last, known=base))
    return Reading(records, size)


def skip_damaged(data: bytes) -> Reading:
    """Find all the good records of a journal, whatever lies between them. Each holds whole tasks, so that those after
    a damaged one are as true as those before it."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    records: list[Record] = []
    bad: list[int] = []
    before: int | None = None
    for number, line in enumerate(lines, 1):
        record = decode_record(line)
        if record is None or (records and record.seq <= records[-1].seq):
            bad.append(number)
            before = None
            continue
        is_gap = bool(records) and record.seq != records[-1].seq + 1  # whole lines may be missing, too
        if is_gap or (bad and before is None):
            before = record.seq
        records.append(record)
    return Reading(records, len(data), tuple(bad), before)


def _check_torn(lines: list[bytes], number: int, base: int, last: int | None, path: Path) -> None:
    """Raise StoreCorruptError if the bad line `number` (from 1) was on the disk before a later one was written.

    `last` is the record before it. At the head of the file there is none; then a later record belongs to the same,
    unsynced commit only if that commit began after `base`, and the bad line, counted back, too.
    """
    for distance, line in enumerate(lines[number:], 1):
        later = decode_record(line)
        if later is None:
            continue
        torn = later.synced <= last if last is not None else later.synced == base < later.seq - distance
        if not torn:
            raise _corrupt(path, number, Message("record_damaged", after=later.seq))


def _corrupt(path: Path, number: int, what: Message) -> StoreCorruptError:
    return StoreCorruptError(Message("journal_line_wrong", path=str(path), line=number, fault=what))


class Journal:
    """The journal's open file and the records that wait to be written to it.

    `seq` numbers the last record taken, `synced` the last one on the disk, `size` is the file's length in bytes up to
    there. `begin` counts the bytes that were cut off at its head since it was opened; so a record keeps its place,
    counted from there, when the head is cut. After a write that was refused, the records stay and the next `commit`
    tries again.
    """

    def __init__(self, disk: Disk, path: Path, *, seq: int, size: int) -> None:
        self.disk = disk
        self.path = path
        self.seq = seq
        self.synced = seq
        self.size = size
        self.begin = 0
        self._waiting: list[bytes] = []
        self._dirty = False
        self._fd = disk.extend(path)

    @property
    def pending(self) -> int:
        """How many records wait for a commit."""
        return len(self._waiting)

    @property
    def end(self) -> int:
        """Return where the next record will begin, counted as `begin`."""
        return self.begin + self.size

    @property
    def is_in_place(self) -> bool:
        """Is its file, as we wrote it and no longer, what its name leads to? Raises OSError."""
        return self.disk.length_at(self._fd, self.path) == self.size

    def look(self) -> None:
        """See to it that what was recorded is still where the next start looks for it: others can remove files, too.

        A file that lost its name is given it back, as a copy. Raises OSError where that cannot be, JournalChangedError
        where its content is gone.
        """
        length = self.disk.length_at(self._fd, self.path)
        if length is None:
            self._copy_back()
        elif length < self.size:
            raise JournalChangedError(Message("journal_cut", path=str(self.path), size=self.size, found=length))
        elif length > self.size:
            self._dirty = True  # not ours, or what a refused write left

    def _copy_back(self) -> None:
        if len(data := self.disk.read_open(self._fd, 0, self.size)) < self.size:
            raise JournalChangedError(Message("journal_emptied", path=str(self.path)))
        publish(self.disk, self.path, data)
        fd = self.disk.extend(self.path)
        self.disk.sync_folder(self.path.parent)
        self.continue_in(fd, self.size)
        log.error("%s was removed or replaced while the master runs; all of it is there again", self.path)

    def begin_anew(self) -> None:
        """Empty it: a compaction follows at once, and says all that was in it."""
        self.disk.truncate(self._fd, 0)
        self.begin += self.size
        self.size = 0
        self._dirty = False

    def read(self, offset: int, size: int) -> bytes:
        """A piece of it. Raises OSError where there is none: it was cut by somebody."""
        data = self.disk.read_open(self._fd, offset, size)
        if not data:
            raise OSError(errno.ESTALE, f"{self.path} was cut by somebody")
        return data

    def first_record(self) -> int | None:
        """Return the number of the record at the head of the file; None if there is none. Raises OSError."""
        words = self.disk.read_open(self._fd, 0, min(HEADER_BYTES, self.size)).split(b" ", 2)
        return int(words[1]) if len(words) > 1 and words[1].isdigit() else None

    def boundary(self, offset: int) -> int:
        """Return where the first record begins at or behind this offset. Raises OSError."""
        if offset <= 0:
            return 0
        at = offset - 1  # so that a record that begins at the offset itself is found
        while at < self.size:
            data = self.read(at, min(PIECE_BYTES, self.size - at))
            if (found := data.find(b"\n")) >= 0:
                return at + found + 1
            at += len(data)
        return self.size

    def cut_tail(self) -> None:
        """Cut the file to `size`, durably: what a power cut left behind it goes."""
        self.disk.truncate(self._fd, self.size)
        self.disk.sync(self._fd)

    def settle(self) -> None:
        """Have on the disk what a master had written that was killed before it synced it. Raises SyncFailedError."""
        self.disk.sync(self._fd)

    def append(self, body: bytes) -> int:
        """Number a record and keep it for the next commit; its number."""
        self.seq += 1
        self._waiting.append(encode_record(self.seq, self.synced, body))
        return self.seq

    def commit(self) -> None:
        """Write what waits, in one call, and sync it.

        Raises StoreUnavailableError (from the OSError) when the disk takes nothing now: the file is as before and the
        records still wait. Raises SyncFailedError when nobody can know what is on the disk.
        """
        if not self._waiting:
            return
        data = self._waiting[0] if len(self._waiting) == 1 else b"".join(self._waiting)
        try:
            if self._dirty:
                self._cut_back()
            self._dirty = True
            if (written := self.disk.write(self._fd, data)) < len(data):
                write_all(self.disk, self._fd, data[written:])
        except OSError as error:
            self._refused(error)
        self.disk.sync(self._fd)
        self._dirty = False
        self._waiting.clear()
        self.synced = self.seq
        self.size += len(data)

    def _cut_back(self) -> None:
        """Take away what a refused write left: behind it, the next record would be unreadable."""
        self.disk.truncate(self._fd, self.size)
        self._dirty = False

    def _refused(self, error: OSError) -> None:
        if error.errno not in REFUSED:
            raise SyncFailedError(self._unwritable(error)) from error
        try:
            self._cut_back()
        except OSError as again:
            if again.errno not in REFUSED:
                raise SyncFailedError(Message("journal_not_cut", path=str(self.path), detail=again.strerror)) from again
        raise StoreUnavailableError(self._unwritable(error)) from error

    def _unwritable(self, error: OSError) -> Message:
        return Message("journal_unwritable", path=str(self.path), detail=error.strerror)

    def continue_in(self, fd: int, size: int) -> None:
        """Go on in another file, which has taken this one's name and holds its last `size` bytes, synced."""
        self.disk.close(self._fd)
        self._fd = fd
        self.begin += self.size - size
        self.size = size
        self._dirty = False

    def close(self) -> None:
        """Close the file; what waits is given up."""
        self.disk.close(self._fd)
