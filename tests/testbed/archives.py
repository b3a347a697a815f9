"""Archives of the agent as another master would make them."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from pathlib import Path

from master.drivers.agent_archive import Archive, Pack

VERSION = "0123456789abcdef"


def archive_of(compiled: bytes, sources: bytes = b"") -> Archive:
    """One of this content, whatever it is; without `sources` the same for every Python."""
    return Archive(VERSION, Pack(lambda: sources or compiled), Pack(lambda: compiled))


def of_another_version(archive: Path, other: Path, named: Callable[[str], str] = str) -> None:
    """Write one that says another version, `VERSION`; `named` gives each file its name in it."""
    with zipfile.ZipFile(archive) as before, zipfile.ZipFile(other, "w") as after:
        for name in before.namelist():
            data = before.read(name)
            if name == "__main__.py":
                data, changed = re.subn(rb'"[0-9a-f]{16}"', f'"{VERSION}"'.encode(), data)
                assert changed == 1
            after.writestr(named(name), data)


def with_changes(archive: Path, other: Path, changes: dict[str, tuple[bytes, bytes]]) -> None:
    """Write one in which a text of a file, by its name, is another one. Byte code of the former text stays behind."""
    with zipfile.ZipFile(archive) as before, zipfile.ZipFile(other, "w") as after:
        for name in before.namelist():
            if name.endswith(".pyc") and name[:-1] in changes:
                continue
            data = before.read(name)
            old, new = changes.get(name, (b"", b""))
            assert old in data
            after.writestr(name, data.replace(old, new, 1) if old else data)
