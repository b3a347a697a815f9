"""The verb that reads logs: byte ranges as they are, or collapsed; with `wait_s`, as soon as there is more to read."""

from __future__ import annotations

import base64
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from master.core.task import ENDED
from master.files.log_desk import LogDesk, Piece
from master.verbs.base import Context
from wire.errors import BadRequestError

MAX_READ = 1 << 20
MAX_WAIT_S = 30.0
Offset = Annotated[int, Meta(ge=-(1 << 62), le=1 << 62)]


class Read(msgspec.Struct, forbid_unknown_fields=True):
    """log.read: of a task, or the master's own. A negative `offset` counts from the end; sizes are bytes.

    `collapse`: of each line only what its last carriage return left; `limit` is then how much is enough. `wait_s`: if
    there is nothing to read, wait so long for it; collapsed, nothing but the `seen` first bytes of the file.
    """

    id: Annotated[int, Meta(ge=1)] | None = None
    server: bool = False
    offset: Offset = 0
    limit: Annotated[int, Meta(ge=0, le=MAX_READ)] = MAX_READ
    collapse: bool = False
    wait_s: Annotated[float, Meta(ge=0, le=MAX_WAIT_S)] = 0.0
    seen: Offset | None = None


async def read(context: Context, params: Read) -> dict[str, Any]:
    """A piece of a log. `ended`: nothing will be added to it any more. `warning`: what looks wrong with the task."""
    desk = LogDesk.of(context.engine)
    path, ended, piece = await _read(context, desk, params)
    seen = piece.offset if params.seen is None else params.seen
    if params.wait_s and not ended and not piece.data and piece.size == piece.end == seen:
        await desk.grown(path, seen, params.id, params.wait_s)
        path, ended, piece = await _read(context, desk, params)
    answer = {"data": _base64(piece.data), "offset": piece.offset, "size": piece.size, "ended": ended, "path": path}
    if params.collapse:
        answer.update(rest=_base64(piece.rest), next=piece.next)
    if params.id is not None:
        answer["warning"] = context.core.warning(context.core.find(params.id))
    return answer


async def _read(context: Context, desk: LogDesk, params: Read) -> tuple[str, bool, Piece]:
    if params.server:
        path, ended = context.master.server_log, False
    elif params.id is None:
        raise BadRequestError("say whose log: `id`, or `server`")
    else:
        task = context.core.find(params.id)
        # Looked up before the file is read: what was written before the end is then in what we read.
        path, ended = task.log_path, task.state in ENDED
    within = None if params.server or context.peer.is_ours else _folders(context)
    return path, ended, await desk.read(path, params.offset, params.limit, collapsed=params.collapse, within=within)


def _folders(context: Context) -> tuple[str, ...]:
    """Where people may see files: a log elsewhere is shown to the master's own user only."""
    files = context.master.files
    return (context.master.log_folder, *(f"{files.root}/{name}" for name in files.jail.beneath.visible))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
