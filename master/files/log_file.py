"""Opening a log to be read: a regular file, and for most people only where they may see files at all.

The owner of a task chooses where its log lies, and tasks may put a link in its place: without a check everybody could
read what the master's own account can read. Owns which files may be opened; `log_reader` owns what is read of them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from master.files.beneath import Beneath
from master.files.owners import Sight
from master.files.walk import Spot
from wire.errors import ConflictError, ForbiddenError, MusterError, NotFoundError
from wire.message import Message

LOOK = os.O_PATH | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class Own(NamedTuple):
    """The name of a user's own log in the log folder `folder` (absolute), which also holds others' logs."""

    folder: str
    name: str


@contextmanager
def opened(
    path: str, within: tuple[str, ...] | None, sight: Sight | None = None, own: Own | None = None
) -> Iterator[int | None]:
    """Open a log for reading, otherwise as `looked`. Raises ConflictError, ForbiddenError, StorageError."""
    with looked(path, within, sight, own) as look:
        fd = None if look is None else _reopen(path, look)
    try:
        yield fd
    finally:
        if fd is not None:
            os.close(fd)


@contextmanager
def looked(
    path: str, within: tuple[str, ...] | None, sight: Sight | None = None, own: Own | None = None
) -> Iterator[int | None]:
    """Find a log, by O_PATH; None if there is none. `within`: the folders (absolute) that it must lie in, with links
    followed; None: anywhere. `sight`: what of these a user may see, by names from `/`; None: all. `own`: which of the
    logs in the log folder it may be; None: any. Raises ConflictError, ForbiddenError, StorageError."""
    try:
        look = os.open(path, LOOK) if within is None else _look_within(path, within, sight)
    except (FileNotFoundError, NotFoundError):
        yield None
        return
    except OSError as error:
        raise ConflictError(Message("log_unreadable", path=path, said=error.strerror)) from None
    try:
        _check_own(path, look, own)
        yield look
    finally:
        os.close(look)


def _look_within(path: str, within: tuple[str, ...], sight: Sight | None) -> int:
    beneath = _beneath(within) if sight is None else _beneath(within).seen_by(sight)
    parts = [part for part in path.split("/") if part]
    top = next((top for top in beneath.visible if parts[: top.count("/") + 1] == top.split("/")), None)
    if top is None:
        raise _outside(path)
    names = tuple(os.fsencode(part) for part in parts[top.count("/") + 1 :])
    try:
        with beneath.find(Spot(top, names, path), follow=True) as found:
            return os.open(found.name, LOOK | os.O_NOFOLLOW, dir_fd=found.folder)
    except ForbiddenError:
        raise _outside(path) from None


@lru_cache(maxsize=4)
def _beneath(within: tuple[str, ...]) -> Beneath:
    return Beneath(Path("/"), tuple(folder.strip("/") for folder in within))


def _outside(path: str) -> MusterError:
    return ForbiddenError(Message("log_not_visible", path=path))


def _check_own(path: str, look: int, own: Own | None) -> None:
    """Where it really lies decides: it may have been named, or a link to it made, by who may not read it."""
    if own is None:
        return
    place = Path(f"/proc/self/fd/{look}").readlink()
    if place.name != own.name and place.is_relative_to(Path(own.folder).resolve()):
        raise ForbiddenError(Message("log_of_others", path=path, name=own.name))


def _reopen(path: str, look: int) -> int:
    """Only now that it is known what it is: opening a device may do something already, and a pipe would block."""
    if not stat.S_ISREG(os.fstat(look).st_mode):
        raise ConflictError(Message("log_no_file", path=path))
    try:
        return os.open(f"/proc/self/fd/{look}", READ)
    except OSError as error:
        raise ConflictError(Message("log_unreadable", path=path, said=error.strerror)) from None
