"""The versions of the master's own files that changes from afar have replaced: kept, told, and found again.

They lie in a folder for its owner's eyes alone, by a name that says of which file, since when, and of what version.
"""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from master.edited_files.ownership import make_private
from wire.errors import NotFoundError
from wire.message import Message

MOST = 50
"""So many of each file are kept."""
_STAMP = "%Y%m%dT%H%M%SZ"
_NAME = re.compile(r"(?P<file>.+)\.(?P<stamp>[0-9]{8}T[0-9]{6}Z)-[0-9a-f]{8}")


class KeptFile(msgspec.Struct, frozen=True):
    """An earlier version: its `name` among those that are kept, when it was replaced (`at`, seconds since the epoch),
    and its size in bytes."""

    name: str
    at: float
    size: int


def keep(folder: Path, file: str, before: bytes, version: str) -> Path:
    """Keep a file as it was; the oldest of many go."""
    make_private(folder)
    path = folder / f"{file}.{time.strftime(_STAMP, time.gmtime())}-{version[:8]}"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as written:
        written.write(before)
        written.flush()
        os.fsync(fd)
    for old in _names(folder, file)[MOST:]:
        (folder / old).unlink(missing_ok=True)
    return path


def kept(folder: Path, file: str) -> list[KeptFile]:
    """The earlier versions of a file, the newest first."""
    return [KeptFile(name, _replaced_at(name), (folder / name).stat().st_size) for name in _names(folder, file)]


def read(folder: Path, file: str, name: str) -> bytes:
    """One of them. Raises NotFoundError."""
    if name not in _names(folder, file):
        raise NotFoundError(Message("no_kept_file", name=name, file=file))
    return (folder / name).read_bytes()


def _names(folder: Path, file: str) -> list[str]:
    if not folder.is_dir():
        return []
    found = [entry.name for entry in folder.iterdir() if entry.is_file() and not entry.is_symlink()]
    return sorted((name for name in found if _file_of(name) == file), reverse=True)


def _file_of(name: str) -> str | None:
    parts = _NAME.fullmatch(name)
    return None if parts is None else parts["file"]


def _replaced_at(name: str) -> float:
    parts = _NAME.fullmatch(name)
    return 0.0 if parts is None else datetime.strptime(parts["stamp"], _STAMP).replace(tzinfo=UTC).timestamp()
