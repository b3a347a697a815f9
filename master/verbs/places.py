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
from master.files.beneath import Beneath
from master.verbs.access import who
from master.verbs.base import Context
from master.views.messages import MessageView, message_view
from wire.errors import MusterError, NotFoundError
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
        look = _Look(root, context.master.files.seen_by(who(context.caller)).jail.beneath)
        missing = await context.master.files.quick.call(root, lambda _tick: _missing(params, look, conda))
    except MusterError:
        missing = []  # nobody asked about the storage, and the task's own start will tell
    return Missing(list(map(str, missing)), list(map(message_view, missing)))


def _missing(params: Places, look: _Look, conda: str) -> list[Message]:
    found = []
    if look.is_shared(params.cwd) and look.is_absent(params.cwd):
        found.append(Message("folder_absent", path=params.cwd))
    env = params.env
    if env.startswith("/"):
        absent = look.is_shared(env) and look.is_absent(f"{env}/bin/activate")
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


class _Look:
    """What somebody is told of places in the folder `root`."""

    def __init__(self, root: str, beneath: Beneath) -> None:
        self._root = root.rstrip("/") + "/"
        self._beneath = beneath

    def is_shared(self, path: str) -> bool:
        """Is it what every machine has? Of the master's own disk nobody is told."""
        return path.startswith("/") and (os.path.normpath(path) + "/").startswith(self._root)

    def is_absent(self, path: str) -> bool:
        """Is it not there, as far as he may see? `path` is a shared one."""
        if self._beneath.sight is None:
            return _is_absent(path)
        try:
            spot = self._beneath.spot(os.path.normpath(path).removeprefix(self._root))
        except MusterError:
            return _is_absent(path)  # it has no owner
        try:
            with self._beneath.find(spot, follow=True) as found:
                os.stat(found.name, dir_fd=found.folder, follow_symlinks=False)
        except NotFoundError:
            return True
        except MusterError:
            return False
        return False
