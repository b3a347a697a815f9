"""The verbs about files beneath the visible folders. Each is done in a thread: the loop never waits for a disk.

Paths begin with a visible folder; content is base64. Owns what each verb takes and gives; what it may reach and how it
is done is `master.files.jail`'s.
"""

from __future__ import annotations

import base64
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from master.files.jail import MAX_ENTRIES, MAX_READ, Entry, Listing
from master.files.upload import Begun
from master.verbs.base import Context, Nothing

Path = Annotated[str, Meta(min_length=1, max_length=8192)]
Size = Annotated[int, Meta(ge=0, le=1 << 62)]
Mode = Annotated[int, Meta(ge=0, le=0o777)]


class List(msgspec.Struct, forbid_unknown_fields=True):
    """file.list: what is in a folder; `after`: only names after this one."""

    path: Path
    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_ENTRIES)] = MAX_ENTRIES


class One(msgspec.Struct, forbid_unknown_fields=True):
    """file.stat: one path."""

    path: Path


class Read(msgspec.Struct, forbid_unknown_fields=True):
    """file.read: a negative `offset` counts from the end; sizes are bytes."""

    path: Path
    offset: Annotated[int, Meta(ge=-(1 << 62), le=1 << 62)] = 0
    limit: Annotated[int, Meta(ge=0, le=MAX_READ)] = MAX_READ


class Write(msgspec.Struct, forbid_unknown_fields=True):
    """file.write: a whole file. `create`: also where there is none; `overwrite`: also where there is one; `mode`: the
    rights of a new one."""

    path: Path
    content: bytes
    create: bool = True
    overwrite: bool = True
    mode: Mode | None = None


class Make(msgspec.Struct, forbid_unknown_fields=True):
    """file.make: an empty file or a folder. `parents`: the folders above it too, and what is there is fine."""

    path: Path
    kind: Literal["folder", "file"]
    parents: bool = False


class Transfer(msgspec.Struct, forbid_unknown_fields=True):
    """file.move, file.copy: `to` is the new path itself, not a folder to put it into."""

    source: Path = msgspec.field(name="from")
    target: Path = msgspec.field(name="to")
    overwrite: bool = False


class Delete(msgspec.Struct, forbid_unknown_fields=True):
    """file.delete: a folder with things in it only if `recursive`."""

    path: Path
    recursive: bool = False


class UploadBegin(msgspec.Struct, forbid_unknown_fields=True):
    """file.upload_begin: a file of `size` bytes; with `upload` go on with that one. `mode`: of a new file."""

    path: Path
    size: Size
    overwrite: bool = True
    upload: str | None = None
    mode: Mode | None = None


class UploadPiece(msgspec.Struct, forbid_unknown_fields=True):
    """file.upload_piece: the bytes from `offset`."""

    path: Path
    upload: str
    offset: Size
    content: bytes


class UploadCommit(msgspec.Struct, forbid_unknown_fields=True):
    """file.upload_commit: all `size` bytes are there; put the file in its place."""

    path: Path
    upload: str
    size: Size
    overwrite: bool = True


class UploadCancel(msgspec.Struct, forbid_unknown_fields=True):
    """file.upload_cancel: it will not be finished."""

    path: Path
    upload: str


async def roots(context: Context, _params: Nothing) -> dict[str, Any]:
    """The visible folders, and what their paths are relative to."""
    files = context.master.files
    found = await files.quick.call("the visible folders", lambda _tick: files.jail.roots())
    return {"root": str(files.root), "folders": [{"name": name, "exists": exists} for name, exists in found]}


async def list_folder(context: Context, params: List) -> Listing:
    """A folder's entries, in the order of their names."""
    files = context.master.files
    return await files.call(params.path, lambda: files.jail.list(params.path, after=params.after, limit=params.limit))


async def stat(context: Context, params: One) -> Entry:
    """What a path leads to."""
    files = context.master.files
    return await files.call(params.path, lambda: files.jail.stat(params.path))


async def read(context: Context, params: Read) -> dict[str, Any]:
    """A piece of a file. `mtime_ns` tells whether it is still the same file."""
    files = context.master.files

    def work() -> dict[str, Any]:
        piece = files.jail.read_piece(params.path, params.offset, params.limit)
        data = base64.b64encode(piece.data).decode("ascii")
        return {**msgspec.structs.asdict(piece), "data": data}

    return await files.call(params.path, work)


async def write(context: Context, params: Write) -> dict[str, Any]:
    """Write a file whole, at one instant."""
    files = context.master.files
    await files.call(
        params.path,
        lambda: files.jail.write(
            params.path, params.content, overwrite=params.overwrite, create=params.create, mode=params.mode
        ),
    )
    return {"size": len(params.content)}


async def make(context: Context, params: Make) -> dict[str, Any]:
    """Make a folder or an empty file."""
    jail = context.master.files.jail

    def work() -> None:
        if params.kind == "file":
            if params.parents and "/" in params.path.strip("/"):
                jail.make_folder(params.path.rstrip("/").rpartition("/")[0], parents=True)
            jail.make_file(params.path)
        else:
            jail.make_folder(params.path, parents=params.parents)

    await context.master.files.call(params.path, work)
    return {}


async def move(context: Context, params: Transfer) -> dict[str, Any]:
    """Give it another path."""
    files = context.master.files
    files.jail.beneath.spot(params.target)
    await files.call_long(
        params.source,
        lambda tick: files.jail.move(params.source, params.target, overwrite=params.overwrite, tick=tick),
    )
    return {}


async def copy(context: Context, params: Transfer) -> Any:
    """Copy a file, or a folder with all in it; what was copied."""
    files = context.master.files
    files.jail.beneath.spot(params.target)
    return await files.call_long(
        params.source,
        lambda tick: files.jail.copy(params.source, params.target, overwrite=params.overwrite, tick=tick),
    )


async def delete(context: Context, params: Delete) -> dict[str, Any]:
    """Delete; how many entries went."""
    files = context.master.files
    gone = await files.call_long(
        params.path, lambda tick: files.jail.delete(params.path, recursive=params.recursive, tick=tick)
    )
    return {"deleted": gone}


async def upload_begin(context: Context, params: UploadBegin) -> Begun:
    """Begin an upload, or go on with one."""
    files = context.master.files
    files.sweep()
    return await files.call(
        params.path,
        lambda: files.uploads.begin(
            params.path, params.size, overwrite=params.overwrite, upload=params.upload, mode=params.mode
        ),
    )


async def upload_piece(context: Context, params: UploadPiece) -> dict[str, Any]:
    """Take a piece; how many bytes are there then."""
    files = context.master.files
    received = await files.call(
        params.path,
        lambda: files.uploads.piece(params.path, params.upload, params.offset, params.content),
    )
    return {"received": received}


async def upload_commit(context: Context, params: UploadCommit) -> Entry:
    """Put the uploaded file in its place."""
    files = context.master.files
    return await files.call(
        params.path,
        lambda: files.uploads.commit(params.path, params.upload, params.size, overwrite=params.overwrite),
    )


async def upload_cancel(context: Context, params: UploadCancel) -> dict[str, Any]:
    """Forget an upload."""
    files = context.master.files
    await files.call(params.path, lambda: files.uploads.cancel(params.path, params.upload))
    return {}
