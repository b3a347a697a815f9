"""Shared code of the commands on files: how a path is typed, and which path a copied or moved file gets."""

from __future__ import annotations

import os

from client.refusals import coded_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from client.cli.context import Context


def remote(path: str) -> str:
    """A path of the master as it was typed, as it is on the wire."""
    if path.isascii() or not any("\ud800" <= char <= "\udfff" for char in path):
        return path
    from wire.names import to_text

    return to_text(os.fsencode(path))


def into(context: Context, sources: list[str], target: str) -> Callable[[str], str]:
    """Where each source goes: into `target` if that is a folder, else (a single one) it becomes `target`. Raises
    BadRequestError when several are to become one."""
    from wire.errors import NotFoundError

    try:
        kind = context.client.files.stat(target.rstrip("/"))["kind"]
    except NotFoundError:
        kind = ""
    if kind == "folder":
        return lambda source: f"{target.rstrip('/')}/{source.rstrip('/').rpartition('/')[2]}"
    if kind and (len(sources) > 1 or target.endswith("/")):
        raise coded_error("bad_request", "target_is_file", path=target.rstrip("/"))
    if len(sources) > 1 or target.endswith("/"):
        raise coded_error("bad_request", "target_no_folder", path=target)
    return lambda _source: target


def needs_r(path: str) -> Exception:
    """Return the error for a folder that is named without -r."""
    return coded_error("bad_request", "folder_without_r", path=path)
