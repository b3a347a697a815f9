"""The record of an attempt, made anew of what is known after it was lost or damaged: by its shim that lives, and by
what the master wrote down of it.

It owns the lines. `keeper` decides which shim is asked, and what follows.
"""

from __future__ import annotations

import os
import pwd
import time
from contextlib import suppress
from typing import Any, Dict, List, Optional

from .. import tree
from . import record
from .living import LiveShim

Message = Dict[str, Any]


def lines(
    launch_id: str, boot_id: str, live: Optional[LiveShim], main: Optional[tree.Process], told: Message
) -> List[record.Line]:
    """The claim and, if there was one, the start. `main`: the command, if it lives; `told`: of `wire.agent.Lost`, empty
    where the master has not been asked."""
    claim = {"is": "claim", "anew": True, "launch_id": launch_id, "boot_id": boot_id, "at": time.time(), "log_path": ""}
    claim.update(shim=live.shim.pid if live else 0, shim_start=live.shim.start if live else 0)
    pid, start = (main.pid, main.start) if main is not None else (told.get("pid"), told.get("pid_start"))
    if not pid:
        return [claim]
    begun = {"is": "start", "pid": pid, "pid_start": start, "at": told.get("started_at") or _began(main)}
    return [claim, {**begun, **_owner(main, told)}]


def begun(main: tree.Process) -> record.Line:
    """The start of a command that is seen only now."""
    start = {"is": "start", "pid": main.pid, "pid_start": main.start, "at": _began(main)}
    return {**start, **_owner(main, {})}


def _owner(main: Optional[tree.Process], told: Message) -> Message:
    """Return whose attempt it is, where that is not the agent's own account."""
    uid = tree.real_uid(main.pid) if main is not None else None
    if told.get("run_as"):
        with suppress(KeyError):
            uid = pwd.getpwnam(told["run_as"]).pw_uid
        return {"run_as": told["run_as"], "log_path": told.get("log_path", ""), "uid": uid}
    if main is None or uid in (None, os.geteuid()):
        return {}
    try:
        return {"run_as": pwd.getpwuid(uid).pw_name, "log_path": os.readlink(f"/proc/{main.pid}/fd/1"), "uid": uid}
    except (KeyError, OSError):
        return {"uid": uid}


def _began(main: Optional[tree.Process]) -> float:
    """When it began, in seconds since the epoch, as the kernel counts."""
    if main is None:
        return time.time()
    with open("/proc/uptime", "rb") as file:
        up = float(file.read().split()[0])
    return time.time() - max(0.0, up - main.start / os.sysconf("SC_CLK_TCK"))
