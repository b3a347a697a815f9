"""Changing gpu_slaver_info.json as a person would: one entry, and everything else stays as it was written.

Owns how the file is replaced: one writer at a time, checked before it takes the place of the old one, whole or not at
all, with its mode and owner. `registry` knows what an entry may hold; the caller knows who must hear of the change.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from master.edited_files import json_file, json_text, replaced_file
from master.nodes.registry import MISSING_CURE, TURN, NodeConfig, entries_of, parse_registry
from wire.errors import BadRequestError, ConfigError, ConflictError, NotFoundError, StorageError
from wire.file_fault import fault_of
from wire.message import Message, Several

LOCK_S = replaced_file.LOCK_S
"""How long another caller may hold the lock."""

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


def write(path: Path, change: replaced_file.Change, keep: Callable[[bytes], None], *, check: Check, told: Told) -> None:
    """Put a whole registry in the place of the one that is there, be that right or wrong. `keep` is given what stood
    there. Raises BadRequestError for what is no registry, and as `replaced_file.rewrite` does."""
    found: list[Nodes] = []

    def changed(before: bytes) -> bytes:
        after = change(before)
        found.append(typed(path, after, check))
        return after

    with _turn(path):
        replaced_file.rewrite(path, changed, cure=MISSING_CURE, keep=keep)
        told(found[0])


def typed(path: Path, data: bytes, check: Check = _nobody) -> Nodes:
    """Parse these bytes as a registry. Raises BadRequestError if they are none."""
    try:
        nodes = parse_registry(entries_of(data, path), path)
        check(nodes)
    except ConfigError as error:
        raise BadRequestError(fault_of(path, error)) from None
    return nodes


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
        with _turn(path), replaced_file.alone(path, MISSING_CURE):
            before = json_file.read_bytes(path, cure=MISSING_CURE)
            after, nodes = _changed(path, before, change, check)
            if after != before:
                replaced_file.replace(path, before, after)
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
    return after, typed(path, after, check)


@contextmanager
def _turn(path: Path) -> Iterator[None]:
    """TURN, unless who has it hangs: reading a file on a network file system may never come back."""
    if not TURN.acquire(timeout=LOCK_S):
        raise StorageError(Message("registry_hangs", path=str(path)))
    try:
        yield
    finally:
        TURN.release()
