"""Writes beside conf.json as which account the master runs, so that clients of this machine can check which master
they talk to. `wire.master_account` owns the format, and when clients believe it.
"""

from __future__ import annotations

import logging
import os
import secrets
from contextlib import suppress
from pathlib import Path

from wire.master_account import path_of

log = logging.getLogger("muster")

_MODE = 0o644


def note(conf: Path) -> None:
    """Write it, unless it is right already. Where it cannot be written, the owner of `task_info` counts."""
    path = Path(path_of(str(conf)))
    try:
        if not _is_right(path):
            _write(path)
    except OSError as error:
        if os.path.lexists(path):
            log.warning(
                "%s does not name uid %d, the master's, and cannot be written (%s): other accounts of this machine "
                "take the master for a stranger until somebody removes it",
                *(path, os.geteuid(), error.strerror),
            )
        else:
            log.info(
                "%s cannot be written (%s): the owner of task_info tells whose the master is", path, error.strerror
            )


def _is_right(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        is_ours = found.st_uid == os.geteuid() and found.st_mode & 0o777 == _MODE
        try:
            return is_ours and file.read(32) == _text()
        except OSError:
            return False  # a folder, say


def _write(path: Path) -> None:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, _MODE)
            file.write(_text())
        draft.replace(path)
    except OSError:
        with suppress(FileNotFoundError):
            draft.unlink()
        raise


def _text() -> bytes:
    return b"%d\n" % os.geteuid()
