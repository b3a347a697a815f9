"""The agent's memory of one attempt, and how it is told to the master. Data only: no disk, no processes."""

from __future__ import annotations

import os
from typing import Any, Dict, FrozenSet, List, Optional, Set, Tuple

from ..tree import Trace
from . import given_files
from .record import FOUND, Line

CLAIMED, RUNNING, ENDED = "claimed", "running", "ended"
GIVEN_LENGTH = 4096
"""Characters that are told of what a launch said."""


class Attempt:
    """One launch id. `ours`: its shim is our own child. `durable`: its end is on disk."""

    __slots__ = (
        "at",
        "cause",
        "cgroups",
        "code",
        "doubt",
        "durable",
        "error",
        "fault",
        "found",
        "given",
        "given_files",
        "grace_s",
        "grown",
        "home",
        "kill_asked",
        "kill_at",
        "launch_id",
        "lock",
        "log_bytes",
        "log_limit",
        "log_path",
        "members",
        "orphan",
        "ours",
        "paused",
        "pid",
        "pid_start",
        "run_as",
        "seen",
        "shim",
        "shim_start",
        "started_at",
        "state",
        "strict",
        "uid",
        "unproven",
    )  # fmt: skip

    def __init__(self, launch_id: str) -> None:
        self.launch_id = launch_id
        self.state = CLAIMED
        self.pid: Optional[int] = None
        self.pid_start: Optional[int] = None
        self.started_at: Optional[float] = None
        self.code: Optional[int] = None
        self.cause = ""
        self.error = ""
        self.fault = ""
        self.found: Dict[str, Any] = {}
        """All else that is known of its end."""
        self.at: Optional[float] = None
        self.shim = 0
        self.shim_start = 0
        self.ours = False
        self.durable = False
        self.seen = 0
        """Bytes of the record when it was last read."""
        self.grown = 0
        """Bytes of the record when it was last looked at."""
        self.orphan = False
        """The shim is dead without an exit: we watch the tree."""
        self.lock: Optional[int] = None
        self.log_bytes = self.log_limit = 0
        """Of a log that is near its limit."""
        self.run_as = self.log_path = ""
        self.uid: Optional[int] = None
        """Of one that runs as its owner."""
        self.given: Dict[str, str] = {}
        """Facts from its launch, see `wire.agent.LaunchSaid`."""
        self.given_files: List[str] = []
        """Where what its launch brought lies, its token and the like."""
        self.members: Set[Tuple[int, int]] = set()
        """Pid and start of the processes that were seen to be of its tree."""
        self.strict = False
        """Its record was lost and made anew: see `Trace`."""
        self.doubt = False
        """Nothing here says which processes are its; the master may know."""
        self.unproven: List[int] = []
        """The pids of all that may be of it, where nothing that lives is proven to be."""
        self.cgroups: FrozenSet[bytes] = frozenset()
        self.home = ""
        """See `Trace`."""
        self.paused = False
        """All of its tree was seen to stand still."""
        self.kill_asked = False
        self.grace_s = 0.0
        self.kill_at: Optional[float] = None

    def take(self, line: Line) -> bool:
        """Learn from a line of the record or of a report. Whether it was news that the master must hear."""
        kind = line.get("is")
        if self.state == ENDED:
            return False
        if kind == "claim":
            self.shim, self.shim_start = line["shim"], line["shim_start"]
            self.given_files = list(given_files.paths(line).values())
            self.given.update(said(line.get("gpus"), line.get("name"), line.get("log_path")))
            self.strict = self.strict or line.get("anew") is True
            self.home = str(line.get("home", ""))
        elif kind == "start" and self.state == CLAIMED:
            self.state, self.started_at = RUNNING, line["at"]
            self.pid, self.pid_start = line["pid"], line["pid_start"]
            self.run_as, self.log_path = line.get("run_as", ""), line.get("log_path", "")
            self.uid = line.get("uid")
            return True
        elif kind == "log" and self.state == RUNNING and line["bytes"] != self.log_bytes:
            self.log_bytes, self.log_limit = line["bytes"], line["limit"]
            return True
        elif kind == "exit":
            self.state, self.code, self.cause, self.error = ENDED, line["code"], line["cause"], line["error"]
            self.at, self.fault = line["at"], line.get("fault", "")
            self.found = {key: line[key] for key in FOUND if key in line}
            self.started_at = line["started_at"] if line["started_at"] is not None else self.started_at
            return True
        return False

    def news(self) -> Optional[Dict[str, Any]]:
        """The message that tells where it stands: `started`, `exit`, or None for a bare claim."""
        if self.state == RUNNING:
            told = {"launch_id": self.launch_id, "pid": self.pid, "pid_start": self.pid_start}
            return {"op": "started", **told, "at": self.started_at, **self._more(), **self._owner()}
        if self.state == ENDED:
            return {"op": "exit", **self._end()}
        return None

    def trace(self) -> Trace:
        """By what its tree is known."""
        uid = os.geteuid() if self.uid is None else self.uid
        known = (self.launch_id, self.pid, self.pid_start, self.members)
        return Trace(*known, uid, self.strict, self.cgroups, self.home)

    def entry(self) -> Dict[str, Any]:
        """Its entry in an inventory."""
        known = {"state": self.state, "pid": self.pid, "pid_start": self.pid_start, **self._end(), **self._more()}
        if self.state != ENDED:
            known.update(self.given)
        if self.doubt and self.state != ENDED:
            known["doubt"] = True
        return {**known, "unproven": self.unproven} if self.unproven else known

    def _more(self) -> Dict[str, Any]:
        log = {"log_bytes": self.log_bytes, "log_limit": self.log_limit} if self.log_limit else {}
        return {**log, "paused": True} if self.paused and self.state == RUNNING else log

    def _owner(self) -> Dict[str, Any]:
        return {"run_as": self.run_as, "log_path": self.log_path} if self.run_as else {}

    def _end(self) -> Dict[str, Any]:
        return {
            "launch_id": self.launch_id,
            "code": self.code,
            "cause": self.cause,
            "error": self.error,
            "fault": self.fault,
            "started_at": self.started_at,
            "at": self.at,
            **self.found,
            **self._owner(),
        }


def said(gpus: Any, name: Any, log: Any) -> Dict[str, str]:
    """Return the facts of a launch as `wire.agent.LaunchSaid`. An empty text for `gpus` means no GPU; if a record was
    made anew, the other texts are empty. A name that is too long is cut; GPUs and a path with a part missing would be
    others."""
    told = {"gpus": gpus, "name": name[:GIVEN_LENGTH] if isinstance(name, str) else None, "log": log}
    known = {key: one for key, one in told.items() if isinstance(one, str) and (one or key == "gpus")}
    return {key: one for key, one in known.items() if len(one) <= GIVEN_LENGTH}
