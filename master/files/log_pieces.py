"""Pieces of a log, as they are or collapsed. Permissions are checked elsewhere. Calls block, on a dead NFS for ever."""

from __future__ import annotations

import os
from typing import NamedTuple, Protocol

from master.files.log_collapse import collapse
from master.files.log_file import Own, looked, opened
from master.files.owners import Sight
from master.files.threads import Whose
from wire.errors import MusterError

BLOCK = 1 << 20
MAX_SCAN = 8 << 20
"""Bytes of a log that one answer looks through at most when it collapses: of progress bars little is left."""
Where = tuple[tuple[str, ...] | None, Sight | None, Own | None]
"""Which log it may be, as `log_file.opened` takes it."""


class Piece(NamedTuple):
    """A piece of a log. `data` is what stands from `offset` to `next`, collapsed: less, and `rest` is then the state of
    the line that has no end yet, which begins at `next`. `size`: of the file; `missing`: there is none."""

    offset: int
    data: bytes
    rest: bytes
    next: int
    size: int
    missing: bool = False

    @property
    def end(self) -> int:
        """Up to where the file was looked at."""
        return self.next + len(self.rest)


class Source(Protocol):
    """Reads logs, with somebody's rights."""

    whose: Whose

    def read(self, path: str, where: Where, offset: int, limit: int, *, collapsed: bool) -> Piece:
        """See the function `read`."""

    def size(self, path: str, where: Where) -> int:
        """See the function `size`."""


class LogsHere:
    """With the rights of this process, for this user."""

    def __init__(self, user: str = "") -> None:
        self.whose = Whose(user=user)

    def read(self, path: str, where: Where, offset: int, limit: int, *, collapsed: bool) -> Piece:
        """As the function."""
        return read(path, where, offset, limit, collapsed=collapsed)

    def size(self, path: str, where: Where) -> int:
        """As the function."""
        return size(path, where)


HERE = LogsHere()


def read(path: str, where: Where, offset: int, limit: int, *, collapsed: bool) -> Piece:
    """At most `limit` bytes from `offset` (negative: from the end). Raises ConflictError, ForbiddenError."""
    return (_read_collapsed if collapsed else _read)(path, where, offset, limit)


def size(path: str, where: Where) -> int:
    """Its bytes; 0 where there is none, or nothing that may be read."""
    try:
        return known_size(path, where)
    except MusterError:
        return 0


def known_size(path: str, where: Where) -> int:
    """Its bytes; 0 where there is none. Raises MusterError where nothing is that may be read."""
    with looked(path, *where) as look:
        return 0 if look is None else os.fstat(look).st_size


def _read(path: str, where: Where, offset: int, limit: int) -> Piece:
    with opened(path, *where) as fd:
        if fd is None:
            return Piece(0, b"", b"", 0, 0, missing=True)
        size = os.fstat(fd).st_size
        start = max(size + offset, 0) if offset < 0 else offset
        data = os.pread(fd, limit, start)
        return Piece(start, data, b"", start + len(data), size)


def _read_collapsed(path: str, where: Where, offset: int, limit: int) -> Piece:
    with opened(path, *where) as fd:
        if fd is None:
            return Piece(0, b"", b"", 0, 0, missing=True)
        size = os.fstat(fd).st_size
        start = at = end = max(size + offset, 0) if offset < 0 else offset
        rest, lines, length = b"", [], 0
        while length < limit and end - start < MAX_SCAN and (block := os.pread(fd, BLOCK, end)):
            end += len(block)
            done, rest, at = collapse(rest + block, at)
            lines.append(done)
            length += len(done)
        return Piece(start, b"".join(lines), rest, at, max(size, end))
