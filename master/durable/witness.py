"""The witness, which lies outside of the queue's folder and says what was in it: a file beside the server log.

If the whole folder is lost, or an older copy of it is put back, all that the folder says of itself is lost with it.
This file names the folder, the last id that was promised in it, how far it was written, the pieces of state by which
nodes know their master, and the marks that the queue is shared (`core/people/marks`): so an empty queue is not begun in
silence where there was one, no id is given again, agents obey who goes on, what was revoked since a copy was taken
opens nothing when the copy is put back, and users' tasks do not run as root where the users are lost. That it cannot be
written holds nothing up, and of a folder by another name it says nothing.

The number of the last record in the folder stands at its head. Each commit writes it over, unsynced; if the file lies
on another disk than the folder, which may be slow, only commits that change the state do, as a revoked token does. So a
copy from before that is put back, or a journal that is cut together with `ids`, is found out whatever became of the
master. The number is followed by blanks, so that the next one takes its place.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from master.core.people import marks
from master.durable.disk import Disk, SyncFailedError

if TYPE_CHECKING:
    from collections.abc import Mapping


class Told(msgspec.Struct):
    """The content of the file. `ids`: the last id that was promised; `seq`: the folder was on the disk up to this
    record, at least. `boot`: the file `ids` in the folder cannot be written, and this one stands in for it: the boot of
    the machine in which `seq` is exact, or that the master ended in order; "": it can."""

    folder: str
    ids: int = 0
    seq: int = 0
    boot: str = ""
    pieces: dict[str, msgspec.Raw] = {}


class Witness:
    """The witness of one folder, in the file `path`; without one, nothing is known and nothing is kept."""

    def __init__(self, disk: Disk, path: Path | None, folder: Path) -> None:
        self.path = path
        self._disk = disk
        self._fd: int | None = None
        self._told = Told(str(folder))
        self.is_there = False
        """Did it tell of this folder when it was read?"""
        self.is_near = False
        """Does it lie on the folder's own file system, so that writing to it takes no longer than to the folder?"""

    @property
    def ids(self) -> int:
        """The last id that was promised, as far as it knows."""
        return self._told.ids

    @property
    def seq(self) -> int:
        """The folder was written so far, at least."""
        return self._told.seq

    @property
    def boot(self) -> str:
        """Where it stands in for the file `ids`, the boot in which it was written, or that the master had ended."""
        return self._told.boot

    @property
    def pieces(self) -> dict[str, msgspec.Raw]:
        """The pieces of state that it keeps."""
        return self._told.pieces

    def load(self) -> None:
        """Read it. A file that is no witness, or one of another folder, or was put there by another account, says
        nothing; nor does a mark that cannot be read."""
        if self.path is None:
            return
        self.is_near = self._disk.share_a_disk(self.path.parent, Path(self._told.folder))
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
            told = msgspec.json.decode(self._disk.read_own(self.path), type=Told)
            if told.folder == self._told.folder:
                told.pieces = marks.readable(told.pieces)
                self._told, self.is_there = told, True

    def keep(self, pieces: Mapping[str, msgspec.Raw], *, stood: int | None) -> None:
        """Keep these pieces of state, and, unless it is None, that the folder is written up to this record."""
        self._told.pieces = dict(pieces)
        if stood is not None:
            self._told.seq = stood
        self._write()

    def mark(self, pieces: Mapping[str, msgspec.Raw]) -> bool:
        """Keep these pieces of state, beside the others. Could they be written?"""
        self._told.pieces.update(pieces)
        return self._write()

    def stood(self, seq: int) -> None:
        """Keep that the folder is written up to this record."""
        self._told.seq = seq
        self._write()

    def note(self, seq: int) -> None:
        """Keep, without a sync, that the folder is written up to this record."""
        self._told.seq = seq
        if self._fd is None:
            return
        head = _head(seq)
        try:
            written = self._disk.write_at(self._fd, 0, head)
        except OSError:
            written = 0
        if written < len(head):
            self._write()

    def promise(self, ids: int) -> None:
        """Keep that no id beyond `ids` was given, as the file `ids` says, too."""
        self._told.ids, self._told.boot = ids, ""
        self._write()

    def stand_in(self, boot: str) -> bool:
        """Keep that the file `ids` cannot be written, in this boot of the machine; "": it can. Was that written?"""
        if self._told.boot == boot and self._fd is not None:
            return True
        self._told.boot = boot
        return self._write()

    def _write(self) -> bool:
        if self.path is None:
            return True
        self.close()
        # It may lie on another disk, of which nothing is promised to anybody.
        try:
            self._fd = self._disk.put_own(self.path, self._encoded())
        except (OSError, SyncFailedError):
            return False
        return True

    def _encoded(self) -> bytes:
        told = self._told
        stands_in = {"boot": told.boot} if told.boot else {}
        rest = msgspec.json.encode({"folder": told.folder, "ids": told.ids, **stands_in, "pieces": told.pieces})
        return _head(told.seq) + rest[1:] + b"\n"

    def close(self) -> None:
        """Give up the file; it says what it says."""
        if self._fd is not None:
            self._disk.close(self._fd)
            self._fd = None


def _head(seq: int) -> bytes:
    """With this the file begins; always as many bytes."""
    return b'{"seq":%-20d,' % seq


def witness_path(server_log: Path) -> Path:
    """Where it lies: beside the master's log, where the master may write whatever becomes of the queue."""
    return server_log.with_name(f"{server_log.name}.queue")
