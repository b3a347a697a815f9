"""The file of `muster logs -o FILE`. It is always a new file: existing files are not overwritten, links not followed.

The first bytes create the file, so a log that cannot be read leaves no file. If the download breaks off, the file
stays, and the message says how many bytes it has.
"""

from __future__ import annotations

import os

from client.refusals import coded_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class LogOutput:
    """Writes to `path`. `size`: bytes written so far; `is_broken`: a write failed."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.size = 0
        self.is_broken = False
        self._fd: int | None = None

    def check(self) -> None:
        """Raise ConflictError if `path` exists already."""
        if os.path.lexists(self.path):
            self._refuse()

    def write(self, data: bytes) -> None:
        """Append. Raises ConflictError if another process has created the file meanwhile; StorageError."""
        fd = self._opened()
        left = memoryview(data)
        try:
            while left:
                count = os.write(fd, left)
                self.size += count
                left = left[count:]
        except OSError as error:
            self._broken(error)

    def close(self) -> None:
        """Finish the file; an empty log gives an empty file. Raises ConflictError, StorageError."""
        fd = self._opened()
        self._fd = None
        try:
            os.close(fd)  # some file servers report a full disk or quota only here
        except OSError as error:
            self._broken(error)

    def told(self) -> str:
        """Return path and size as a sentence."""
        return f"{self.path} has {self.size:,} byte{'' if self.size == 1 else 's'}"

    def _opened(self) -> int:
        if self._fd is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                self._fd = os.open(self.path, flags, 0o666)
            except FileExistsError:
                self._refuse()
        return self._fd

    def _refuse(self) -> NoReturn:
        if os.path.isdir(self.path):
            raise coded_error("conflict", "output_is_folder", path=self.path)
        raise coded_error("conflict", "output_exists", path=self.path)

    def _broken(self, error: OSError) -> NoReturn:
        self.is_broken = True
        raise coded_error("storage", "output_broken", path=self.path, detail=error.strerror, bytes=self.size) from None
