"""How a file of this package is written: whole, synced, and for nobody else to read."""

from __future__ import annotations

import os
from pathlib import Path

_SECRET = 0o600


def write_secret(path: Path, data: bytes) -> None:
    """Replace a file that only we may read. Raises OSError."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _SECRET)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)
    draft.replace(path)
