"""The agent as one file that runs on any Python 3.8: a zip of `monitor/agent` and the files of `wire` it needs.

It owns which files travel and that the same sources give the same bytes. It imports nothing of `monitor`: the files
are found, not loaded.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import zipfile
from pathlib import Path

_MAIN = b"""import signal
import sys

if sys.argv[1:2] == ["report"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C of whoever started it, until it hears that itself

from agent.main import main

sys.exit(main(sys.argv[1:]))
"""
_SHEBANG = b"#!/usr/bin/env python3\n"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


def build() -> tuple[str, bytes]:
    """The archive's digest (16 hex digits of its SHA-256) and its bytes. Raises FileNotFoundError."""
    files = {"__main__.py": _MAIN}
    agent = _folder("monitor") / "agent"
    for path in agent.rglob("*.py"):
        name = path.relative_to(agent).as_posix()
        if name != "__main__.py":
            files[f"agent/{name}"] = path.read_bytes()
    for name in ("__init__.py", "agent.py", "framing.py", "pinning.py"):
        files[f"wire/{name}"] = (_folder("wire") / name).read_bytes()
    data = _SHEBANG + _zip(files)
    return hashlib.sha256(data).hexdigest()[:16], data


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"the package {package} is not installed, so no agent can be made of it")
    return Path(next(iter(spec.submodule_search_locations)))


def _zip(files: dict[str, bytes]) -> bytes:
    """Stored, not deflated: a bare Python may lack zlib, and zlibs differ in their output."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _LONG_AGO)
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name])
    return buffer.getvalue()
