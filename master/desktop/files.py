"""The desktop client's requests about files: its paths from home to those of the verbs, its lists and texts back.

The client builds each path from what it was answered, so what is answered is normalised: no slash at the end, no dots.
The verbs say which files may be reached.
"""

from __future__ import annotations

import base64
import binascii
import posixpath
from functools import partial
from typing import Any, Literal

import msgspec

from master.desktop.calls import Kind, Reply, read_form
from master.files.errors import NotEmptyError
from master.verbs.call import Calls
from wire.errors import BadRequestError, LimitError

MOST_SHOWN = 8 << 20
"""Bytes of a file that is opened: what is shown can be saved, so it is shown whole or not at all."""
PIECE = 1 << 20
LISTED_AT_ONCE = 10_000
MOST_LISTED = 50_000
"""Entries of a folder that are shown, hidden ones counted."""
UNREADABLE = "the request could not be read: "
LIMIT_S = 40.0
DELETE_LIMIT_S = 120.0


class Save(msgspec.Struct):
    """save_file: a whole file, in base64."""

    path: str
    content: str


class Operate(msgspec.Struct):
    """file_operate: make or rename something in the folder `root`."""

    mode: Literal["mkdir", "touch", "mv"]
    root: str
    name: str
    old_name: str | None = None


def roots(calls: Calls, _info: Any) -> Reply:
    """get_root: the top folders that people share."""
    calls.check("file.roots")
    return "ret_root", list(calls.master.config.visible_folders)


async def folder(calls: Calls, info: Any) -> Reply:
    """get_folder: names only. A path that is no folder, or may not be seen, leads back to the top."""
    path = _path(info)
    if not path:
        return _empty(info, "")
    kinds: dict[str, list[str]] = {"folder": [], "file": []}
    after = ""
    for _ in range(0, MOST_LISTED, LISTED_AT_ONCE):
        listing = await calls.ask("file.list", {"path": path, "after": after, "limit": LISTED_AT_ONCE})
        for entry in listing.entries:
            if entry.kind in kinds and not entry.hidden:
                kinds[entry.kind].append(entry.name)
        if not (listing.truncated and listing.entries):
            break
        after = listing.entries[-1].name
    return "ret_folder", {**kinds, "curr_path": f"/{path}"}


async def read(calls: Calls, info: Any) -> Reply:
    """get_file: a text, whole."""
    path = _path(info)
    data = b""
    while True:
        piece = await calls.ask("file.read", {"path": path, "offset": len(data), "limit": PIECE})
        data += piece.data
        if piece.size > MOST_SHOWN:
            raise LimitError(f"{path} has {piece.size} bytes; more than {MOST_SHOWN} are not opened")
        if len(data) >= piece.size or not piece.data:
            break
    try:
        data.decode()
    except UnicodeDecodeError:
        raise BadRequestError(f"{path} is no text") from None
    content = base64.b64encode(data).decode("ascii")
    return "ret_file", {"file_name": f"~{info}", "content": content, "state": "success"}


async def save(calls: Calls, info: Any) -> Reply:
    """save_file: readers see the old content or the new."""
    wanted = read_form(info, Save, UNREADABLE)
    try:
        # Some encoders cut what they write into lines.
        data = base64.b64decode("".join(wanted.content.split()), validate=True)
    except (binascii.Error, ValueError):
        raise BadRequestError("the content is not base64; nothing was written") from None
    await calls.ask("file.write", {"path": _path(wanted.path), "content": data})
    return "ret_save_file", "success"


async def operate(calls: Calls, info: Any) -> Reply:
    """file_operate: a new folder, a new file, another name."""
    wanted = read_form(info, Operate, UNREADABLE)
    target = _inside(wanted.root, wanted.name)
    if wanted.mode == "mv":
        await calls.ask("file.move", {"from": _inside(wanted.root, wanted.old_name or ""), "to": target})
    else:
        await calls.ask("file.make", {"path": target, "kind": "folder" if wanted.mode == "mkdir" else "file"})
    return "ret_file_operate", "success"


async def delete(calls: Calls, info: Any) -> Reply:
    """rm_file: a file or an empty folder. With nothing selected, which is so after every listing, the client sends the
    folder that it shows: a second press of its button must not take all that is in it."""
    path = _path(info)
    if not path:
        raise BadRequestError("nothing is chosen; the home folder itself is not deleted")
    try:
        await calls.ask("file.delete", {"path": path, "recursive": False})
    except NotEmptyError:
        raise NotEmptyError(f"Directory not empty: '/{path}'") from None
    return "ret_rm_file", "success"


def _path(info: Any) -> str:
    """The client's path as the verbs take it: from the visible folder on; empty for home itself, or above it."""
    if not isinstance(info, str):
        raise BadRequestError(f"a path is a text, not {str(info)[:40]!r}")
    return posixpath.normpath(f"/{info}").strip("/")


def _inside(root: str, name: str) -> str:
    if name in {"", ".", ".."} or "/" in name:
        raise BadRequestError(f"{name!r} is no name of a file or folder: it may not be empty nor hold a /")
    return f"{_path(root)}/{name}"


def _empty(_info: Any, _text: str) -> Reply:
    return "ret_folder", {"folder": [], "file": [], "curr_path": ""}


def _failed(info: Any, _text: str) -> Reply:
    name = info if isinstance(info, str) else ""
    return "ret_file", {"file_name": f"~{name}", "content": "", "state": "failed"}


def _no_roots(_info: Any, _text: str) -> Reply:
    return "ret_root", []


def _text(mode: str, _info: Any, text: str) -> Reply:
    return mode, text


KINDS: dict[str, Kind] = {
    "get_root": Kind(roots, _no_roots),
    "get_folder": Kind(folder, _empty, limit_s=LIMIT_S),
    "get_file": Kind(read, _failed, limit_s=LIMIT_S),
    "save_file": Kind(save, partial(_text, "ret_save_file"), changes=True, limit_s=LIMIT_S),
    "file_operate": Kind(operate, partial(_text, "ret_file_operate"), changes=True, limit_s=LIMIT_S),
    "rm_file": Kind(delete, partial(_text, "ret_rm_file"), changes=True, limit_s=DELETE_LIMIT_S),
}
