"""Whose files are: folders that hold what only the master may read are made so, and put right where an earlier version
left them open; and whose a file is, by name.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path

FOLDER = 0o700
_OTHERS = 0o077


def make_private(folder: Path) -> None:
    """Make the folder, with those above it, for nobody else to look into. Raises OSError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=FOLDER, exist_ok=True)


def not_ours(folder: Path, ours: Container[int]) -> tuple[Path, int] | None:
    """The folder, or what is in it, that belongs to no account of `ours`, and whose that is: whoever it is may have
    written there what we would take for our own."""
    for path in (folder.resolve(), *_beneath(folder.resolve())):
        with suppress(FileNotFoundError):
            owner = path.lstat().st_uid
            if owner not in ours:
                return path, owner
    return None


def planted(file: Path) -> int | None:
    """Whose a file is that a stranger put into a folder where everybody may write; None where it is none of that."""
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
