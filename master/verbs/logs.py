"""The verb that reads logs, in byte ranges. Files are read in a thread: a hung NFS must not stop the loop."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from master.task import ENDED
from master.verbs.base import Context
from wire.errors import BadRequestError, ConflictError

MAX_READ = 1 << 20


class Read(msgspec.Struct, forbid_unknown_fields=True):
    """log.read: of a task, or the master's own. A negative `offset` counts from the end; sizes are bytes."""

    id: Annotated[int, Meta(ge=1)] | None = None
    server: bool = False
    offset: Annotated[int, Meta(ge=-(1 << 62), le=1 << 62)] = 0
    limit: Annotated[int, Meta(ge=0, le=MAX_READ)] = MAX_READ


async def read(context: Context, params: Read) -> dict[str, Any]:
    """A piece of a log. `ended`: nothing will be added to it any more."""
    if params.server:
        path, ended = context.master.server_log, False
    elif params.id is None:
        raise BadRequestError("say whose log: `id`, or `server`")
    else:
        task = context.core.find(params.id)
        # Looked up before the file is read: what was written before the end is then in what we read.
        path, ended = task.log_path, task.state in ENDED
    offset, size, data = await asyncio.to_thread(_read, path, params.offset, params.limit)
    encoded = base64.b64encode(data).decode("ascii")
    return {"data": encoded, "offset": offset, "size": size, "ended": ended, "path": path}


def _read(path: str, offset: int, limit: int) -> tuple[int, int, bytes]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0, 0, b""
    except OSError as error:
        raise ConflictError(f"the log {path} cannot be read: {error.strerror}") from None
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise ConflictError(f"the log {path} is not a regular file")
        start = max(info.st_size + offset, 0) if offset < 0 else offset
        return start, info.st_size, os.pread(fd, limit, start)
    finally:
        os.close(fd)
