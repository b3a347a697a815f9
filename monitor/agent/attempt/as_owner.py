"""Making a command's process its owner's, where the agent is root: what only root can do is done first, then all rights
are dropped, and everything else (folder, log, program) is touched as the owner.

It owns that order, and what the shim is told of it: the log, open, so that root need never follow a path to it.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import struct
from contextlib import suppress
from typing import Any, Dict, List

from wire import account

from . import blame, cwd, given_files, log_open, log_place

_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0x4000)  # PyPy does not name it


def take_on(launch: Dict[str, Any], roots: List[str], orders: socket.socket) -> Dict[str, str]:
    """Become the owner, in its folder, with its log open; gives the variables to begin with. Raises StartError."""
    owner = _owner(launch)
    path = launch["log_path"]
    for needed in (launch["cwd"], path):
        _check_root(needed, roots)
    is_labs = launch["log_folder"] == os.path.dirname(path)
    place = log_place.prepare(path, owner) if is_labs else log_place.Place(None)
    given_files.leave(launch, owner)
    _become(owner)
    if place.top is not None:
        log_place.make_as_owner(place.top, owner)
    os.umask(launch["login"]["umask"])
    cwd.enter(launch["cwd"], [])  # what is denied here is denied to the owner, on whatever node
    said = place.said + (f"muster: {launch['login']['fault']}\n" if launch["login"]["fault"] else "")
    own = None if place.top is None else log_place.open_own(place.top, owner)
    if own is not None:
        path = os.path.join(launch["log_folder"], owner.name, os.path.basename(path))
        log_open.take(log_open.open_log_in(own, path, roots, new=launch["log_new"], said=said))
    else:
        is_in_reach = is_labs and os.access(launch["log_folder"], os.X_OK)
        is_new = launch["log_new"] and is_labs
        roots, instead_of = roots if is_in_reach else [], launch["placed_instead_of"]
        log_open.take(log_open.open_log(path, roots, new=is_new, said=said, own=is_labs, instead_of=instead_of))
    tell(orders, {"run_as": owner.name, "uid": owner.uid, "log_path": path})
    return {**owner.variables(), **launch["login"]["variables"]}


def hear(orders: socket.socket) -> Dict[str, Any]:
    """In the shim, once the command runs: what its process told, and `log`, a descriptor, and `read`, one to read it
    by, or -1; empty where it told nothing."""
    size = struct.calcsize("i")
    try:
        data, rights, _, _ = orders.recvmsg(65536, socket.CMSG_SPACE(2 * size), socket.MSG_DONTWAIT)
    except OSError:
        return {}
    if not data or not rights:
        return {}
    handed = struct.unpack(f"{len(rights[0][2]) // size}i", rights[0][2][: len(rights[0][2]) // size * size])
    for fd in handed:
        os.set_inheritable(fd, False)  # noqa: FBT003  (the standard library's signature)
    return {**json.loads(data), "log": handed[0], "read": handed[1] if len(handed) > 1 else -1}


def tell(orders: socket.socket, told: Dict[str, Any]) -> None:
    """In the process that becomes the command, once its log is open: whose it is, and the log. Raises OSError where
    the shim is gone."""
    handed = [1]
    with suppress(OSError):  # it may be one that nobody can read
        if stat.S_ISREG(os.fstat(1).st_mode):
            handed.append(os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(handed)}i", *handed))]
    orders.sendmsg([json.dumps(told).encode("ascii")], rights, _NO_SIGNAL)


def _owner(launch: Dict[str, Any]) -> account.Account:
    try:
        return account.find(launch["run_as"], launch["run_as_allowed"])
    except account.AccountError as error:
        raise blame.StartError(str(error)) from None


def _become(owner: account.Account) -> None:
    try:
        account.become(owner)
    except account.AccountError as error:
        raise blame.StartError(str(error), blame.NODE if error.is_nodes else blame.TASK) from None


def _check_root(path: str, roots: List[str]) -> None:
    """As for the agent's own commands, but that root may be nobody there: what it may not see can be there."""
    root = blame.outermost(path, roots)
    try:
        os.stat(root or "/")
    except PermissionError:
        return
    except OSError:
        blame.check_root(path, roots)
