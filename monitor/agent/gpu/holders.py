"""The owners of the processes on a GPU: their user, and the attempt of ours that they belong to.

It owns looking into /proc for that, and remembers what it found: most processes are there for many samples. A process
is ours when it, or one that it descends from, carries the launch id of an attempt that this agent has claimed.
"""

from __future__ import annotations

import os
import pwd
from typing import Any, Dict, NamedTuple, Optional, Set

from .. import tree
from ..attempt import record

NAME_PATIENCE_S = 0.5
"""So long a directory service has to tell a user's name; after that it goes out as a number, until the answer comes."""
DEEPEST = 64
_MARK = f"\0{tree.MARK}=".encode()


class _Known(NamedTuple):
    """`sure`: whether a second look would find nothing else."""

    start: int
    uid: Optional[int]
    launch_id: str
    sure: bool


class Holders:
    """`attempts`: the folder of claims."""

    def __init__(self, attempts: str) -> None:
        self._attempts = attempts
        self._known: Dict[int, _Known] = {}
        self._seen: Set[int] = set()
        self._strange: Set[int] = set()
        self._names = _Names()

    def process(self, pid: int, memory_mib: Optional[int]) -> Optional[Dict[str, Any]]:
        """As `wire.agent.Process`; None for one that ended while it was looked at.

        A driver that goes on listing a pid that does not exist here tells of another pid namespace: that is foreign.
        """
        self._seen.add(pid)
        found = tree.look(pid)
        known = self._known.get(pid)
        if found is None and known is None and not _exists(pid):
            if pid not in self._strange:
                self._strange.add(pid)
                return None
        elif found is not None and (known is None or known.start != found.start or not known.sure):
            # The owner of a process may not be readable in the moment in which it starts a program.
            again = known is not None and known.start == found.start
            launch_id = self._launch_id(pid)
            known = self._known[pid] = _Known(found.start, tree.real_uid(pid), launch_id, sure=again or bool(launch_id))
        if known is None:
            return {"pid": pid, "user": "", "memory_mib": memory_mib, "launch_id": ""}
        user = "" if known.uid is None else self._names.of(known.uid)
        return {"pid": pid, "user": user, "memory_mib": memory_mib, "launch_id": known.launch_id}

    def forget_others(self) -> None:
        """A reading is complete: forget the processes that were not asked for since the last one."""
        self._known = {pid: known for pid, known in self._known.items() if pid in self._seen}
        self._strange &= self._seen
        self._seen = set()

    def _launch_id(self, pid: int) -> str:
        """Of the nearest process upwards that carries one of ours; "" if there is none."""
        for _ in range(DEEPEST):
            launch_id = self._carried(pid)
            if launch_id:
                return launch_id
            found = tree.look(pid)
            if found is None or found.parent <= 1:
                return ""
            pid = found.parent
        return ""

    def _carried(self, pid: int) -> str:
        """The launch id in the environment of a process; that of another Muster, an invented one, or one of somebody
        else's, is nothing."""
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environ = b"\0" + file.read()
        except OSError:
            return ""  # gone, or another user's
        launch_id = os.fsdecode(environ.partition(_MARK)[2].partition(b"\0")[0])
        is_name = launch_id not in {"", ".", ".."} and "/" not in launch_id
        is_ours = is_name and os.path.isdir(os.path.join(self._attempts, launch_id))
        if not is_ours:
            return ""
        uid = record.uid_of(self._attempts, launch_id)
        return launch_id if tree.real_uid(pid) == (os.geteuid() if uid is None else uid) else ""


class _Names:
    """The names of users. Asking may hang for long where a directory service is away, so a thread asks."""

    def __init__(self) -> None:
        self._found: Dict[int, str] = {}
        self._asking: Set[int] = set()

    def of(self, uid: int) -> str:
        """The name, or the number while nobody tells it."""
        import threading  # noqa: PLC0415  (only the fork that reads GPUs needs it, and every shim would carry it)

        if uid not in self._found and uid not in self._asking:
            self._asking.add(uid)
            thread = threading.Thread(target=self._ask, args=(uid,), daemon=True)
            thread.start()
            thread.join(NAME_PATIENCE_S)
        return self._found.get(uid, str(uid))

    def _ask(self, uid: int) -> None:
        try:
            self._found[uid] = pwd.getpwuid(uid).pw_name
        except KeyError:
            self._found[uid] = str(uid)
        finally:
            self._asking.discard(uid)


def _exists(pid: int) -> bool:
    """Also where /proc hides other people's processes (hidepid)."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
