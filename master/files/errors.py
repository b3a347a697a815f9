"""What the system says about a file, as an error for people: the path as they know it, and what to do about it."""

from __future__ import annotations

import errno
import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager

from wire.errors import BadRequestError, ConflictError, ForbiddenError, MusterError, NotFoundError, StorageError


class NotEmptyError(ConflictError):
    """A folder with things in it was to be deleted as if it were empty."""


_FULL = {errno.ENOSPC, errno.EDQUOT}
_FAILING = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENXIO, errno.ENODEV, errno.EROFS, errno.ENOTCONN}
_PLAIN: dict[int, tuple[type[MusterError], str]] = {
    errno.ENOENT: (NotFoundError, "{path}: there is no such file or folder"),
    errno.ENOTDIR: (NotFoundError, "{path}: a part of this path is not a folder"),
    errno.EEXIST: (ConflictError, "{path} exists already; choose another name, or replace it (-f, `overwrite`)"),
    errno.ENOTEMPTY: (NotEmptyError, "{path} is not empty; -r (`recursive`) deletes it with all that is in it"),
    errno.EISDIR: (BadRequestError, "{path} is a folder"),
    errno.ELOOP: (BadRequestError, "{path}: its links lead round in a circle, or it was replaced by a link just now"),
    errno.ENAMETOOLONG: (BadRequestError, "{path}: the name is too long"),
    errno.EINVAL: (BadRequestError, "{path}: the file system does not take this (a folder into itself?)"),
    errno.EBUSY: (ConflictError, "{path} is in use by the system (a mount point?)"),
    errno.ETXTBSY: (ConflictError, "{path} is a program that runs just now"),
    errno.EFBIG: (StorageError, "{path}: the file system takes no file of this size"),
    errno.EMLINK: (StorageError, "{path}: the file system takes no more entries in this folder"),
}


def shown(path: str) -> str:
    """A path on one line, whatever is in it."""
    return path if path.isprintable() else repr(path)[1:-1]


def told(error: OSError, path: str) -> MusterError:
    """What went wrong with `path`, as the error that a client gets."""
    number = error.errno or 0
    name = shown(path)
    if number in _FULL:
        return StorageError(f"{name}: the disk is full (or a quota is used up); delete what is not needed there")
    if number in (errno.EACCES, errno.EPERM):
        return ForbiddenError(f"{name}: the master's user ({_me()}) may not do this there; see `ls -ld` on its machine")
    if number in _FAILING:
        return StorageError(f"{name}: {error.strerror}; look at the storage (`df`, `dmesg`) on the master's machine")
    kind, text = _PLAIN.get(number, (ConflictError, "{path}: {why}"))
    return kind(text.format(path=name, why=error.strerror or error))


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
