"""The agent as one file that runs on any Python 3.8: a zip of `monitor/agent` and the files of `wire` it needs. It is
made twice: of the sources alone, and with the byte code of each for the Python that runs here.

It owns which files travel and that the same sources and the same Python give the same bytes. It imports nothing of
`monitor`: the files are found, not loaded. Only the version is known at once. The rest takes time and is made when it
is first needed: a master that is restarted finds its agents running. The zip is written here because `zipfile`, with
its imports, takes three times as long.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import sys
from collections.abc import Callable, Iterable
from importlib.machinery import PathFinder, SourceFileLoader
from io import BytesIO
from pathlib import Path
from struct import Struct
from threading import Lock
from types import CodeType
from typing import cast
from zlib import compress, crc32

import msgspec

_MAIN = b"""import signal
import sys

if sys.argv[1:2] == ["report"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C of whoever started it, until it hears that itself

from agent.main import main

sys.exit(main(sys.argv[1:], "VERSION"))
"""
_UNCHECKED = (1).to_bytes(4, "little")
"""The flags of a hash-based `.pyc` (PEP 552) that is not compared with its source, which lies in the same file."""
_PLACE = "muster-agent"
"""Where tracebacks say that the sources are; lines are shown from the archive."""
_SHEBANG = b"#!/usr/bin/env python3\n"
_STORED = (20, 0, 0, 0, 1 << 5 | 1)
"""The fixed fields of an entry: version 2.0, no flags, stored, dated 1 January 1980 at midnight."""
_UNIX, _MODE = 20 | 3 << 8, 0o644 << 16
_ENTRY, _OF_ENTRY, _END = Struct("<4s5H3I2H"), Struct("<4sH5H3I5H2I"), Struct("<4s4H2IH")


class Pack:
    """One file with an agent. Threads may ask at the same time; it is made once."""

    def __init__(self, make: Callable[[], bytes]) -> None:
        self._make = make
        self._made: dict[str, bytes] = {}
        self._lock = Lock()

    @property
    def data(self) -> bytes:
        """All of it."""
        return self._once("data", self._make)

    @property
    def checksum(self) -> str:
        """Its SHA-256 in hex."""
        data = self.data
        return self._once("sha256", lambda: hashlib.sha256(data).digest()).hex()

    @property
    def packed(self) -> bytes:
        """The same in zlib's format, for the way to a machine."""
        data = self.data
        return self._once("packed", lambda: compress(data))

    def _once(self, name: str, make: Callable[[], bytes]) -> bytes:
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            return self._made[name]


class Archive(msgspec.Struct, frozen=True):
    """An agent, as two files. `version`: a digest of the sources alone (16 hex digits), so it is the same whichever
    Python the master has."""

    version: str
    sources: Pack
    """Without byte code: as small as it can be where nothing is compressed."""
    compiled: Pack
    """With byte code for the Python that runs here; another Python takes the sources, which are in it, too."""


def build() -> Archive:
    """The agent that this master gives to machines. Raises FileNotFoundError."""
    paths = _sources()
    files = {name: path.read_bytes() for name, path in paths.items()}
    digest = hashlib.sha256(_MAIN)
    for name, data in sorted(files.items()):
        digest.update(b"%s %d\n%s" % (name.encode("ascii"), len(data), data))
    version = digest.hexdigest()[:16]
    whole = {**files, "__main__.py": _MAIN.replace(b"VERSION", version.encode("ascii"))}

    def compiled() -> bytes:
        for number in range(256):
            sys.intern(chr(number))  # Python 3.11 has one of each, and marshal writes whether anybody has interned it
        names = sorted([*whole, *(f"{name}c" for name in paths)])
        return _zip((name, whole[name] if name in whole else code_of(name[:-1])) for name in names)

    def code_of(name: str) -> bytes:
        return _byte_code(name, paths[name], files[name])

    return Archive(version, Pack(lambda: _zip(sorted(whole.items()))), Pack(compiled))


def _sources() -> dict[str, Path]:
    """The files that travel, by their names in the archive."""
    found = {}
    monitor, wire = _folder("monitor"), _folder("wire")
    for folder, _, names in os.walk(monitor / "agent"):
        within = os.path.relpath(folder, monitor)
        found.update({f"{within}/{name}": Path(folder, name) for name in names if name.endswith(".py")})
    del found["agent/__main__.py"]
    for name in ("__init__.py", "account.py", "agent.py", "framing.py", "pinning.py"):
        found[f"wire/{name}"] = wire / name
    return found


def _byte_code(name: str, path: Path, source: bytes) -> bytes:
    """The `.pyc` of a source. Python's own loader takes the code from `__pycache__` as for an import of the master's,
    or compiles it and keeps it there where it may. It is not asked where the file has changed since the start."""
    from importlib.util import MAGIC_NUMBER, source_hash  # noqa: PLC0415  (a start needs none of its imports)

    code = _kept_code(name, path) if _is(path, source) else None
    if code is None or not _is(path, source):
        code = compile(source, str(path), "exec", dont_inherit=True)
    # Read once more, for code that was just compiled is written a little differently from code that was read.
    same = marshal.dumps(marshal.loads(marshal.dumps(_placed(code, f"{_PLACE}/{name}"))))  # noqa: S302  (our own)
    return MAGIC_NUMBER + _UNCHECKED + source_hash(source) + same


def _kept_code(name: str, path: Path) -> CodeType | None:
    """None if what is in `__pycache__` was torn by a power cut, or the source is just being replaced."""
    try:
        return cast("CodeType", SourceFileLoader(name, str(path)).get_code(name))
    except (OSError, EOFError, ImportError, SyntaxError, TypeError, ValueError):
        return None


def _is(path: Path, source: bytes) -> bool:
    try:
        return path.read_bytes() == source
    except OSError:
        return False


def _placed(code: CodeType, path: str) -> CodeType:
    """The same code, as if it had been compiled from this path: where the package is installed shall not matter."""
    inner = tuple(_placed(one, path) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_filename=path, co_consts=inner)


def _folder(package: str) -> Path:
    spec = PathFinder.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"the package {package} is not installed, so no agent can be made of it")
    return Path(next(iter(spec.submodule_search_locations)))


def _zip(files: Iterable[tuple[str, bytes]]) -> bytes:
    """Stored, not deflated: a bare Python may lack zlib, and zlibs differ in their output. It is written into one
    buffer, which is the result: once a copy of a megabyte has been freed, the C library keeps up to two that are free.
    """
    archive, index, at = BytesIO(), [], 0
    archive.write(_SHEBANG)
    for name, data in files:
        what = (*_STORED, crc32(data), len(data), len(data), len(name), 0)
        index.append(_OF_ENTRY.pack(b"PK\1\2", _UNIX, *what, 0, 0, 0, _MODE, at) + name.encode("ascii"))
        at += archive.write(_ENTRY.pack(b"PK\3\4", *what) + name.encode("ascii")) + archive.write(data)
    size = sum(map(archive.write, index))
    archive.write(_END.pack(b"PK\5\6", 0, 0, len(index), len(index), size, at, 0))
    return archive.getvalue()
