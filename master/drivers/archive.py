"""The agent as one file that runs on any Python 3.8: a zip of `monitor/agent` and the files of `wire` it needs, each
with its byte code for the Python that runs here; any other Python takes the sources.

It owns which files travel and that the same sources and the same Python give the same bytes. It imports nothing of
`monitor`: the files are found, not loaded. The zip is written here, for it is made at each start: `zipfile`, and what
it loads, takes three times as long, and whoever restarts a master waits for that.
"""

from __future__ import annotations

import hashlib
import importlib.util
import marshal
import os
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from struct import Struct
from types import CodeType
from typing import cast
from zlib import crc32

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
"""What an entry says of itself: version 2.0, no flags, stored, at midnight of the first of January 1980."""
_UNIX, _MODE = 20 | 3 << 8, 0o644 << 16
_ENTRY, _OF_ENTRY, _END = Struct("<4s5H3I2H"), Struct("<4sH5H3I5H2I"), Struct("<4s4H2IH")


def build() -> tuple[str, bytes]:
    """The agent's version and the archive's bytes. The version is a digest of the sources alone (16 hex digits), so it
    is the same whichever Python the master has. Raises FileNotFoundError."""
    for number in range(256):
        sys.intern(chr(number))  # Python 3.11 has one of each, and marshal writes whether anybody has interned it
    paths = _sources()
    files = {name: path.read_bytes() for name, path in paths.items()}
    version = hashlib.sha256(_SHEBANG + _zip({**files, "__main__.py": _MAIN})).hexdigest()[:16]
    files["__main__.py"] = _MAIN.replace(b"VERSION", version.encode("ascii"))
    files.update({f"{name}c": _byte_code(name, path, files[name]) for name, path in paths.items()})
    return version, _SHEBANG + _zip(files)


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
    or compiles it and keeps it there where it may."""
    code = cast("CodeType", SourceFileLoader(name, str(path)).get_code(name))
    # Read once more, for code that was just compiled is written a little differently from code that was read.
    same = marshal.dumps(marshal.loads(marshal.dumps(_placed(code, f"{_PLACE}/{name}"))))  # noqa: S302  (our own)
    return MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source) + same


def _placed(code: CodeType, path: str) -> CodeType:
    """The same code, as if it had been compiled from this path: where the package is installed shall not matter."""
    inner = tuple(_placed(one, path) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_filename=path, co_consts=inner)


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"the package {package} is not installed, so no agent can be made of it")
    return Path(next(iter(spec.submodule_search_locations)))


def _zip(files: dict[str, bytes]) -> bytes:
    """Stored, not deflated: a bare Python may lack zlib, and zlibs differ in their output."""
    entries, index, at = [], [], 0
    for name, data in sorted(files.items()):
        what = (*_STORED, crc32(data), len(data), len(data), len(name), 0)
        entry = _ENTRY.pack(b"PK\3\4", *what) + name.encode("ascii") + data
        index.append(_OF_ENTRY.pack(b"PK\1\2", _UNIX, *what, 0, 0, 0, _MODE, at) + name.encode("ascii"))
        entries.append(entry)
        at += len(entry)
    listed = b"".join(index)
    count = len(index)
    return b"".join(entries) + listed + _END.pack(b"PK\5\6", 0, 0, count, count, len(listed), at, 0)
