"""The files that a launch brings along: the token of a task that submits others, and the hosts of one on several nodes,
as mpirun reads them. Each is for the account alone as which the task runs, and no longer there than its attempt.

A task of the agent's own account finds them in its claim, in the agent's folder, which nobody else can enter. One that
runs as its owner cannot enter that folder either: its files lie beneath RUN, in folders of root's that one may pass
through and not look into. They are made by root, who follows no link there, before root becomes the owner.
"""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from typing import Any, Dict, Iterable, List, NamedTuple, Optional

from wire import account
from wire.agent import HOST_FILE, TOKEN_FILE

from . import blame

RUN = "/run/muster-tasks"
"""In memory, on most machines: nothing of it is in a backup."""
_PASSAGE = 0o711
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_TRIES = 20


class Given(NamedTuple):
    """One such file. `key`: of the launch that brings its text; `path`: under which the launch, and the claim, say
    where it lies; `name`: in the claim; `owners`: what stands behind the launch id in the name of an owner's (no launch
    id has a `~`); `variable`: by which the task finds it; `what`: what it is called; `is_ascii`: it has no other
    letters."""

    key: str
    path: str
    name: str
    owners: str
    variable: str
    what: str
    is_ascii: bool = False


GIVEN = (
    Given("token", "token_file", "token", "", TOKEN_FILE, "token", is_ascii=True),
    Given("hosts", "host_file", "hosts", "~hosts", HOST_FILE, "list of hosts"),
)


def wrong(message: Dict[str, Any]) -> Optional[str]:
    """Return the problem with the files that a launch brings, None if there is none. Where the files lie is not for it
    to say."""
    for one in GIVEN:
        message.pop(one.path, None)
        text = message.setdefault(one.key, "")
        if not isinstance(text, str) or (one.is_ascii and not text.isascii()):
            return f"{one.key} is not text"
    return None


def brings_any(message: Dict[str, Any]) -> bool:
    """Are there to be any?"""
    return any(message[one.key] for one in GIVEN)


def place(message: Dict[str, Any], attempts: str, state_id: str) -> None:
    """Say in a launch where its files will lie. `attempts`: the folder of claims; `state_id`: of the agent's folder,
    for a machine may have several."""
    launch_id = message["launch_id"]
    for one in GIVEN:
        if message[one.key]:
            owners = f"{RUN}/{state_id}/{launch_id}{one.owners}"
            message[one.path] = owners if "login" in message else f"{attempts}/{launch_id}/{one.name}"


def leave(launch: Dict[str, Any], owner: Optional[account.Account] = None) -> None:
    """Write the files, if there are to be some: the agent's own, or, as root, the owner's. Raises StartError."""
    for one in GIVEN:
        path = launch.get(one.path)
        if path is None:
            continue
        try:
            _write(path, launch[one.key].encode("utf-8") + b"\n", owner)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            where = f"on {socket.gethostname()} ({os.path.dirname(path)})"
            raise blame.StartError(f"the task's {one.what} cannot be written {where}: {why}", blame.NODE) from None


def variables(launch: Dict[str, Any]) -> Dict[str, str]:
    """By which the task finds them."""
    return {one.variable: launch[one.path] for one in GIVEN if one.path in launch}


def paths(line: Dict[str, Any]) -> Dict[str, str]:
    """Where they lie, as a launch or a claim says it, by its keys."""
    return {one.path: line[one.path] for one in GIVEN if line.get(one.path)}


def remove(files: Iterable[str]) -> None:
    """They are there no more, nor are folders of ours that nothing is left in."""
    left: List[str] = []
    for path in files:
        with suppress(OSError):
            os.unlink(path)
        if path.startswith(f"{RUN}/"):
            left.append(os.path.dirname(path))
    for folder in left:
        with suppress(OSError):  # others have files there
            os.rmdir(folder)
            os.rmdir(RUN)


def _write(path: str, data: bytes, owner: Optional[account.Account]) -> None:
    above, name = os.path.split(path)
    fd = os.open(path, _NEW, 0o600) if owner is None else _open_for_owner(above, name)
    try:
        os.fchmod(fd, 0o600)
        os.write(fd, data)
        if owner is not None:
            os.fchown(fd, owner.uid, owner.gid)
    finally:
        os.close(fd)


def _open_for_owner(above: str, name: str) -> int:
    """Empty folders are removed by the ends of others' attempts, so one that was there a moment ago is made again."""
    for _ in range(_TRIES):
        try:
            folder = _passage(above)
        except FileNotFoundError:
            continue
        try:
            return os.open(name, _NEW, 0o600, dir_fd=folder)
        except FileNotFoundError:
            continue
        finally:
            os.close(folder)
    raise FileNotFoundError(2, os.strerror(2))


def _passage(path: str) -> int:
    """The folder, open, made where it is missing. Raises OSError, ValueError for one that is not root's alone."""
    base, own = os.path.split(path)
    top = _step(None, base)
    try:
        return _step(top, own)
    finally:
        os.close(top)


def _step(above: Optional[int], name: str) -> int:
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=above)
    folder = os.open(name, _FOLDER, dir_fd=above)
    found = os.fstat(folder)
    if found.st_uid != os.geteuid():
        os.close(folder)
        raise ValueError(f"{name} is of uid {found.st_uid}: remove it")
    if stat.S_IMODE(found.st_mode) != _PASSAGE:
        os.fchmod(folder, _PASSAGE)
    return folder
