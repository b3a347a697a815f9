"""The credentials of the programs around the master: those that only report to others, such as the writer of metrics,
and the console, which calls for its users.

They run as the master's own account, so by the kernel's answer they would be admins. Each needs few permissions, so
each begins with a token of its own, which outranks that answer: made anew at each start of the master, kept in a file
for its account alone, and in no journal.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from master.people import tokens

Service = Literal["metrics", "web"]
NAMES: tuple[Service, ...] = ("metrics", "web")
FOLDER = "services"
"""In `task_info`."""


class Services:
    """`known`: of each service the SHA-256 of its secret, by the id of its token."""

    def __init__(self, known: Mapping[str, tuple[Service, str]] = MappingProxyType({})) -> None:
        self._known = known

    @classmethod
    def begin(cls, task_info: Path) -> Services:
        """Give each service a new secret, in a file of its name. Raises OSError."""
        folder = task_info / FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        known: dict[str, tuple[Service, str]] = {}
        for name in NAMES:
            token_id = f"service{name}"
            made = tokens.make(token_id)
            _write(folder / name, made.text)
            known[token_id] = (name, made.sha256)
        return cls(known)

    def of(self, shown: tokens.Parsed) -> Service | None:
        """Return the service that this token belongs to; None if there is none."""
        name, sha256 = self._known.get(shown.id, (None, ""))
        return name if name is not None and tokens.is_it(shown.secret, sha256) else None


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}")
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, text.encode() + b"\n")
    finally:
        os.close(fd)
    draft.replace(path)
