"""The verb that reads logs: byte ranges as they are, or collapsed; with `wait_s`, as soon as there is more to read."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from master.core.task import ENDED
from master.files.log_file import Own
from master.files.log_reader import LogReader, Piece
from master.verbs.access import who
from master.verbs.archived import find
from master.verbs.base import Context
from master.verbs.tasks import TaskId
from wire.errors import BadRequestError, ForbiddenError
from wire.message import Message

MAX_READ = 1 << 20
MAX_WAIT_S = 30.0
Offset = Annotated[int, Meta(ge=-(1 << 62), le=1 << 62)]


class Read(msgspec.Struct, forbid_unknown_fields=True):
    """log.read: that of the task `id`, or the master's own (`server`), which is for admins once there are users. A
    negative `offset` counts from the end; `limit` is at most 1 MiB; sizes are bytes.

    `collapse`: of each line only what its last carriage return left; `limit` is then how much is enough. `wait_s`, up
    to 30 seconds: if there is nothing to read, wait so long for it, and answer as soon as there is more; collapsed,
    nothing but the `seen` first bytes of the file.
    """

    id: Annotated[TaskId | None, Meta(examples=[12])] = None
    server: bool = False
    offset: Offset = 0
    limit: Annotated[int, Meta(ge=0, le=MAX_READ)] = MAX_READ
    collapse: bool = False
    wait_s: Annotated[float, Meta(ge=0, le=MAX_WAIT_S)] = 0.0
    seen: Offset | None = None


class LogPiece(msgspec.Struct):
    """A piece of a log: `data` (base64) stands from `offset`. `size`: bytes of the whole file; `ended`: nothing will be
    added to it any more; `path`: where it lies.

    Collapsed also `rest` (base64), the state of the line without an end, and `next`, the offset at which to read on.
    Of a task also `warning`, what looks wrong with it or null, and `missing`: it has written the log, and it is gone.
    """

    data: bytes
    offset: int
    size: int
    ended: bool
    path: str
    rest: bytes | UnsetType = UNSET
    next: int | UnsetType = UNSET
    warning: str | UnsetType | None = UNSET
    missing: bool | UnsetType = UNSET


async def read(context: Context, params: Read) -> LogPiece:
    """Read a piece of a log, of a task or the master's own."""
    logs = context.master.logs
    path, ended, piece = await _read(context, logs, params)
    seen = piece.offset if params.seen is None else params.seen
    if params.wait_s and not ended and not piece.data and piece.size == piece.end == seen:
        await logs.grown(path, seen, params.id, params.wait_s)
        path, ended, piece = await _read(context, logs, params)
    answer = LogPiece(piece.data, piece.offset, piece.size, ended, path)
    if params.collapse:
        answer.rest, answer.next = piece.rest, piece.next
    if params.id is not None:
        task = await find(context, params.id)
        answer.warning = context.core.warning(task)
        answer.missing = piece.missing and task.started_at is not None
    return answer


async def _read(context: Context, logs: LogReader, params: Read) -> tuple[str, bool, Piece]:
    if params.server:
        if context.core.people.is_shared and context.caller.role != "admin":
            raise ForbiddenError(Message("server_log_for_admins"))
        path, ended = context.master.server_log, False
    elif params.id is None:
        raise BadRequestError(Message("which_log"))
    else:
        task = await find(context, params.id)
        # Looked up before the file is read: what was written before the end is then in what we read.
        path, ended = task.log_path, task.state in ENDED
    within = None if params.server or context.caller.is_ours else _folders(context)
    sight = None if within is None else context.master.files.owners.sight(who(context.caller))
    if sight is not None:
        sight = sight.from_slash(str(context.master.files.root))
    own = None if context.caller.owns_all or params.server else Own(context.master.log_folder, f"{params.id}.log")
    piece = await logs.read(
        path, params.offset, params.limit, collapsed=params.collapse, within=within, sight=sight, own=own
    )
    return path, ended, piece


def _folders(context: Context) -> tuple[str, ...]:
    """Where people may see files: a log elsewhere is shown to the master's own user only."""
    files = context.master.files
    return (context.master.log_folder, *(f"{files.root}/{name}" for name in files.jail.beneath.visible))
