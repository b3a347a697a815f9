"""The file of the news: one line for an event, each with its time, rotated while readers follow it.

A file of its own: the master's log is for the account that runs it, and holds more than every PC should read. It is
written with each commit of the queue, so the lines of one commit are one write, without a record of `logging` for each.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from master.secrets.log_rights import MODE, LogFile
from wire.harmless import harmless

BYTES = 4 << 20
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class NewsFile(LogFile):
    """A log that readers can follow across rotations: its content moves and the file stays (`tail -f` keeps the file
    open that it opened). Raises OSError if it cannot be opened; a disk that is full later is logged once."""

    def __init__(self, path: Path, group: int | None) -> None:
        super().__init__(path, group, size=BYTES)
        self._written = 0 if self.stream is None else os.fstat(self.stream.fileno()).st_size

    def write(self, lines: Sequence[str]) -> None:
        """These lines, in one go, made harmless. After `close` nothing is written."""
        if self.stream is None:
            return
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        data = "".join(f"{stamp} {harmless(line)}\n" for line in lines).encode("utf-8", "backslashreplace")
        try:
            if self._written + len(data) > self.size:
                self.rotate()
            self._written += os.write(self.stream.fileno(), data)
        except OSError:
            self.handleError(logging.LogRecord("muster.news", logging.INFO, __file__, 0, stamp, None, None))

    def rotate(self) -> None:
        """Copy the full file to the first of the older ones, and begin anew in the same file."""
        import shutil  # noqa: PLC0415  (it takes its time to load, and a file is full once in months)

        if self.stream is None:
            return
        newest = self.stream.fileno()
        try:
            with self.folder() as folder:
                self.shift(folder, least=1)
                fd = os.open(self.older(1), _NEW, MODE, dir_fd=folder)
        except OSError as error:
            self.go_on(error)
            return
        with os.fdopen(fd, "wb") as copy, Path(f"/proc/self/fd/{newest}").open("rb") as news:
            with suppress(PermissionError):
                os.fchown(fd, -1, os.fstat(newest).st_gid)
            os.fchmod(fd, MODE)
            shutil.copyfileobj(news, copy)
        os.ftruncate(newest, 0)
        self._written = 0
