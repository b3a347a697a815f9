"""The path to a file beneath the visible folders, and to no other: paths become open folders, never strings again.

Each part of a path is opened beneath the one before, so that swapping a folder for a link meanwhile gains nothing. The
kernel does it in one call (`openat2`, RESOLVE_BENEATH); where it cannot, and for links that lead from one visible
folder into another, the parts are walked one by one without following links, and links are read and walked. For a
caller who may not see everything (`owners`), parts are always walked (`walk`). Owns which places may be reached; the
jail owns what is done there.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from master.config.visible_folders import plain_names
from master.files.errors import about, shown
from master.files.owners import Sight
from master.files.walk import FOLDER, ITSELF, Found, OutsideError, Spot, Walk, is_link
from wire.errors import BadRequestError, ForbiddenError, NotFoundError
from wire.message import Message
from wire.names import to_bytes

MAX_PATH = 4096
MAX_NAME = 255

_OPENAT2 = 437  # the same number on every architecture
_RESOLVE = 0x08 | 0x02  # RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS
_AGAIN = 16
_HERE = -100  # AT_FDCWD
_libc = ctypes.CDLL(None, use_errno=True)


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def openat2(folder: int, path: bytes, flags: int) -> int:
    """Open `path` beneath `folder`. Raises OSError: EXDEV when it leads out, EAGAIN when the kernel cannot tell because
    folders are being moved meanwhile, ENOSYS or EPERM where there is no such call."""
    how = _How(flags, 0, _RESOLVE)
    for _ in range(_AGAIN):
        done: int = _libc.syscall(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(folder),
            ctypes.c_char_p(path),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if done >= 0:
            return done
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(number, os.strerror(number))


def kernel_can() -> bool:
    """Whether the kernel has openat2 and lets us use it (older containers forbid it)."""
    try:
        os.close(openat2(_HERE, ITSELF, FOLDER))
    except OSError:
        return False
    return True


class Beneath:
    """The visible folders beneath `root`. `by_kernel`: use openat2 (None: where there is one). `sight`: of somebody who
    may not see everything there.

    A visible folder may itself be a link of the admin's making. Raises ConfigError for a name that cannot be one.
    """

    def __init__(
        self, root: Path, visible: tuple[str, ...], *, by_kernel: bool | None = None, sight: Sight | None = None
    ) -> None:
        self.root = root
        self.visible = plain_names(visible)
        self.sight = sight
        self._by_kernel = kernel_can() if by_kernel is None else by_kernel

    def seen_by(self, sight: Sight) -> Beneath:
        """The same folders, as somebody sees them."""
        return Beneath(self.root, self.visible, by_kernel=self._by_kernel, sight=sight)

    def spot(self, path: str) -> Spot:
        """Take a path apart, without looking at any disk. Raises BadRequestError, NotFoundError."""
        names = _parts(path)
        for visible in self.visible:
            own = visible.split("/")
            if names[: len(own)] == own:
                rest = tuple(to_bytes(name) for name in names[len(own) :])
                return Spot(visible, rest, "/".join(names))
        raise NotFoundError(self._not_visible(shown(path)))

    @contextmanager
    def find(self, spot: Spot, *, follow: bool) -> Iterator[Found]:
        """Where a path leads; its last part need not exist. `follow`: if that is a link, where the link leads.

        Errors of the system, inside too, come out as MusterErrors about this path; ForbiddenError if it leads out, or
        if its name is already a place that the caller may not see.
        """
        if self.sight is not None and not self.sight.has(spot.place):
            raise ForbiddenError(Message("not_yours", path=shown(spot.text)))
        with about(spot.text):
            try:
                found = self._fast(spot, follow=follow) if self._by_kernel and self.sight is None else None
                found = found or Walk(self, spot).find(follow=follow)
            except OutsideError:
                raise ForbiddenError(Message("link_leads_out", path=shown(spot.text))) from None
            try:
                yield found
            finally:
                os.close(found.folder)

    def open_visible(self, visible: str) -> int:
        """A visible folder, links of the admin followed. Raises OSError, NotFoundError if it is not there."""
        try:
            return os.open(self.root / visible, FOLDER)
        except (FileNotFoundError, NotADirectoryError):
            raise NotFoundError(Message("visible_folder_missing", path=shown(visible), root=str(self.root))) from None

    def really(self, visible: str) -> list[bytes]:
        """The real place of a visible folder, from the root on."""
        return os.path.realpath(os.fsencode(self.root / visible)).strip(b"/").split(b"/")

    def enter(self, names: list[bytes]) -> tuple[str, list[bytes]]:
        """The visible folder in which an absolute path (of a link) lies, and the rest. Raises OutsideError."""
        for visible in self.visible:
            configured = os.fsencode(self.root / visible)
            for place in (configured, os.path.realpath(configured)):
                own = place.strip(b"/").split(b"/")
                if names[: len(own)] == own:
                    return visible, names[len(own) :]
        raise OutsideError

    def _fast(self, spot: Spot, *, follow: bool) -> Found | None:
        """By the kernel; None when the walk has to decide."""
        base = self.open_visible(spot.visible)
        if not spot.names:
            return Found(base, ITSELF)
        *above, name = spot.names
        try:
            folder = openat2(base, b"/".join(above) or ITSELF, FOLDER)
        except OSError as error:
            if error.errno in (errno.EXDEV, errno.EAGAIN):
                return None
            raise
        finally:
            os.close(base)
        if follow and is_link(folder, name):
            os.close(folder)
            return None
        return Found(folder, name)

    def _not_visible(self, path: str) -> Message:
        if not self.visible:
            return Message("nothing_visible", path=path)
        return Message("not_visible", path=path, folders=tuple(map(shown, self.visible)))


def _parts(path: str) -> list[str]:
    if "\0" in path:
        raise BadRequestError(Message("path_with_nul", path=shown(path)))
    if path.startswith("/"):
        raise BadRequestError(Message("path_from_slash", path=shown(path)))
    try:
        encoded = to_bytes(path)
    except ValueError as error:
        raise BadRequestError(Message("path_not_utf8", path=shown(path), said=str(error))) from None
    names = [name for name in path.split("/") if name not in ("", ".")]
    if ".." in names:
        raise BadRequestError(Message("path_with_dots", path=shown(path)))
    if len(encoded) >= MAX_PATH or any(len(to_bytes(name)) > MAX_NAME for name in names):
        raise BadRequestError(Message("path_too_long", path=shown(path[:60]), most=MAX_NAME))
    return names
