"""Errors of the system about a file as errors for people: the path as they know it, and what to do about it."""

from __future__ import annotations

import errno
import os
import pwd
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from wire.errors import BadRequestError, ConflictError, ForbiddenError, MusterError, NotFoundError, StorageError
from wire.message import Message


class NotEmptyError(ConflictError):
    """A folder with things in it was to be deleted as if it were empty."""


_FULL = {errno.ENOSPC, errno.EDQUOT}
_FAILING = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENXIO, errno.ENODEV, errno.EROFS, errno.ENOTCONN}
_PLAIN: dict[int, tuple[type[MusterError], Callable[[str], Message]]] = {
    errno.ENOENT: (NotFoundError, lambda path: Message("not_there", path=path)),
    errno.ENOTDIR: (NotFoundError, lambda path: Message("part_no_folder", path=path)),
    errno.EEXIST: (ConflictError, lambda path: Message("is_there", path=path)),
    errno.ENOTEMPTY: (NotEmptyError, lambda path: Message("not_empty", path=path)),
    errno.EISDIR: (BadRequestError, lambda path: Message("is_folder", path=path)),
    errno.ELOOP: (BadRequestError, lambda path: Message("links_in_circle", path=path)),
    errno.ENAMETOOLONG: (BadRequestError, lambda path: Message("name_too_long", path=path)),
    errno.EINVAL: (BadRequestError, lambda path: Message("not_taken", path=path)),
    errno.EBUSY: (ConflictError, lambda path: Message("in_use", path=path)),
    errno.ETXTBSY: (ConflictError, lambda path: Message("program_runs", path=path)),
    errno.EFBIG: (StorageError, lambda path: Message("too_large_for_disk", path=path)),
    errno.EMLINK: (StorageError, lambda path: Message("no_more_entries", path=path)),
}


def shown(path: str) -> str:
    """A path on one line, whatever is in it."""
    return path if path.isprintable() else repr(path)[1:-1]


def told(error: OSError, path: str) -> MusterError:
    """Return the error that a client gets for an error of the system about `path`."""
    number = error.errno or 0
    name = shown(path)
    if number in _FULL:
        return StorageError(Message("disk_full", path=name))
    if number in (errno.EACCES, errno.EPERM):
        return ForbiddenError(Message("no_permission", path=name, user=_me()))
    if number in _FAILING:
        return StorageError(Message("storage_fails", path=name, said=error.strerror))
    if number not in _PLAIN:
        return ConflictError(Message("system_said", path=name, said=error.strerror or str(error)))
    kind, message = _PLAIN[number]
    return kind(message(name))


@contextmanager
def about(path: str) -> Iterator[None]:
    """Turn an OSError inside into the error that a client gets."""
    try:
        yield
    except OSError as error:
        raise told(error, path) from None


def _me() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
