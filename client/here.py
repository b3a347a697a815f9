"""The current folder, by the paths that lead to it."""

from __future__ import annotations

import os

from client.refusals import coded_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def here() -> list[str]:
    """The current folder: by the path on which the shell came to it, if that still leads here, and without links.
    Raises BadRequestError if it was deleted."""
    said = _text(os.environb.get(b"PWD", b""))
    try:
        physical = _text(os.getcwdb())
    except FileNotFoundError:
        if said.startswith("/"):
            raise coded_error("bad_request", "folder_deleted", path=said) from None
        raise coded_error("bad_request", "current_folder_deleted") from None
    is_plain = said.startswith("/") and not {"", ".", ".."} & set(said[1:].split("/"))
    if said == physical or not is_plain:
        return [physical]
    try:
        is_same = os.path.samestat(os.stat(said.encode(errors="surrogateescape")), os.stat("."))
    except OSError:
        is_same = False
    return [said, physical] if is_same else [physical]


def _text(path: bytes) -> str:
    """Names of files are UTF-8 to the master and the nodes, whatever the locale here."""
    return path.decode(errors="surrogateescape")


def within(paths: Iterable[str], folders: Iterable[str]) -> str | None:
    """The first of the paths that lies in one of the folders, or is one."""
    tops = [top.rstrip("/") for top in folders]
    return next((path for path in paths for top in tops if path == top or path.startswith(f"{top}/")), None)
