"""The tokens of tasks that submit others: made of the attempt's launch id with a key of the master's, and kept nowhere.

The id of such a token is the launch id, spelt in letters and digits; its secret is a MAC of it. So with the key one can
tell for which attempt a token was made; the core decides whether it permits anything. The key is kept in a file for the
master's account alone, because attempts outlive the master; it is no part of the state.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import os
import secrets
import stat
from pathlib import Path

from master.people.services import FOLDER
from master.people.tokens import Parsed
from wire.pattern import Pattern

log = logging.getLogger("muster.people")

KEY_BYTES = 32
_NAME = "task_tokens"
_PURPOSE = b"muster task token\0"
_LAUNCH_ID = Pattern(r"([0-9]{1,15})\.([0-9]{1,6})\.([0-9a-f]{1,8})")
"""Of a task, the number of the attempt, chance: see `master.start.loading`."""
_ID = Pattern(r"t([0-9]{1,15})x([0-9]{1,6})x([0-9a-f]{1,8})")
"""No other token is called so: those of people are hex digits, and services have names."""


class TaskTokens:
    """`key`: with which they are made; another one ends all that there are."""

    def __init__(self, key: bytes, path: Path | None = None) -> None:
        self._key = key
        self._path = path

    @classmethod
    def begin(cls, task_info: Path) -> TaskTokens:
        """Begin with the stored key, or with a new one if there is none or others could have read it. A key that cannot
        be stored is used until the master ends."""
        path = task_info / FOLDER / _NAME
        kept = _read(path)
        if kept is not None:
            return cls(kept, path)
        made = cls(b"", path)
        made.renew()
        return made

    def renew(self) -> None:
        """From now on there is another key, and no token opens anything that was made before."""
        self._key = secrets.token_bytes(KEY_BYTES)
        try:
            if self._path is not None:
                _write(self._path, self._key)
        except OSError as error:
            log.warning("the key of tasks' tokens cannot be kept: they open until the master ends (%s)", error)

    def make(self, launch_id: str) -> str:
        """The token of an attempt, as text. The same each time it is asked for."""
        found = _LAUNCH_ID.fullmatch(launch_id)
        if found is None:
            raise ValueError(f"{launch_id!r} is no launch id of ours")
        return f"mst_t{'x'.join(found.groups())}_{self._secret(launch_id)}"

    @staticmethod
    def launch_of(shown: Parsed) -> str | None:
        """The launch id that a token names; None where it is no task's. Nobody has looked at its secret yet."""
        found = _ID.fullmatch(shown.id)
        return None if found is None else ".".join(found.groups())

    def is_of(self, shown: Parsed, launch_id: str) -> bool:
        """Did we make it, for this attempt? How long it takes tells nothing."""
        return hmac.compare_digest(self._secret(launch_id).encode(), shown.secret.encode())

    def _secret(self, launch_id: str) -> str:
        mac = hmac.digest(self._key, _PURPOSE + launch_id.encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(mac).rstrip(b"=").decode("ascii")


def _read(path: Path) -> bytes | None:
    """Return the key; None if there is none that only the master knows."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found, key = os.fstat(fd), os.read(fd, KEY_BYTES + 1)
    except OSError:
        return None
    finally:
        os.close(fd)
    is_ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
    return key if is_ours and len(key) == KEY_BYTES else None


def _write(path: Path, key: bytes) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    draft = path.with_name(f".{path.name}")
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, key)
        os.fsync(fd)
    finally:
        os.close(fd)
    draft.replace(path)
