"""The shims that stand over an attempt, found without any file of the state folder: who begins anew may find nothing
there of what runs.

A shim is a fork of an agent of this folder, of our account, that leads a session of its own and has the record of its
attempt open. The kernel goes on telling the name of that record after it was removed or moved away.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Dict, List, NamedTuple, Optional

from .. import tree
from ..folder import Folder

_RECORD = re.compile(r".*/([A-Za-z0-9_-][A-Za-z0-9._-]{0,63})/record(?: \(deleted\))?\Z", re.DOTALL)


class LiveShim(NamedTuple):
    """A shim, and the command that it began, if there is one by now."""

    shim: tree.Process
    main: Optional[tree.Process]


def shims(folder: Folder) -> Dict[str, LiveShim]:
    """By launch id those of this folder's agents, of whatever version."""
    processes = tree.everyone()
    held: Dict[int, str] = {}
    for process in processes.values():
        if process.session == process.pid and process.state not in "ZX" and _is_fork(process.pid, folder):
            launch_id = _stands_over(process.pid)
            if launch_id:
                held[process.pid] = launch_id
    # A command before its exec holds the record, too; its shim stands above it.
    found = {pid: launch_id for pid, launch_id in held.items() if processes[pid].parent not in held}
    return {launch_id: LiveShim(processes[pid], _main(pid, held, processes)) for pid, launch_id in found.items()}


def main_of(shim: int) -> Optional[tree.Process]:
    """The command that this shim began."""
    return _main(shim, {}, tree.everyone())


def _is_fork(pid: int, folder: Folder) -> bool:
    """Was it begun as an agent of this folder, by our account?"""
    words = tree.command_line(pid).split(b"\0")
    if pid == os.getpid() or words[-3:-2] != [b"--state"] or os.path.abspath(os.fsdecode(words[-2])) != folder.path:
        return False
    return tree.real_uid(pid) == os.getuid()


def _stands_over(pid: int) -> str:
    """The launch id of the record that this process has open; "" for none."""
    with suppress(OSError):  # it ended meanwhile
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                found = _RECORD.match(os.readlink(f"/proc/{pid}/fd/{name}"))
                if found:
                    return found.group(1)
    return ""


def _main(shim: int, held: Dict[int, str], processes: Dict[int, tree.Process]) -> Optional[tree.Process]:
    """Of the shim's children the first that leads a session of its own; what it left behind may have fallen to it."""
    own = tree.command_line(shim)
    children: List[tree.Process] = [
        process
        for process in processes.values()
        if process.parent == shim and process.session == process.pid and process.pid not in held
    ]
    begun = [process for process in children if process.state not in "ZX" and tree.command_line(process.pid) != own]
    return min(begun, key=lambda process: process.start) if begun else None
