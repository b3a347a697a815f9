"""Whether somebody else could have written a file: whose it is, and who may write it, or put another in its place.

Owns the question; what is not obeyed or believed for it, and the words around it, are its callers'.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def why_foreign(path: str) -> str:
    """Return why the file or folder belongs to somebody other than the user or root; "" if it does not. Raises
    OSError."""
    state = os.stat(path)
    return whose(state) or why_open(state, os.geteuid())


def why_open(state: os.stat_result, owner: int) -> str:
    """Return who besides this account and root may write it by its mode; "" if nobody may."""
    mode = state.st_mode
    if mode & stat.S_ISVTX and stat.S_ISDIR(mode):
        return ""  # as /tmp: what lies there is changed by its owner only
    if mode & stat.S_IWOTH:
        return f"can be written by everybody (`chmod o-w` it, mode {mode & 0o777:o})"
    if mode & stat.S_IWGRP and not _is_private(state.st_gid, owner):
        return f"can be written by a group (`chmod g-w` it, mode {mode & 0o777:o})"
    return ""


def first_foreign(paths: Iterable[str]) -> str:
    """Of these the first that is somebody else's, with why; "" if there is none. Raises OSError."""
    return next((f"{path} {why}" for path in dict.fromkeys(paths) if (why := why_foreign(path))), "")


def first_open(paths: Iterable[str]) -> str:
    """Of these the first that others than its owner may write, with why; "" if there is none. Raises OSError."""
    states = ((path, os.stat(path)) for path in dict.fromkeys(paths))
    return next((f"{path} {why}" for path, state in states if (why := why_open(state, state.st_uid))), "")


def whose(state: os.stat_result) -> str:
    """To whom it belongs, if neither to the user nor to root; else ""."""
    return "" if state.st_uid in (0, os.geteuid()) else f"belongs to {_name_of(state.st_uid)}"


def _is_private(group: int, owner: int) -> bool:
    """Is it root's, or the one of the owner's own name in which nobody else is?"""
    if group == 0:
        return True
    import grp
    import pwd

    try:
        me, found = pwd.getpwuid(owner), grp.getgrgid(group)
    except KeyError:
        return False
    return (found.gr_gid, found.gr_name) == (me.pw_gid, me.pw_name) and set(found.gr_mem) <= {me.pw_name}


def _name_of(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
