"""task.places: which places that a task names cannot be seen from here, so that who submits it hears of it at once.

Only what every machine of the lab has at the same path is looked at: beneath `root`, and environments in the shared
prefix. It decides nothing: a folder may be made before the task starts.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from master.core.activation import is_env_name
from master.verbs.base import Context
from master.views.messages import MessageView, message_view
from wire.errors import MusterError
from wire.message import Message

PathText = Annotated[str, Meta(max_length=4096)]


class Places(msgspec.Struct, forbid_unknown_fields=True):
    """task.places: `cwd` and `env` as in a submit."""

    cwd: PathText = ""
    env: PathText = ""


class Missing(msgspec.Struct, frozen=True):
    """`missing`: what is not there now, a line each, with what to do; `missing_messages`: the same for programs."""

    missing: list[str]
    missing_messages: list[MessageView]


async def places(context: Context, params: Places) -> Missing:
    """What of these places the lab does not have now. A storage that hangs has nothing to say."""
    root, conda = context.master.root, context.master.conda
    try:
        missing = await context.master.files.quick.call(root, lambda _tick: _missing(params, root, conda))
    except MusterError:
        missing = []  # nobody asked about the storage, and the task's own start will tell
    return Missing(list(map(str, missing)), list(map(message_view, missing)))


def _missing(params: Places, root: str, conda: str) -> list[Message]:
    found = []
    if _is_shared(params.cwd, root) and _is_absent(params.cwd):
        found.append(Message("folder_absent", path=params.cwd))
    env = params.env
    if env.startswith("/"):
        absent = _is_shared(env, root) and _is_absent(f"{env}/bin/activate")
    else:
        inside = (f"{conda}/envs/{env}", f"{conda}/bin/activate") if env == "base" else (f"{conda}/envs/{env}",)
        absent = is_env_name(env) and all(map(_is_absent, inside))
    if absent:
        found.append(Message("env_absent", env=env))
    return found


def _is_absent(path: str) -> bool:
    """Nothing is said of what cannot be looked at: the master's account may not be everybody's."""
    try:
        Path(path).stat()
    except OSError as error:
        return error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
    except ValueError:
        return True  # a NUL in it
    return False


def _is_shared(path: str, root: str) -> bool:
    """Is it what every machine has? Of the master's own disk nobody is told."""
    return path.startswith("/") and (os.path.normpath(path) + "/").startswith(root.rstrip("/") + "/")
