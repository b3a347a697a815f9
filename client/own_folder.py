"""Where the account keeps what commands remember: `$XDG_CONFIG_HOME`, or `.config` in its home.

It is made where the home is there and the account's own, and nowhere else: a service may have `/nonexistent` for a
home, a container none, and after `sudo` the home may be another user's, who could not use what root made in it.
"""

from __future__ import annotations

import errno
import os
import stat

_OTHERS_WRITE = 0o002


def config() -> str:
    """The folder of what programs remember for this account; empty where it has none."""
    said = os.environ.get("XDG_CONFIG_HOME", "")
    if said.startswith("/"):
        return said
    home = _home()
    return os.path.join(home, ".config") if home else ""


def make(folder: str) -> None:
    """Make this folder, which lies in that of `config`, for the account alone. Raises OSError, also where the home is
    missing or another account's: nothing was made then, and its `strerror` is a message of ours."""
    base = config()
    if not base:
        from wire.message import Message

        raise FileNotFoundError(errno.ENOENT, Message("no_home"), folder)
    there = folder
    while not os.path.lexists(there) and there != os.path.dirname(there):
        there = os.path.dirname(there)
    home = _home()
    if not (_lies_in(there, os.path.dirname(base)) or (home and _lies_in(there, home))):
        from wire.message import Message

        raise FileNotFoundError(errno.ENOENT, Message("home_missing"), os.path.dirname(base))
    _check_own(there)
    os.makedirs(folder, mode=0o700, exist_ok=True)


def _home() -> str:
    """The home folder; empty where the account has none. An empty or relative HOME is none."""
    said = os.environ.get("HOME", "")
    if said.startswith("/"):
        return said
    import pwd

    try:
        found = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""
    return found if found.startswith("/") else ""


def _lies_in(path: str, folder: str) -> bool:
    return os.path.commonpath([path, folder]) == os.path.normpath(folder)


def _check_own(folder: str) -> None:
    """Root's own folders will do where others cannot write: a container gives some of them to all its accounts."""
    found = os.stat(folder)
    is_roots = found.st_uid == 0 and not stat.S_IMODE(found.st_mode) & _OTHERS_WRITE
    if found.st_uid != os.geteuid() and not is_roots:
        from wire.message import Message

        raise PermissionError(errno.EPERM, Message("folder_of_another", uid=found.st_uid), folder)
