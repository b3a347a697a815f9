"""Reading a file that people name or write by hand, and that may turn out to be none: a pipe would never end.

Used by the master and the clients. It travels to the nodes with this package: standard library only, Python 3.8 syntax.
"""

from __future__ import annotations

import errno
import os
import stat

NOT_REGULAR = "not a regular file"


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a regular file. Raises OSError, with `NOT_REGULAR` for anything else, and never waits."""
    with os.fdopen(_opened(path), "rb") as file:
        return file.read()


def _opened(path: str | os.PathLike[str]) -> int:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(errno.EINVAL, NOT_REGULAR)
