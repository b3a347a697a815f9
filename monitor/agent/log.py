"""The agent's log: whatever stands in a line, it is one line, and the file does not grow without end."""

from __future__ import annotations

import os
import time

MAX_LOG = 1024 * 1024


class Log:
    """Lines on descriptor 2, which is the file `path`; it is moved to `path`.1 when it outgrows MAX_LOG."""

    def __init__(self, path: str) -> None:
        self._path = path

    def say(self, text: str) -> None:
        """One line, with the time. A full disk keeps nobody from their work: the line is lost then."""
        try:
            os.write(2, f"{time.strftime('%Y-%m-%d %H:%M:%S')} {plain(text)}\n".encode("utf-8", "replace"))
            if os.fstat(2).st_size > MAX_LOG:
                os.rename(self._path, self._path + ".1")
                redirect(self._path)
        except OSError:
            return


def redirect(log: str) -> None:
    """Descriptors 1 and 2 to a file, 0 to nothing. Raises OSError."""
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(out)
    os.close(null)


def plain(text: str) -> str:
    """The text on one line, its control and formatting characters shown as escapes: paths and messages are other
    people's words."""
    return text if text.isprintable() else "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
