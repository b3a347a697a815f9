"""The files of a folder on this machine, each opened once and through no link of another account: another account may
swap what lies there while it is read.

Owns what is opened, and why something is left out. It sends nothing.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_NEITHER = "neither file nor folder"


class LeftOutError(Exception):
    """It is not to be read. `why`: in words."""

    def __init__(self, why: str) -> None:
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


def open_file(folder: int, name: str) -> BinaryIO:
    """Open the file `name` of an open folder; through a link only if it is one's own, or root's. Raises LeftOutError,
    OSError."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISREG(status.st_mode):
        return _regular(os.open(name, _FILE | os.O_NOFOLLOW, dir_fd=folder))
    if not stat.S_ISLNK(status.st_mode):
        raise LeftOutError(_NEITHER)
    if status.st_uid not in (0, os.geteuid()):
        raise LeftOutError("a link of another account")
    aim = os.readlink(name, dir_fd=folder)
    if not os.path.samestat(status, os.stat(name, dir_fd=folder, follow_symlinks=False)):
        raise LeftOutError("a link of another account")
    try:
        mode = os.stat(aim, dir_fd=folder).st_mode
    except OSError:
        raise LeftOutError(_NEITHER) from None
    if not stat.S_ISREG(mode):
        raise LeftOutError("a link to a folder" if stat.S_ISDIR(mode) else _NEITHER)
    return _regular(os.open(aim, _FILE, dir_fd=folder))


def _regular(opened: int) -> BinaryIO:
    """The file that is open. Nothing else is read: a pipe, say, would never end."""
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise LeftOutError(_NEITHER)
    return os.fdopen(opened, "rb")
