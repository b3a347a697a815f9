"""The view that any account of this machine has of a path: whether it exists.

The master may be root, and reads folders that its users may not. An account that may search each folder of a path can
find out whether a name exists; if the mode of one lets only its owner or group search it, the answer is `hidden`. Links
are followed one at a time, because the same holds for the paths that they lead to. Blocks as long as a disk does.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Literal

PublicView = Literal["there", "absent", "hidden"]
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
MOST_LINKS = 40


def public_view(path: str) -> PublicView:
    """Return what any account can find out about an absolute path; `hidden`: not all may look there, or nobody can
    now."""
    found = public_look(path)
    return "there" if isinstance(found, os.stat_result) else found


def public_size(path: str) -> int | None:
    """The bytes that any account can find out a file has, 0 where there is none; None: not all may look there."""
    found = public_look(path)
    if isinstance(found, os.stat_result):
        return found.st_size
    return 0 if found == "absent" else None


def public_look(path: str) -> os.stat_result | Literal["absent", "hidden"]:
    """As `public_view`, but with the result of `stat` for `there`."""
    if not path.startswith("/") or "\0" in path:
        return "hidden"
    folder = os.open("/", _FOLDER)
    try:
        parts = _parts(path)
        links = 0
        while parts:
            if not os.fstat(folder).st_mode & stat.S_IXOTH:
                return "hidden"
            name = parts.pop()
            there = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISLNK(there.st_mode):
                links += 1
                if links > MOST_LINKS:
                    return "absent"
                to = os.readlink(name, dir_fd=folder)
                parts += _parts(to)
                step = "/" if to.startswith("/") else "."
            elif stat.S_ISDIR(there.st_mode):
                step = name
            else:
                return "absent" if parts else there
            after = os.open(step, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = after
    except OSError as error:
        return "absent" if error.errno in _GONE else "hidden"
    else:
        return os.fstat(folder)
    finally:
        os.close(folder)


def _parts(path: str) -> list[str]:
    """The names on the way, the last one first."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]
