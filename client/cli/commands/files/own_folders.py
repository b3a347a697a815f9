"""The files and folders of a folder on this machine, each opened once and through no link of another account: another
account may swap what lies there while it is read, or while something is fetched into it.

Owns what is opened, and why something is left out. It sends and fetches nothing.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress

from client.refusals import coded_error
from wire.message import Message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import BinaryIO

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_PLACE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
"""To put something into a folder one need not be able to list it."""
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class LeftOutError(Exception):
    """It is not to be read; `why` says so."""

    def __init__(self, why: Message) -> None:
        super().__init__(why)
        self.why = why


def walked(top: str, unreadable: Callable[[OSError], object]) -> Iterator[tuple[str, int, list[str]]]:
    """Yield each folder from `top` on: its path, its descriptor, which is open until the next, and the names of all in
    it but folders. `unreadable` is told what cannot be looked into."""
    yield from _walked(top, top, None, unreadable)


def _walked(
    path: str, name: str, above: int | None, unreadable: Callable[[OSError], object]
) -> Iterator[tuple[str, int, list[str]]]:
    try:
        # The first one may be a link: whoever runs the command has named it.
        folder = os.open(name, _FOLDER if above is None else _FOLDER | os.O_NOFOLLOW, dir_fd=above)
    except OSError as error:
        unreadable(OSError(error.errno, error.strerror, path))
        return
    try:
        with os.scandir(folder) as found:
            entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
        yield path, folder, [name for name, is_folder in entries if not is_folder]
        for inner, is_folder in entries:
            if is_folder:
                yield from _walked(os.path.join(path, inner), inner, folder, unreadable)
    finally:
        os.close(folder)


@contextmanager
def made(path: str) -> Iterator[int]:
    """Make a folder, or take the one that is there; its descriptor, as long as the body lasts. Raises ConflictError for
    another account's link, which would lead what is fetched to where that account could not write."""
    folder = _made(path, None, path)
    try:
        yield folder
    finally:
        os.close(folder)


@contextmanager
def made_beneath(top: int, path: str, names: Sequence[str]) -> Iterator[int]:
    """Do the same with each of these folders, one in the other, from the open one on. `path`: of that. Raises as
    `made`."""
    folder = os.dup(top)
    try:
        for name in names:
            path = os.path.join(path, name)
            inner = _made(name, folder, path)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _made(name: str, above: int | None, path: str) -> int:
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=above)
    status = os.stat(name, dir_fd=above, follow_symlinks=False)
    if not stat.S_ISLNK(status.st_mode):
        return os.open(name, _PLACE | os.O_NOFOLLOW, dir_fd=above)
    aim = _aim(name, above, status)
    if aim is None:
        raise coded_error("conflict", "link_of_another", path=path)
    return os.open(aim, _PLACE, dir_fd=above)


def _aim(name: str, above: int | None, status: os.stat_result) -> str | None:
    """Where a link of this status leads; None for another account's. A link cannot be made to lead elsewhere, only
    replaced, so the one that is read is looked at again."""
    aim = os.readlink(name, dir_fd=above)
    now = os.stat(name, dir_fd=above, follow_symlinks=False)
    if status.st_uid not in (0, os.geteuid()) or not os.path.samestat(status, now):
        return None
    return aim if above is not None else os.path.join(os.path.dirname(name), aim)


def open_file(folder: int, name: str) -> BinaryIO:
    """Open the file `name` of an open folder; through a link only if it is one's own, or root's. Raises LeftOutError,
    OSError."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISREG(status.st_mode):
        return _regular(os.open(name, _FILE | os.O_NOFOLLOW, dir_fd=folder))
    if not stat.S_ISLNK(status.st_mode):
        raise LeftOutError(Message("skipped_neither"))
    aim = _aim(name, folder, status)
    if aim is None:
        raise LeftOutError(Message("skipped_link_of_another"))
    try:
        mode = os.stat(aim, dir_fd=folder).st_mode
    except OSError:
        raise LeftOutError(Message("skipped_neither")) from None
    if not stat.S_ISREG(mode):
        raise LeftOutError(Message("skipped_link_to_folder") if stat.S_ISDIR(mode) else Message("skipped_neither"))
    return _regular(os.open(aim, _FILE, dir_fd=folder))


def _regular(opened: int) -> BinaryIO:
    """The file that is open. Nothing else is read: a pipe, say, would never end."""
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise LeftOutError(Message("skipped_neither"))
    return os.fdopen(opened, "rb")
