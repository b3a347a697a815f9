"""Which environment `--env` means: the name of one of the lab's, or the absolute path of one, as the master takes it.

A path may be said from the current folder (`./venv`, `../shared/venv`) or from one's home (`~/venv`). A plain name is
the lab's environment of that name, and where there is none an environment of that name in the current folder. It is the
same for `submit`, `run`, `edit` and `env`.
"""

from __future__ import annotations

import os

from client.here import here, within
from client.refusals import coded_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

_FILES = ("bin/activate", "pyvenv.cfg")
_FOLDER = "conda-meta"
"""One of these is in every environment; other folders may have any name, and be no environment."""


def resolved(context: Context, said: str) -> str:
    """The environment as the master takes it. Raises BadRequestError for what no node could have."""
    check_not_windows("--env", said)
    if not said or said.startswith("/"):
        return os.path.normpath(said) if said else said
    if said.startswith("~"):
        return at_home(context, "--env", said)
    if "/" in said or said in (".", ".."):
        return os.path.normpath(os.path.join(_folder(context, said), said))
    return _named(context, said)


def at_home(context: Context, option: str, said: str) -> str:
    """A path from a home folder. Raises BadRequestError where the home is another one than on the nodes."""
    found = os.path.expanduser(said)
    if not context.address.same_machine:
        raise coded_error("bad_request", "home_of_this_pc", option=option, path=said)
    if not found.startswith("/"):
        raise coded_error("bad_request", "home_of_nobody", option=option, path=said)
    return os.path.normpath(found)


def check_not_windows(option: str, said: str) -> None:
    """Raise BadRequestError for a path of Windows, with a drive or a server in front: nodes run Linux."""
    has_drive = said[:1].isascii() and said[:1].isalpha() and said[1:3] in (":\\", ":/")
    if has_drive or said.startswith("\\\\"):
        raise coded_error("bad_request", "path_of_windows", option=option, path=said)


def _named(context: Context, name: str) -> str:
    """A name is the lab's, so that a folder never changes what it means; said where both are there."""
    if not _is_environment(name):
        return name
    folder = _seen(context)
    if folder is None:
        return name
    from wire.message import Message

    path = os.path.normpath(os.path.join(folder, name))
    if _is_of_the_lab(context, name):
        context.note(Message("env_of_lab_meant", env=name))
        return name
    context.note(Message("env_of_folder_meant", path=path))
    return path


def _is_environment(folder: str) -> bool:
    """Is it one that a task could activate?"""
    has_file = any(os.path.isfile(os.path.join(folder, name)) for name in _FILES)
    return has_file or os.path.isdir(os.path.join(folder, _FOLDER))


def _is_of_the_lab(context: Context, name: str) -> bool:
    """Has the lab an environment of this name, as far as the master tells?"""
    from wire.errors import BadRequestError, MusterError

    context.client.session.connect()
    try:
        notes = context.client.preflight(env=name)
    except BadRequestError:
        return False  # no environment of the lab can have such a name
    except MusterError:
        return True  # a master from before this question
    return all(note["key"] != "env_absent" for note in notes)


def _folder(context: Context, said: str) -> str:
    """The current folder, by a path that nodes know. Raises BadRequestError."""
    folder = _seen(context)
    if folder is None:
        raise coded_error("bad_request", "env_folder_unseen", env=said, folder=here()[0])
    return folder


def _seen(context: Context) -> str | None:
    """The current folder, if the master sees it: on the same machine by the path under `root`, if there is one."""
    found = here()
    if not context.address.same_machine:
        return within(found, context.client.info().get("visible_folders", []))
    if len(found) > 1:
        return within(found, [context.client.info().get("root") or "/"]) or found[-1]
    return found[-1]
