"""Ids that were given, and ids that are promised: so that none is given again though the journal's end was lost.

The journal tells which ids were given, as far as it goes. It may have lost its end and show nothing of it, when it ends
with a whole record: who cuts it or puts it back from a backup does that, and so does a disk that forgets at a power cut
what it had synced. The file `ids` has lines:

1. a number ahead of all ids that were given, synced before they are;
2. the boot of the machine in which this was written, or `ended`, after which nothing was given;
3. and on: the last id that was given, a line after each commit that gave some. They are not synced: they are there as
   long as the machine runs, whatever becomes of the process, and nobody believes them in another boot.

So after a master's end, in order or not, the last line is exact and the numbers go on without a gap. Only if the
machine went down under it nobody knows more than the promise. A file of an earlier version is its first line alone, and
counts only when something was seen to be lost. Where the witness outside of the folder was promised more, the folder is
an older copy, and they go on beyond that, too. The file is a second line of defence: that it cannot be written holds
nothing up.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from master.durable.disk import Disk, SyncFailedError, publish

if TYPE_CHECKING:
    from pathlib import Path

    from master.durable.witness import Witness

FILE = "ids"
ENDED = "ended"
AHEAD = 200
"""So many ids are promised at a time: a write more in every so many submits, and at most as wide a gap after a power
cut."""
TIMES, MOST_AHEAD = 4, 5000
"""Where many are given by each commit: so many times as many, up to this."""


class Promised:
    """The file `ids` of one folder: `load` it, then `go_on`. `given`: the last id that is known to have been given.
    `last`: none beyond was. `machine_went_on`: it has not gone down since, so nothing that was written was lost."""

    def __init__(self, disk: Disk, folder: Path, witness: Witness) -> None:
        self._disk = disk
        self._folder = folder
        self._witness = witness
        self._fd: int | None = None
        self._is_of_an_earlier_version = False
        self._elsewhere = 0
        self.machine_went_on = False
        self.given = 0
        self.last = 0

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
        self.machine_went_on = boot == ENDED or (boot != "" and boot == self._disk.boot())
        if self.machine_went_on:
            self.given = self.last = _last_number(lines[2:])

    def lost_end(self, highest: int) -> str:
        """Whether the journal lost its end, where only this file shows it: as a sentence, or "". `highest`: the last id
        that the other files know."""
        if self.given <= highest:
            return ""
        return (
            f"the journal lost its end: ids up to {self.given} had been given, and it knows of none after {highest}. "
            "Was it cut, or put back from a backup? Look whether the newest tasks are there"
        )

    def go_on(self, highest: int, *, is_damaged: bool, is_new: bool) -> int:
        """The id after which numbers go on, `highest` being the last one that the other files know. `is_damaged`:
        something was lost; `is_new`: nothing was recorded in this folder, so no id was given in it. Raises
        SyncFailedError."""
        counts = is_damaged or not (is_new or self._is_of_an_earlier_version)
        last = max(highest, self._elsewhere, self.last if counts else 0)
        self.given = self.last = last + 1 if is_damaged else last
        self._promise(self.given)
        return self.given

    def cover(self, highest: int) -> None:
        """Promise ids well beyond `highest`, which is about to be given, if they are not. Raises SyncFailedError."""
        if highest > self.last:
            self._promise(highest)

    def _promise(self, highest: int) -> None:
        promised = highest + min(max(AHEAD, TIMES * (highest - self.given)), MOST_AHEAD)
        lines = f"{promised}\n{self._disk.boot()}\n{self.given}\n"
        # A disk that takes nothing now is told by the journal's own write; this is tried again with the next commit.
        with suppress(OSError):
            self._publish(lines)
            self._fd = self._disk.extend(self._folder / FILE)
            self.last = promised
            self._witness.promise(self.last)

    def note(self, highest: int) -> None:
        """All ids up to `highest` are in the journal."""
        if highest <= self.given:
            return
        self.given = highest
        if self._fd is None:
            return
        line = b"%d\n" % highest
        try:
            written = self._disk.write(self._fd, line)
        except OSError:
            written = 0
        if written < len(line):
            self.last = self.given  # half a line, or none: the next id begins the file anew

    def end(self) -> None:
        """Nothing is given from here on. Where that cannot be written, the next start goes by what is there."""
        if self._fd is None:
            return
        # The witness must not say more than this file, even if we end between the two.
        self._witness.promise(self.given)
        with suppress(OSError, SyncFailedError):
            self._publish(f"{self.given}\n{ENDED}\n{self.given}\n")
        self._close()

    def _publish(self, lines: str) -> None:
        self._close()
        publish(self._disk, self._folder / FILE, lines.encode("ascii"))
        self._disk.sync_folder(self._folder)

    def _close(self) -> None:
        if self._fd is not None:
            self._disk.close(self._fd)
            self._fd = None


def _last_number(lines: list[str]) -> int:
    numbers = [int(line) for line in lines if line.isdecimal()]
    return numbers[-1] if numbers else 0
