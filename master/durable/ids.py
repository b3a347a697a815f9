"""Ids that were given or promised, and the last record that was kept: so that a lost end of the journal is noticed.

The journal tells which ids were given, as far as it goes. It may have lost its end and show nothing of it, when it ends
with a whole record: who cuts it or puts it back from a backup does that, and so does a disk that forgets at a power cut
what it had synced. The file `ids` has lines:

1. a number ahead of all ids that were given, synced before they are;
2. the boot of the machine in which this was written, or `ended`, after which nothing was given;
3. the last id that was given,
4. and `record N`: the journal was on the disk up to record N.

Each commit writes over lines 3 and 4, and does not sync them: they are there as long as the machine runs, whatever
becomes of the process. So after a master's end, in order or not, both are exact in the same boot: ids go on without a
gap, a journal that ends earlier has lost its end, and half a record behind N is one for which nobody had an answer. In
another boot line 3 is not believed, and line 4 says what was on the disk at least. Only if the machine went down nobody
knows more of the ids than the promise.

Earlier versions add a line for each id and have no line 4; they pass over ours. A file of the first of them is its
first line alone, and counts only when something was seen to be lost. If the witness outside of the folder was promised
more, or knows a later record than line 4, the folder is an older copy, and ids go on beyond its promise, too. The file
is a second line of defence: that it cannot be written holds nothing up. The file is then out of date, so the witness
stands in for lines 2 and 4 until it can be written again; where neither can be written, a kill in the middle of a write
ends access.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from master.durable.disk import Disk, SyncFailedError, publish_open
from wire.message import Message

if TYPE_CHECKING:
    from pathlib import Path

    from master.durable.witness import Witness

FILE = "ids"
ENDED = "ended"
RECORD = "record "
AHEAD = 200
"""So many ids are promised at a time: a write more in every so many submits, and at most as wide a gap after a power
cut."""
TIMES, MOST_AHEAD = 4, 5000
"""Where many are given by each commit: so many times as many, up to this."""


class Promised:
    """The file `ids` of one folder: `load` it, then `go_on`. `given`: the last id that is known to have been given.
    `last`: none beyond was. `record`: the journal was on the disk up to this record; None: the file does not say it.
    `machine_went_on`: it has not gone down since, so nothing that was written was lost. `ended`: the master had ended
    in order."""

    def __init__(self, disk: Disk, folder: Path, witness: Witness) -> None:
        self._disk = disk
        self._folder = folder
        self._witness = witness
        self._fd: int | None = None
        self._is_of_an_earlier_version = False
        self._elsewhere = 0
        self._goes_on = False
        self._offset = 0
        """Of line 3, in bytes."""
        self._tried = 0
        """The last record when the file was written anew, or could not be."""
        self.fault: Message | None = None
        """Why it cannot be written now; then the witness stands in for it."""
        self.machine_went_on = False
        self.ended = False
        self.given = 0
        self.last = 0
        self.record: int | None = None

    def load(self) -> None:
        """Read it. A file that is missing or damaged says nothing."""
        lines: list[str] = []
        with suppress(OSError, ValueError, IndexError):
            *lines, _unfinished = self._disk.read(self._folder / FILE).decode("ascii").split("\n")
            self.last = int(lines[0])
        if self._witness.ids > self.last:
            self._elsewhere = self._witness.ids
        boot = lines[1] if len(lines) > 1 else ""
        self._is_of_an_earlier_version = not boot
        self.ended = boot == ENDED
        self.machine_went_on = self.ended or (boot != "" and boot == self._disk.boot())
        if self.machine_went_on:
            self.given = self.last = _last_number(lines[2:])
        records = [line.removeprefix(RECORD) for line in lines[2:] if line.startswith(RECORD)]
        self.record = _last_number(records) if records else None
        if not self._witness.boot and self._witness.seq > (self.record or 0):
            self._elsewhere = max(self._elsewhere, self._witness.ids)
        if self._witness.boot and self._witness.seq >= (self.record or 0):
            self.ended = self._witness.boot == ENDED
            self.machine_went_on = self.ended or self._witness.boot == self._disk.boot()
            self.record = self._witness.seq

    def lost_end(self, highest: int, record: int) -> Message | None:
        """Return whether the journal lost its end, where only this file shows it. `highest`: the last id that the other
        files know; `record`: the journal's last record."""
        if self.given > highest:
            return Message("journal_end_lost_by_ids", given=self.given, highest=highest)
        if self.record is not None and self.record > record:
            return Message("journal_end_lost", written=self.record, last=record)
        return None

    def go_on(self, highest: int, *, record: int, is_damaged: bool, is_new: bool) -> int:
        """The id after which numbers go on, `highest` being the last one that the other files know, and `record` the
        last one on the disk. `is_damaged`: something was lost; `is_new`: nothing was recorded in this folder, so no id
        was given in it. Raises SyncFailedError."""
        counts = is_damaged or not (is_new or self._is_of_an_earlier_version)
        last = max(highest, self._elsewhere, self.last if counts else 0)
        self.given = self.last = last + 1 if is_damaged else last
        self.record = record
        self._goes_on = True
        self._promise(self.given)
        return self.given

    def cover(self, highest: int) -> None:
        """Promise ids well beyond `highest`, which is about to be given, if they are not. Raises SyncFailedError."""
        if highest > self.last or (self._fd is None and (self.record or 0) - self._tried >= AHEAD):
            self._promise(highest)

    def _promise(self, highest: int) -> None:
        promised = highest + min(max(AHEAD, TIMES * (highest - self.given)), MOST_AHEAD)
        self._tried = self.record or 0
        # A disk that takes nothing now is told by the journal's own write; this is tried again with a later commit.
        try:
            self._publish(promised, self._disk.boot())
        except OSError as error:
            self._stand_in(error)
        else:
            self.fault, self.last = None, promised
            self._witness.promise(self.last)  # after the file: what both say is the same

    def note(self, highest: int, record: int) -> None:
        """The journal is on the disk up to `record`, and all ids up to `highest` are in it."""
        if record == self.record and highest <= self.given:
            return
        self.given, self.record = max(highest, self.given), record
        if self._fd is None:
            return
        lines = _given(self.given, record)
        try:
            written = self._disk.write_at(self._fd, self._offset, lines)
        except OSError:
            written = 0
        if written < len(lines):
            self.last = self.given  # half a line, or none: the next id begins the file anew
            self._close()
            self._stand_in(OSError(errno.EIO, os.strerror(errno.EIO)))

    def _stand_in(self, error: OSError) -> None:
        path, detail, witness = str(self._folder / FILE), error.strerror, self._witness.path
        if witness is not None and self._witness.stand_in(self._disk.boot()):
            self.fault = Message("ids_with_witness", path=path, detail=detail, witness=str(witness))
        else:
            self.fault = Message("ids_without_witness", path=path, detail=detail, witness=str(witness))

    def end(self) -> None:
        """Nothing is given from here on. If that cannot be written, the next start goes by the existing file."""
        if not self._goes_on:
            return
        # The witness must not say more than this file, even if we end between the two.
        self._witness.promise(self.given)
        try:
            self._publish(self.given, ENDED)
        except (OSError, SyncFailedError):
            if self.fault is not None:
                self._witness.stand_in(ENDED)
        else:
            self._witness.stand_in("")
        self._close()

    def _publish(self, promised: int, boot: str) -> None:
        self._close()
        head = b"%d\n%s\n" % (promised, boot.encode("ascii"))
        self._fd = publish_open(self._disk, self._folder / FILE, head + _given(self.given, self.record or 0))
        self._offset = len(head)
        self._disk.sync_folder(self._folder)

    def _close(self) -> None:
        if self._fd is not None:
            self._disk.close(self._fd)
            self._fd = None


def _given(given: int, record: int) -> bytes:
    """Lines 3 and 4. Each number has the same length, so that the next one takes its place."""
    return b"%020d\nrecord %020d\n" % (given, record)


def _last_number(lines: list[str]) -> int:
    numbers = [int(line) for line in lines if line.isdecimal()]
    return numbers[-1] if numbers else 0
