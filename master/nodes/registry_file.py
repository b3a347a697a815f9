"""Changing gpu_slaver_info.json as a person would: one entry, and everything else stays as it was written.

Owns how the file is replaced: one writer at a time, checked before it takes the place of the old one, whole or not at
all, with its mode and owner. What an entry may hold is `registry`'s; who is told of it, the caller's.
"""

from __future__ import annotations

import fcntl
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from master import json_file, json_text
from master.nodes.registry import MISSING_CURE, NodeConfig, entries_of, parse_registry
from wire.errors import BadRequestError, ConfigError, ConflictError, NotFoundError, StorageError
from wire.message import Message, Several

TURN = threading.Lock()
"""Held while the file is read or replaced *and* what it says is told, so that what is told last is what it says."""

LOCK_S = 10.0
"""How long another program may hold the file."""

_LOOK_S = 0.02

Nodes = tuple[NodeConfig, ...]
Told = Callable[[Nodes], None]
Check = Callable[[Nodes], None]
"""Raises ConfigError for a registry that is right in itself and must not be."""
_Change = Callable[[str, list[Any]], str]


def _nobody(_nodes: Nodes) -> None:
    """Tell nobody, and refuse nothing."""


def add(path: Path, entry: dict[str, Any], *, check: Check = _nobody, told: Told = _nobody) -> Nodes:
    """Write one more node at the end, laid out as the one before it, and give the new registry.

    `told` gets it too, before anybody else may change the file. Raises ConflictError (the name is taken, the file
    changed meanwhile), BadRequestError (the entry is wrong), ConfigError (the file is), StorageError (it cannot be
    written).
    """

    def change(text: str, entries: list[Any]) -> str:
        name = entry.get("name")
        if any(other["name"] == name for other in entries):
            raise ConflictError(Message("node_is_there", node=name))
        begin = json_text.start(text)
        there = json_text.parts(text, begin)
        written = json_text.object_like(text, there[-1].value, entry) if there else _one_line(entry)
        return json_text.append(text, begin, written)

    return _rewrite(path, change, check, told)


def edit(path: Path, name: str, changes: dict[str, Any], *, check: Check = _nobody, told: Told = _nobody) -> Nodes:
    """Change keys of one node where they stand; None takes a key out. Gives the new registry.

    Raises NotFoundError, and as `add` does. The name stays: tasks go by it.
    """
    if changes.get("name", name) != name:
        raise BadRequestError(Message("node_keeps_its_name"))

    def change(text: str, entries: list[Any]) -> str:
        index = _find(entries, name)
        for key, value in changes.items():
            at = json_text.parts(text, json_text.start(text))[index].value
            text = json_text.drop_member(text, at, key) if value is None else json_text.set_member(text, at, key, value)
        return text

    return _rewrite(path, change, check, told)


def remove(path: Path, name: str, *, check: Check = _nobody, told: Told = _nobody) -> Nodes:
    """Take a node out and give the new registry. Raises NotFoundError, and as `add` does."""

    def change(text: str, entries: list[Any]) -> str:
        return json_text.drop(text, json_text.start(text), _find(entries, name))

    return _rewrite(path, change, check, told)


def _one_line(entry: dict[str, Any]) -> str:
    return json_text.object_like("{}", 0, entry)


def _find(entries: list[Any], name: str) -> int:
    names = [entry["name"] for entry in entries]
    if name not in names:
        raise NotFoundError(Message("node_not_in_registry", node=name, nodes=Several(tuple(names), len(names))))
    return names.index(name)


def _rewrite(path: Path, change: _Change, check: Check, told: Told) -> Nodes:
    path = Path(os.path.realpath(path))
    try:
        with _turn(path), _alone(path):
            before = json_file.read_bytes(path, cure=MISSING_CURE)
            after, nodes = _changed(path, before, change, check)
            if after != before:
                _replace(path, before, after)
            told(nodes)
            return nodes
    except OSError as error:
        raise StorageError(Message("registry_not_written", path=str(path), said=error.strerror)) from None


def _changed(path: Path, before: bytes, change: _Change, check: Check) -> tuple[bytes, Nodes]:
    """The file's new bytes and what they say. Raises ConfigError for a file that was wrong, BadRequestError for a
    change that would make it so."""
    entries = entries_of(before, path)
    parse_registry(entries, path)
    bom = json_file.BOM if before.startswith(json_file.BOM) else b""
    after = bom + change(before.removeprefix(bom).decode(), entries).encode()
    try:
        nodes = parse_registry(entries_of(after, path), path)
        check(nodes)
    except ConfigError as error:
        raise BadRequestError(str(error).removeprefix(f"{path}: ")) from None
    return after, nodes


@contextmanager
def _turn(path: Path) -> Iterator[None]:
    """TURN, unless who has it hangs: reading a file on a network file system may never come back."""
    if not TURN.acquire(timeout=LOCK_S):
        raise StorageError(Message("registry_hangs", path=str(path)))
    try:
        yield
    finally:
        TURN.release()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """The lock of the file itself: none is left behind, and it works where the folder is on NFS."""
    deadline = time.monotonic() + LOCK_S
    while True:
        fd = _open(path)
        try:
            if _try_lock(fd) and _is_still(path, fd):
                yield
                return
        finally:
            os.close(fd)
        if time.monotonic() > deadline:
            raise ConflictError(Message("registry_locked", path=str(path)))
        time.sleep(_LOOK_S)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file; {MISSING_CURE}") from None
    except OSError:
        # A file that nobody may write into can be replaced all the same, where its folder takes new files.
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(path: Path, fd: int) -> bool:
    """Whether who had the lock before us replaced the file: then ours is the lock of a file that is gone."""
    with suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(fd))
    return False


def _replace(path: Path, before: bytes, after: bytes) -> None:
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    try:
        _write(beside, path, after)
        if path.read_bytes() != before:
            raise ConflictError(Message("registry_changed", path=str(path)))
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _write(draft: Path, path: Path, data: bytes) -> None:
    like = path.stat()
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        _give_away(fd, like, path)
        os.fchmod(fd, stat.S_IMODE(like.st_mode))
        file.write(data)
        file.flush()
        os.fsync(fd)


def _give_away(fd: int, like: os.stat_result, path: Path) -> None:
    own = os.fstat(fd)
    if (own.st_uid, own.st_gid) == (like.st_uid, like.st_gid):
        return
    try:
        os.fchown(fd, like.st_uid, like.st_gid)
    except PermissionError:
        raise StorageError(Message("registry_not_ours", path=str(path), user=like.st_uid, group=like.st_gid)) from None


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
