"""Places that must stay where they are: folders that people may see, and those that tasks, environments or the master
use.

Someone deletes or moves a folder by its name; its users may know it by another one, through a link or a second mount.
So places are compared by device and inode, each with everything that its path leads through. Owns that comparison; the
users of a place tell that it is needed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

import msgspec

from master.files.errors import shown
from master.files.walk import MAX_LINKS, Spot
from wire.errors import ConflictError
from wire.message import Message


class Needed(msgspec.Struct, frozen=True):
    """A place by its whole path, and who needs it, as in "the logs of tasks lie there"."""

    path: str
    why: Message


def check_not_needed(info: os.stat_result, spot: Spot, needed: Iterable[Needed]) -> None:
    """Refuse to take away what `info` is of if it is, holds, or leads to a needed place. Raises ConflictError."""
    taken = (info.st_dev, info.st_ino)
    seen: dict[bytes, os.stat_result | None] = {}
    for place in needed:
        if any((step.st_dev, step.st_ino) == taken for step in _steps(os.fsencode(place.path), seen)):
            raise ConflictError(Message("needed", path=shown(spot.text), why=place.why))


def _steps(path: bytes, seen: dict[bytes, os.stat_result | None]) -> Iterable[os.stat_result]:
    """Everything that the way from the root to `path` leads through, links included, as far as it is there."""
    todo = [part for part in reversed(path.split(b"/")) if part not in (b"", b".")]
    here, links = b"", 0
    while todo:
        name = todo.pop()
        if name == b"..":
            here = here.rpartition(b"/")[0]
            continue
        step = here + b"/" + name
        if step not in seen:
            seen[step] = _look(step)
        info = seen[step]
        if info is None:
            return
        yield info
        if not stat.S_ISLNK(info.st_mode):
            here = step
            continue
        links += 1
        if links > MAX_LINKS:
            return
        try:
            target = os.readlink(step)  # noqa: PTH115  (bytes: names need not be UTF-8)
        except OSError:
            return  # it is gone meanwhile
        todo += [part for part in reversed(target.split(b"/")) if part not in (b"", b".")]
        here = b"" if target.startswith(b"/") else here


def _look(step: bytes) -> os.stat_result | None:
    try:
        return os.lstat(step)
    except OSError:
        return None  # what we cannot look at lies nowhere that we could take away
