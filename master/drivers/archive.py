"""The agent as one file that runs on any Python 3.8: a zip of `monitor/agent` and the files of `wire` it needs.

It owns which files travel and that the same sources give the same bytes. It imports nothing of `monitor`: the files are
found, not loaded. The zip is written here because it is made at each start: `zipfile`, with its imports, takes three
times as long, and a restart of the master waits for it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from pathlib import Path
from struct import Struct
from zlib import crc32

_MAIN = b"""import signal
import sys

if sys.argv[1:2] == ["report"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C of whoever started it, until it hears that itself

from agent.main import main

sys.exit(main(sys.argv[1:]))
"""
_SHEBANG = b"#!/usr/bin/env python3\n"
_STORED = (20, 0, 0, 0, 1 << 5 | 1)
"""The fixed fields of an entry: version 2.0, no flags, stored, dated 1 January 1980 at midnight."""
_UNIX, _MODE = 20 | 3 << 8, 0o644 << 16
_ENTRY, _OF_ENTRY, _END = Struct("<4s5H3I2H"), Struct("<4sH5H3I5H2I"), Struct("<4s4H2IH")


def build() -> tuple[str, bytes]:
    """The archive's digest (16 hex digits of its SHA-256) and its bytes. Raises FileNotFoundError."""
    files = {"__main__.py": _MAIN}
    monitor, wire = _folder("monitor"), _folder("wire")
    for folder, _, names in os.walk(monitor / "agent"):
        within = os.path.relpath(folder, monitor)
        files.update((f"{within}/{name}", Path(folder, name).read_bytes()) for name in names if name.endswith(".py"))
    del files["agent/__main__.py"]
    for name in ("__init__.py", "account.py", "agent.py", "framing.py", "pinning.py"):
        files[f"wire/{name}"] = (wire / name).read_bytes()
    data = _SHEBANG + _zip(files)
    return hashlib.sha256(data).hexdigest()[:16], data


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
