"""Of which code a task runs a copy, as a line."""

from __future__ import annotations

from client.text.quantities import counted, size_text
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.shapes import Snapshot

_ABBREVIATED = 10
"""Digits of a commit that are shown, as git does."""


def snapshot_line(taken: Snapshot) -> str:
    """`143 files, 1.2 MB of /home/ann/net at 1a2b3c4d5e, with changes`."""
    files = f"{counted(taken['files'], 'file')}, {size_text(taken['bytes'])}"
    commit = f" at {taken['commit'][:_ABBREVIATED]}" if taken["commit"] else ""
    changed = ", with changes" if taken["changed"] else ""
    return harmless(f"{files} of {taken['of']}{commit}{changed}")
