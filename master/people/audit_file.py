"""The files of the audit log: ten of 10 MB, the newest without a number, each for the master's account alone.

Owns their names, their rotation, and that a line is written whole or not at all. `audit` owns the content of the lines.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

NAME = "audit.jsonl"
BYTES = 10_000_000
FILES = 10
MODE = 0o600
BLOCK = 64 << 10
"""Bytes that are read at once."""


class AuditFile:
    """The file that is written now, with those before it, in `folder`; made when something is written first. `size`:
    how large one may become."""

    def __init__(self, folder: Path, size: int = BYTES) -> None:
        self.folder = folder
        self._most = size
        self._above: int | None = None
        self._fd: int | None = None
        self._size = 0

    def stay(self) -> None:
        """Write from now on into what lies now above the folder, also where somebody moves that away and makes another
        by its name: what is found there later may be somebody else's. Raises OSError."""
        self._above = os.open(self.folder.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def write(self, data: bytes) -> None:
        """Append whole lines. Raises OSError; nothing of them is there then."""
        fd = self._opened()
        if self._size and self._size + len(data) > self._most:
            self._rotate()
            fd = self._opened()
        try:
            rest = data
            while rest:
                rest = rest[os.write(fd, rest) :]
        except OSError:
            with suppress(OSError):  # the first error is the one to tell; a line's beginning is no line for who reads
                os.ftruncate(fd, self._size)
            raise
        self._size += len(data)

    def close(self) -> None:
        """Write no more."""
        self._close_file()
        if self._above is not None:
            os.close(self._above)
            self._above = None

    def _close_file(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _opened(self) -> int:
        """The file, also if somebody took it away meanwhile."""
        if self._fd is not None and not os.fstat(self._fd).st_nlink:
            self._close_file()
        if self._fd is None:
            with suppress(FileExistsError):
                os.mkdir(self._path(), 0o700, dir_fd=self._above)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(self._path(NAME), flags, MODE, dir_fd=self._above)
            try:
                os.fchmod(fd, MODE)
                self._size = _whole(fd)
            except OSError:
                os.close(fd)
                raise
            self._fd = fd
        return self._fd

    def _rotate(self) -> None:
        self._close_file()
        at = {"src_dir_fd": self._above, "dst_dir_fd": self._above}
        for number in range(FILES - 2, -1, -1):
            with suppress(FileNotFoundError):
                os.replace(self._path(_numbered(number)), self._path(_numbered(number + 1)), **at)  # noqa: PTH105

    def _path(self, name: str = "") -> str:
        """From what lies above, where that is held."""
        return os.path.join(self.folder if self._above is None else self.folder.name, name)  # noqa: PTH118


def lines_backwards(folder: Path) -> Iterator[list[bytes]]:
    """Yield all lines, the newest first, some at a time. Lines that are written from now on are not among them. Raises
    OSError."""
    with ExitStack() as stack:
        files: dict[tuple[int, int], tuple[int, int]] = {}
        for number in range(FILES + 1):  # one more: the oldest may be moved on while we open them
            with suppress(FileNotFoundError):
                fd = os.open(folder / _numbered(number), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                stack.callback(os.close, fd)
                info = os.fstat(fd)
                files.setdefault((info.st_dev, info.st_ino), (fd, info.st_size))
        for fd, size in files.values():
            yield from _blocks(fd, size)


def _blocks(fd: int, size: int) -> Iterator[list[bytes]]:
    """The lines of a file from its end, those of a block at a time."""
    rest = b""
    while size > 0:
        begin = max(0, size - BLOCK)
        rest, *lines = (os.pread(fd, size - begin, begin) + rest).split(b"\n")
        size = begin
        yield [line for line in reversed(lines) if line]
    if rest:
        yield [rest]


def _numbered(number: int) -> str:
    return f"{NAME}.{number}" if number else NAME


def _whole(fd: int) -> int:
    """The size of the file, which ends with a whole line: what a power cut left of one is given an end."""
    size = os.fstat(fd).st_size
    if size and os.pread(fd, 1, size - 1) != b"\n":
        size += os.write(fd, b"\n")
    return size
