"""The cursor of one consumer of the outbox: a file that says how far the consumer has come in the journal.

Owns the file and its one line, and refuses to know what a record holds. The line is written over in place after each
delivery and is not synced: a kill of the process keeps it. After a power cut it may be old, torn or gone; then it says
less, and the consumer gets some events again. `outbox` keeps a second, durable word in the journal (the floor).
"""

from __future__ import annotations

from binascii import crc32
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from master.durable.disk import Disk, SyncFailedError, publish_open
from wire.message import Message

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = 2**31
"""As `done`: all moves of the record are finished, however many it has."""


class Place(msgspec.Struct, frozen=True, array_like=True):
    """How far a consumer has come: all records before `seq` are finished, and of that one the first `done` of its
    `moves`. `crc`: the checksum of the record, by which a journal of another history is told apart; 0: unknown."""

    seq: int = 0
    crc: int = 0
    done: int = WHOLE
    moves: int = 0

    @property
    def next_missing(self) -> int:
        """Return the number of the first record that is not finished."""
        return self.seq + 1 if self.done >= self.moves else self.seq


class Cursor:
    """The file of one consumer. `load` it, then `begin`; `write` as often as it moves."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._fd: int | None = None

    def load(self) -> Place | None:
        """Return what the file says; None if it is missing, torn, or not ours."""
        with suppress(OSError, ValueError):
            checksum, line = self._disk.read_own(self._path).split(b"\n", 1)[0].split(b" ", 1)
            if int(checksum, 16) == crc32(line):
                seq, crc, done, moves = line.split(b" ")
                return Place(int(seq), int(crc, 16), int(done), int(moves))
        return None

    def begin(self, place: Place) -> Message | None:
        """Write the file anew, durably. Return why that is impossible now, or None. Without its file a consumer goes on
        from the floor after a restart."""
        self.close()
        try:
            self._fd = publish_open(self._disk, self._path, _line(place))
        except (OSError, SyncFailedError) as error:
            detail = getattr(error, "strerror", None) or str(error)
            return Message("in_file", path=str(self._path), fault=Message("file_unwritable", detail=detail))
        return None

    @property
    def is_open(self) -> bool:
        """Tell whether there is a file to write to."""
        return self._fd is not None

    def write(self, place: Place) -> None:
        """Write over the line. Half of a line is none, so a write that fails only lets events come again."""
        if self._fd is not None:
            with suppress(OSError):
                self._disk.write_at(self._fd, 0, _line(place))

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            self._disk.close(self._fd)
            self._fd = None


def _line(place: Place) -> bytes:
    """Return the line. Each line has the same length, so that the next one takes its place."""
    line = b"%020d %08x %010d %010d" % (place.seq, place.crc, place.done, place.moves)
    return b"%08x %b\n" % (crc32(line), line)
