"""As which account the master of a conf.json runs: the master writes it into a file beside conf.json when it starts.

Clients on the master's machine read it before they send anything to whoever has the master's port. So it counts only
where nobody else can have written it: neither the file, nor the folders that lead to it. Without the file (masters
before it, or a folder that the master may not write in) the owner of `task_info` is the account.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from wire.message import Message

    Found: TypeAlias = tuple[int | None, Message | None]
    """The uid; or None, and why it is not known, if there is more to say."""

_MOST = 32
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def path_of(conf: str) -> str:
    """Where the account stands, beside the file that conf.json really is."""
    return os.path.realpath(conf) + ".account"


def recorded(conf: str, task_info: str) -> Found:
    """The master's uid, as far as it can be believed."""
    path = path_of(conf)
    try:
        writer = os.stat(conf).st_uid
        found = _read(path)
    except FileNotFoundError:
        return _owner(conf, task_info)
    except OSError as error:
        return None, _unread(path, error)
    if isinstance(found, int):
        return _if_closed(found, os.path.dirname(path), writer)
    from wire.message import Message

    return None, Message("in_file", path=path, fault=found)


def _read(path: str) -> int | Message:
    """Return the account; for what it, or root, cannot have written, what is wrong. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found, text = os.fstat(fd), os.read(fd, _MOST)
    finally:
        os.close(fd)
    is_closed = stat.S_ISREG(found.st_mode) and not found.st_mode & _OTHERS
    uid = int(text) if text.strip().isdigit() else None
    if is_closed and uid is not None and found.st_uid in (0, uid):
        return uid
    from wire.message import Message

    if not is_closed:
        return Message("others_can_write_it")
    if uid is None:
        return Message("names_no_account")
    return Message("names_another_account", owner=found.st_uid, uid=uid)


def _owner(conf: str, task_info: str) -> Found:
    path = os.path.realpath(task_info)
    try:
        found, writer = os.stat(path), os.stat(conf).st_uid
    except OSError as error:
        return None, _unread(error.filename, error)
    if not stat.S_ISDIR(found.st_mode):
        from wire.message import Message

        return None, Message("not_a_folder", path=task_info)
    above = dict.fromkeys((os.path.dirname(os.path.abspath(task_info)), os.path.dirname(path)))
    for folder in above:
        uid, why = _if_closed(found.st_uid, folder, writer)
        if uid is None:
            return None, why
    return found.st_uid, None


def _if_closed(uid: int, folder: str, writer: int) -> Found:
    """The uid, if root, this account and we ourselves alone can put a file into the folder, or another folder in the
    place of it or of one above. `writer`: who wrote conf.json, and may have laid it beneath a folder like /tmp."""
    path, below = folder, None
    while True:
        try:
            found = os.stat(path)
        except OSError as error:
            return None, _unread(path, error)
        if found.st_uid not in (0, uid, os.geteuid()):
            from wire.message import Message

            return None, Message("path_not_ours", path=path, why=Message("belongs_to", owner=f"uid {found.st_uid}"))
        if found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and not _is_private(found)):
            # As in /tmp: what has a name there keeps it, but everybody may add one, and was perhaps the first.
            keeps = below is not None and found.st_mode & stat.S_ISVTX
            if not keeps or below not in (0, os.geteuid(), writer):
                from wire.message import Message

                return None, Message("others_can_write_in", path=path)
        above = os.path.dirname(path)
        if above == path:
            return uid, None
        path, below = above, found.st_uid


def _unread(path: str, error: OSError) -> Message:
    from wire.message import Message

    return Message("in_file", path=path, fault=Message("file_unreadable", detail=error.strerror))


def _is_private(found: os.stat_result) -> bool:
    """Is the folder's group root's, or that of its owner's own name in which nobody else is?"""
    if found.st_gid == 0:
        return True
    import grp
    import pwd

    try:
        owner, group = pwd.getpwuid(found.st_uid), grp.getgrgid(found.st_gid)
    except KeyError:
        return False
    return (group.gr_gid, group.gr_name) == (owner.pw_gid, owner.pw_name) and set(group.gr_mem) <= {owner.pw_name}
