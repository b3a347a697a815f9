"""Which lab a conf.json is of: the master keeps an identity beside it, and clients compare it before anything else.

The file also says where its conf.json lies. So a copy of the folder is known for one, until a master starts there and
gives it an identity of its own: the copy names another place, and the lab there has the same identity. A folder that
was moved is known by its conf.json until the next start gives it another identity, for a second copy may have the same
one. An unreadable or invalid file counts as none; then the two ends compare which conf.json they read.
"""

from __future__ import annotations

import json
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_END = ".lab"
_MOST = 8192
_LENGTHS = range(16, 65)


class Lab:
    """The lab of one conf.json. `identity`: empty where it has none; `conf`: the file's real path; `file`: its device
    and inode, which are the same under each of its names; `copied_from`: the conf.json whose identity it repeats;
    `moved_from`: the one that the identity was made for, where that is not seen any more."""

    def __init__(self, identity: str, conf: str, file: str = "", copied_from: str = "", moved_from: str = "") -> None:
        self.identity = identity
        self.conf = conf
        self.file = file
        self.copied_from = copied_from
        self.moved_from = moved_from

    def said(self, *, is_here: bool) -> dict[str, str]:
        """Return the keys that name the lab to a master. `is_here`: the master is on this machine, so it can compare
        the conf.json. Then the identity of a moved folder is left out, because another copy may have it, too."""
        if not is_here:
            return {"lab": self.identity}
        return {"lab": "" if self.moved_from else self.identity, "conf": self.conf, "file": self.file}

    def is_meant(self, identity: str, conf: str, file: str) -> bool:
        """Is this the lab of whoever names this identity and conf.json? Both compare what they have."""
        if identity and self.identity:
            return identity == self.identity
        if conf or file:
            return conf == self.conf or bool(file and file in (self.file, file_of(self.conf)))
        return True

    def has_conf(self, conf: str) -> bool:
        """Is this conf.json the lab's, by its name or by the one that it had before the folder was moved?"""
        real = os.path.realpath(conf)
        return real in (self.conf, self.moved_from) or bool(self.file and self.file == file_of(real))


def path_of(conf: str) -> str:
    """Where the identity stands, beside the file that conf.json really is."""
    return os.path.realpath(conf) + _END


def read(conf: str) -> Lab:
    """The lab of a conf.json, as far as its folder tells."""
    real = os.path.realpath(conf)
    identity, place = stored(path_of(conf))
    if identity and place != real and _is_of_another(identity, place, real):
        return Lab("", real, file_of(real), copied_from=place)
    if identity and place != real and not _is_same(place, real):
        return Lab(identity, real, file_of(real), moved_from=place)
    return Lab(identity, real, file_of(real))


def stored(path: str) -> tuple[str, str]:
    """The identity that a file holds, and the conf.json that it is of; both empty where it holds none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return "", ""
    try:
        said: Any = json.loads(os.read(fd, _MOST)) if stat.S_ISREG(os.fstat(fd).st_mode) else None
        identity, place = said["lab"], said["conf"]
    except (OSError, ValueError, RecursionError, TypeError, KeyError):
        return "", ""
    finally:
        os.close(fd)
    if not isinstance(identity, str) or not isinstance(place, str) or len(identity) not in _LENGTHS:
        return "", ""
    return (identity, place) if identity.isascii() and identity.isalnum() and os.path.isabs(place) else ("", "")


def file_of(conf: str) -> str:
    """Device and inode of a file; empty where it cannot be looked at."""
    try:
        found = os.stat(conf)
    except OSError:
        return ""
    return f"{found.st_dev}:{found.st_ino}"


def _is_of_another(identity: str, place: str, real: str) -> bool:
    """Does the lab at `place` have this identity, and is that not the folder of `real` under another name?"""
    return stored(place + _END)[0] == identity and os.path.isfile(place) and not _is_same(place, real)


def _is_same(place: str, real: str) -> bool:
    """Are these two names of one conf.json, as by another mount?"""
    try:
        is_same_folder = os.path.samefile(os.path.dirname(place), os.path.dirname(real))
    except OSError:
        return False
    return is_same_folder and os.path.basename(place) == os.path.basename(real)
