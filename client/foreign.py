"""Whether somebody else could have written a file: whose it is, and who may write it, or put another in its place.

Owns the question; what is not obeyed or believed for it, and the words around it, are its callers'.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wire.message import Message


def why_foreign(path: str) -> Message | None:
    """Return why the file or folder belongs to somebody other than the user or root; None if it does not. Raises
    OSError."""
    state = os.stat(path)
    return whose(state) or why_open(state, os.geteuid())


def why_open(state: os.stat_result, owner: int) -> Message | None:
    """Return who besides this account and root may write it by its mode; None if nobody may."""
    mode = state.st_mode
    if mode & stat.S_ISVTX and stat.S_ISDIR(mode):
        return None  # as /tmp: what lies there is changed by its owner only
    is_open = mode & stat.S_IWOTH
    if not is_open and (not mode & stat.S_IWGRP or _is_private(state.st_gid, owner)):
        return None
    from wire.message import Message  # most files are not open, and a command that meets none loads no messages

    if is_open:
        return Message("written_by_everybody", mode=f"{mode & 0o777:o}")
    return Message("written_by_group", mode=f"{mode & 0o777:o}")


def first_foreign(paths: Iterable[str]) -> Message | None:
    """Return the first of these that is somebody else's, with why; None if there is none. Raises OSError."""
    return _first(paths, why_foreign)


def first_open(paths: Iterable[str]) -> Message | None:
    """Return the first of these that others than its owner may write, with why; None if there is none. Raises
    OSError."""

    def why(path: str) -> Message | None:
        state = os.stat(path)
        return why_open(state, state.st_uid)

    return _first(paths, why)


def whose(state: os.stat_result) -> Message | None:
    """Return to whom it belongs, if neither to the user nor to root; else None."""
    if state.st_uid in (0, os.geteuid()):
        return None
    from wire.message import Message

    return Message("belongs_to", owner=_name_of(state.st_uid))


def _first(paths: Iterable[str], ask: Callable[[str], Message | None]) -> Message | None:
    for path in dict.fromkeys(paths):
        why = ask(path)
        if why is not None:
            from wire.message import Message

            return Message("path_not_ours", path=path, why=why)
    return None


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
