"""The owners of files: folders with files that only the master may read are made so, and corrected if an earlier
version left them open; and the owner of a file, by name.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path

FOLDER = 0o700
_OTHERS = 0o077
_LOOK = os.O_PATH | os.O_CLOEXEC
_MOST_STEPS = 400


def make_private(folder: Path) -> None:
    """Make the folder, with those above it, for nobody else to look into. Raises OSError."""
    make_folder(folder, FOLDER)


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make the folder, with those above it, where it is missing; as root in no place to which a stranger's link leads.
    Raises OSError."""
    if folder.is_dir():
        return
    if os.path.lexists(folder):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    if os.geteuid() != 0:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode, exist_ok=True)
        return
    here = os.open("/", _LOOK)
    try:
        here, owners = _walk(here, [*folder.absolute().parts[:0:-1]], make=mode)
        _check_way(os.fstat(here), owners)
    finally:
        os.close(here)


def not_ours(folder: Path, ours: Container[int]) -> tuple[Path, int] | None:
    """Return the folder, or an entry in it, that belongs to no account of `ours`, and its owner, who may have written
    there what we would take for our own; None if there is none."""
    for path in (folder.resolve(), *_beneath(folder.resolve())):
        with suppress(FileNotFoundError):
            owner = path.lstat().st_uid
            if owner not in ours:
                return path, owner
    return None


def planted(file: Path) -> int | None:
    """Return the owner of a file that a stranger put into a folder where everybody may write; None for any other
    file."""
    with suppress(FileNotFoundError):
        owner, above = file.lstat().st_uid, file.parent.stat()
        if owner not in (0, os.geteuid()) and above.st_mode & stat.S_IWOTH:
            return owner
    return None


def user_name(uid: int) -> str:
    """The name of a user id; the number as text if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def close_to_others(folder: Path) -> list[str]:
    """Take everybody else's rights from the folder and all that is in it; what could not be closed, and why. Links are
    left alone: what they lead to is somebody else's business."""
    failed: list[str] = []
    folder = folder.resolve()
    for path in (folder, *_beneath(folder)):
        try:
            _close(path)
        except FileNotFoundError:
            continue  # a draft that is gone
        except OSError as error:
            failed.append(f"{path}: {error.strerror}")
    return failed


def open_folder(folder: Path) -> int:
    """A folder, open by O_PATH. On the way only those links count that are root's, ours, or of who owns the folder
    that they lead to: where others may write above it, they could have it lead anywhere. Raises OSError."""
    os.stat(f"{folder}/.")  # noqa: PTH116  (what is mounted at its first use is there from now on; a Path drops the dot)
    here = os.open("/", _LOOK)
    try:
        here, owners = _walk(here, [*folder.absolute().parts[:0:-1]])
        _check_way(os.fstat(here), owners)
    except BaseException:
        os.close(here)
        raise
    return here


def _walk(here: int, steps: list[str], make: int | None = None) -> tuple[int, set[int]]:
    """Follow `steps`, the last one first, from an open folder, which is closed. Return the place, and the owners of the
    links on the path. `make`: missing folders are made, the last one with this mode, where only root's links led."""
    owners: set[int] = set()
    for _ in range(_MOST_STEPS):
        if not steps:
            return here, owners
        if make is not None:
            _make(here, steps[-1], make if len(steps) == 1 else 0o777, owners)
        found = os.open(steps.pop(), _LOOK | os.O_NOFOLLOW, dir_fd=here)
        info = os.fstat(found)
        if stat.S_ISLNK(info.st_mode):
            target = Path(os.readlink("", dir_fd=found))
            owners.add(info.st_uid)
            steps += [part for part in reversed(target.parts) if part != "/"]
            os.close(found)
            found = os.open("/", _LOOK) if target.is_absolute() else os.dup(here)
        os.dup2(found, here, inheritable=False)
        os.close(found)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _make(here: int, step: str, mode: int, owners: set[int]) -> None:
    try:
        os.stat(step, dir_fd=here, follow_symlinks=False)
    except FileNotFoundError:
        _check_links(owners, {0})  # what we make is root's
        with suppress(FileExistsError):
            os.mkdir(step, mode, dir_fd=here)


def _check_way(found: os.stat_result, owners: set[int]) -> None:
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    _check_links(owners, {0, os.geteuid(), found.st_uid})


def _check_links(owners: set[int], ours: set[int]) -> None:
    if strangers := owners - ours:
        raise PermissionError(errno.EPERM, f"a link of {user_name(min(strangers))}'s leads there")


def _beneath(folder: Path) -> Iterator[Path]:
    for above, folders, names in os.walk(folder):
        yield from (Path(above, name) for name in (*folders, *names))


def _close(path: Path) -> None:
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        info = os.fstat(fd)
        mode = stat.S_IMODE(info.st_mode)
        if mode & _OTHERS and (stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)):
            os.chmod(f"/proc/self/fd/{fd}", mode & ~_OTHERS)  # noqa: PTH101  (what was looked at, by its descriptor)
    finally:
        os.close(fd)
