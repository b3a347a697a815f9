"""The verbs about files beneath the visible folders. Each is done in a thread: the loop never waits for a disk.

Paths begin with a visible folder; content is base64. Owns what each verb takes and gives; what it may reach and how it
is done is `master.files.jail`'s.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from master.files.jail import MAX_ENTRIES, MAX_READ, Entry, Listing, Piece
from master.files.service import Seen
from master.files.tree import Tally, Tick
from master.files.upload import Begun
from master.helpers.remote import SeenAs
from master.verbs.access import who
from master.verbs.base import Context, Done, Nothing
from master.verbs.task_places import needed_by_tasks

T = TypeVar("T")
Path = Annotated[str, Meta(min_length=1, max_length=8192, examples=["data/run1/model.pt"])]
Content = Annotated[bytes, Meta(examples=["aGVsbG8="])]
Size = Annotated[int, Meta(ge=0, le=1 << 62)]
Mode = Annotated[int, Meta(ge=0, le=0o777)]


class List(msgspec.Struct, forbid_unknown_fields=True):
    """file.list: a folder by its `path`; `after`: only names after this one."""

    path: Path
    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_ENTRIES)] = MAX_ENTRIES


class One(msgspec.Struct, forbid_unknown_fields=True):
    """A path."""

    path: Path


class Read(msgspec.Struct, forbid_unknown_fields=True):
    """file.read: a negative `offset` counts from the end; `limit` is at most 1 MiB; sizes are bytes."""

    path: Path
    offset: Annotated[int, Meta(ge=-(1 << 62), le=1 << 62)] = 0
    limit: Annotated[int, Meta(ge=0, le=MAX_READ)] = MAX_READ


class Write(msgspec.Struct, forbid_unknown_fields=True):
    """file.write: a whole file, `content` in base64, at most 8 MiB of it. `create`: also where there is none;
    `overwrite`: also where there is one; `mode`: the rights of a new one."""

    path: Path
    content: Content
    create: bool = True
    overwrite: bool = True
    mode: Mode | None = None


class Make(msgspec.Struct, forbid_unknown_fields=True):
    """file.make: a `file` is made empty. `parents`: missing folders above it are made, too, and an existing folder is
    no error."""

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
    """file.upload_piece: the bytes from `offset`, in base64; at most as many as `piece` of the beginning said."""

    path: Path
    upload: str
    offset: Size
    content: Content


class UploadCommit(msgspec.Struct, forbid_unknown_fields=True):
    """file.upload_commit: all `size` bytes are there."""

    path: Path
    upload: str
    size: Size
    overwrite: bool = True


class UploadCancel(msgspec.Struct, forbid_unknown_fields=True):
    """file.upload_cancel: which will not be finished."""

    path: Path
    upload: str


class Root(msgspec.Struct, frozen=True):
    """A visible folder. `exists`: it is there now."""

    name: str
    exists: bool


class Roots(msgspec.Struct, frozen=True):
    """The visible `folders`, which every path begins with, and the path of the folder `root` that they lie in."""

    root: str
    folders: list[Root]


class Written(msgspec.Struct, frozen=True):
    """`size`: bytes of the file now."""

    size: int


class Deleted(msgspec.Struct, frozen=True):
    """`deleted`: how many entries went, the folder itself counted."""

    deleted: int


class Received(msgspec.Struct, frozen=True):
    """`received`: bytes of the upload that are there now."""

    received: int


def _seen(context: Context) -> Seen | SeenAs:
    """The files as the caller sees them, with the rights of the caller."""
    caller, acting = context.caller, context.master.acting
    account = None if caller.is_ours else acting.account(context.user)
    if account is None:
        return context.master.files.seen_by(who(caller))
    return acting.seen_by(who(caller), account)


async def roots(context: Context, _params: Nothing) -> Roots:
    """The visible folders, and what their paths are relative to."""
    files = context.master.files
    found = await files.quick.call("the visible folders", lambda _tick: files.jail.roots())
    return Roots(str(files.root), [Root(name, exists) for name, exists in found])


async def list_folder(context: Context, params: List) -> Listing:
    """List the entries of a folder, in the order of names."""
    files, seen = context.master.files, _seen(context)
    return await files.call(
        params.path, lambda: seen.jail.list(params.path, after=params.after, limit=params.limit), seen.whose
    )


async def stat(context: Context, params: One) -> Entry:
    """Return the entry that a path leads to."""
    files, seen = context.master.files, _seen(context)
    return await files.call(params.path, lambda: seen.jail.stat(params.path), seen.whose)


async def read(context: Context, params: Read) -> Piece:
    """Read a piece of a file."""
    files, seen = context.master.files, _seen(context)
    return await files.call(
        params.path, lambda: seen.jail.read_piece(params.path, params.offset, params.limit), seen.whose
    )


async def write(context: Context, params: Write) -> Written:
    """Write a file whole, at one instant."""
    files, seen = context.master.files, _seen(context)
    await files.call(
        params.path,
        lambda: seen.jail.write(
            params.path, params.content, overwrite=params.overwrite, create=params.create, mode=params.mode
        ),
        seen.whose,
    )
    return Written(len(params.content))


async def make(context: Context, params: Make) -> Done:
    """Make a folder or an empty file."""
    seen = _seen(context)
    jail = seen.jail

    def work() -> None:
        if params.kind == "file":
            if params.parents and "/" in params.path.strip("/"):
                jail.make_folder(params.path.rstrip("/").rpartition("/")[0], parents=True)
            jail.make_file(params.path)
        else:
            jail.make_folder(params.path, parents=params.parents)

    await context.master.files.call(params.path, work, seen.whose)
    return Done()


Working: TypeAlias = Generator[None, None, Awaitable[T]]
"""First it is found out in slices what tasks need, then a thread works."""


def move(context: Context, params: Transfer) -> Working[Done]:
    """Give a file or a folder another path."""
    files, seen = context.master.files, _seen(context)
    files.jail.beneath.spot(params.target)
    needed = yield from needed_by_tasks(context)

    def work(tick: Tick) -> Done:
        seen.jail.move(params.source, params.target, overwrite=params.overwrite, tick=tick, needed=needed)
        return Done()

    return files.call_long(params.source, work, seen.whose)


def copy(context: Context, params: Transfer) -> Working[Tally]:
    """Copy a file, or a folder with all in it."""
    files, seen = context.master.files, _seen(context)
    files.jail.beneath.spot(params.target)
    needed = yield from needed_by_tasks(context)
    return files.call_long(
        params.source,
        lambda tick: seen.jail.copy(params.source, params.target, overwrite=params.overwrite, tick=tick, needed=needed),
        seen.whose,
    )


def delete(context: Context, params: Delete) -> Working[Deleted]:
    """Delete a file, or a folder."""
    files, seen = context.master.files, _seen(context)
    needed = yield from needed_by_tasks(context)

    def work(tick: Tick) -> Deleted:
        return Deleted(seen.jail.delete(params.path, recursive=params.recursive, tick=tick, needed=needed))

    return files.call_long(params.path, work, seen.whose)


async def upload_begin(context: Context, params: UploadBegin) -> Begun:
    """Begin an upload, or go on with one."""
    files, seen = context.master.files, _seen(context)
    files.sweep()
    if params.upload is None:
        files.drafts.check_room(who(context.caller).user)
    return await files.call(
        params.path,
        lambda: seen.uploads.begin(
            params.path, params.size, overwrite=params.overwrite, upload=params.upload, mode=params.mode
        ),
        seen.whose,
    )


async def upload_piece(context: Context, params: UploadPiece) -> Received:
    """Send a piece of an upload."""
    files, seen = context.master.files, _seen(context)
    received = await files.call(
        params.path,
        lambda: seen.uploads.piece(params.path, params.upload, params.offset, params.content),
        seen.whose,
    )
    return Received(received)


async def upload_commit(context: Context, params: UploadCommit) -> Entry:
    """Put the uploaded file in its place."""
    files, seen = context.master.files, _seen(context)
    return await files.call(
        params.path,
        lambda: seen.uploads.commit(params.path, params.upload, params.size, overwrite=params.overwrite),
        seen.whose,
    )


async def upload_cancel(context: Context, params: UploadCancel) -> Done:
    """Forget an upload."""
    files, seen = context.master.files, _seen(context)
    await files.call(params.path, lambda: seen.uploads.cancel(params.path, params.upload), seen.whose)
    return Done()
