"""Walks to a place beneath the visible folders, step by step: each part is opened beneath the one before, links are
read and walked, and the present place is known at each step.

For a caller who may not see everything (`owners`), hidden places look as if they did not exist, wherever links lead.
Owns that walk, and what a place is; `beneath` owns which folders there are, and the kernel's walk.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Protocol

import msgspec

from master.files.owners import Sight

FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
ITSELF = b"."
"""The name in `Found` when the folder itself is meant."""
MAX_LINKS = 40


class Spot(msgspec.Struct, frozen=True):
    """A path, taken apart: the visible folder, and the names beneath it. `text` is the path in its plainest form."""

    visible: str
    names: tuple[bytes, ...]
    text: str

    @property
    def place(self) -> tuple[bytes, ...]:
        """All names, as they were asked for: links may lead elsewhere."""
        return (*names_of(self.visible), *self.names)


class Found(msgspec.Struct, frozen=True):
    """A place: an open folder and a name in it (ITSELF: the folder). The name may belong to nothing yet. `above`: the
    names of the folder, from the visible one on, links followed; known where somebody may not see everything."""

    folder: int
    name: bytes
    above: tuple[bytes, ...] = ()

    @property
    def place(self) -> tuple[bytes, ...]:
        """All names, from the visible folder on."""
        return self.above if self.name == ITSELF else (*self.above, self.name)

    def inside(self, folder: int, name: bytes) -> Found:
        """Return the entry of this name in this place, whose folder is open."""
        return Found(folder, name, self.place)


class OutsideError(Exception):
    """The way leads out of the visible folders."""


class Folders(Protocol):
    """The visible folders. `sight`: of a caller who may not see everything there."""

    sight: Sight | None

    def open_visible(self, visible: str) -> int:
        """Open one. Raises OSError, NotFoundError."""

    def enter(self, names: list[bytes]) -> tuple[str, list[bytes]]:
        """The one in which an absolute path lies, and the rest. Raises OutsideError."""

    def really(self, visible: str) -> list[bytes]:
        """Its real place, from the root on."""


class Walk:
    """The way to one spot, step by step. `_folders`: where we are and all above it up to the visible folder; `_names`:
    the same by name, but for the visible folder.

    A folder that the caller may not see can be passed only downwards and by name, to visible places in it: any other
    error there looks as if the place did not exist.
    """

    def __init__(self, folders: Folders, spot: Spot) -> None:
        self._visible_folders = folders
        self._sight = folders.sight
        self._visible = spot.visible
        self._todo = list(reversed(spot.names))
        self._links = 0
        self._folders: list[int] = []
        self._names: list[bytes] = []
        self._step = ITSELF
        """The name that is looked at in the current folder."""

    def find(self, *, follow: bool) -> Found:
        """Go. Raises OSError, OutsideError."""
        try:
            self._folders.append(self._visible_folders.open_visible(self._visible))
            try:
                self._step = self._go(follow=follow)
            except OSError:
                self._check_seen()
                raise
            self._check_seen()
            return Found(self._folders.pop(), self._step, self._here())
        finally:
            for folder in self._folders:
                os.close(folder)

    def _here(self) -> tuple[bytes, ...]:
        return (*names_of(self._visible), *self._names)

    def _check_seen(self) -> None:
        """Raise FileNotFoundError if the caller may not see the place."""
        if self._sight is not None and not self._sight.has(Found(-1, self._step, self._here()).place):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    def _go(self, *, follow: bool) -> bytes:
        while self._todo:
            name = self._todo.pop()
            self._step = ITSELF if name == b".." else name
            if name == b"..":
                self._check_seen()
                self._up()
            elif not self._todo and not follow:
                return name
            elif is_link(self._folders[-1], name):
                self._check_seen()
                self._take_link(name)
            elif not self._todo:
                return name
            else:
                self._folders.append(os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=self._folders[-1]))
                self._names.append(name)
        return ITSELF

    def _up(self) -> None:
        if len(self._folders) > 1:
            os.close(self._folders.pop())
            self._names.pop()
            return
        # Out of the visible folder: its real place says where that is. Allowed only if it ends in a visible one again.
        here = self._visible_folders.really(self._visible)[:-1]
        while self._todo and self._todo[-1] == b"..":
            self._todo.pop()
            here = here[:-1]
        self._jump([*here, *reversed(self._todo)])

    def _take_link(self, name: bytes) -> None:
        self._links += 1
        if self._links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = os.readlink(name, dir_fd=self._folders[-1])
        names = [part for part in target.split(b"/") if part not in (b"", b".")]
        if target.startswith(b"/"):
            self._jump([*names, *reversed(self._todo)])
        else:
            self._todo += reversed(names)

    def _jump(self, names: list[bytes]) -> None:
        self._visible, rest = self._visible_folders.enter(names)
        folder = self._visible_folders.open_visible(self._visible)
        for old in self._folders:
            os.close(old)
        self._folders, self._names = [folder], []
        self._todo = list(reversed(rest))


def names_of(visible: str) -> list[bytes]:
    """The names in the path of a visible folder."""
    return [os.fsencode(name) for name in visible.split("/")]


def is_link(folder: int, name: bytes) -> bool:
    """Whether a link stands there now. Raises OSError."""
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False
