"""Ids that were promised: a number, ahead of every id given, on the disk before the id is.

The journal tells which ids were given; if its end is lost, and with it tasks that somebody was told of, this file still
knows how far they went, so that none of them is given to another task. It is a second line: that it cannot be written
holds nothing up, and what it says counts only after a loss.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from master.durable.disk import Disk, publish

if TYPE_CHECKING:
    from pathlib import Path

FILE = "ids"
AHEAD = 1000
"""So many ids are promised at a time: a write more in every thousand submits, and a gap as wide after a loss."""


class Promised:
    """The file `ids` of one folder."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        self._disk = disk
        self._folder = folder
        self.last = 0

    def load(self) -> int:
        """The last id that was promised; 0 where nobody knows."""
        with suppress(OSError, ValueError):
            self.last = int(self._disk.read(self._folder / FILE))
        return self.last

    def cover(self, highest: int) -> None:
        """Promise ids well beyond `highest`, if they are not. Raises SyncFailedError."""
        if highest + AHEAD // 2 <= self.last:
            return
        # A disk that takes nothing now is told by the journal's own write; this is tried again with the next commit.
        with suppress(OSError):
            publish(self._disk, self._folder / FILE, b"%d\n" % (highest + AHEAD))
            self._disk.sync_folder(self._folder)
            self.last = highest + AHEAD
