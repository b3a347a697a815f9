"""One attempt's record on the node's disk: `DIR/attempts/LAUNCH_ID/record`, one JSON object per line.

Lines, told apart by `is`: `claim`, `start`, `exit`. The folder is the claim: it is made once, by mkdir. The record's
flock says that somebody may still start or watch the command: the shim holds it, and the command's process until its
exec. A process that finds it free under a claim without an exit owns the end of that attempt. The start needs no sync
(after a power cut the boot id differs); the exit is synced before anybody hears of it. One block holds it all, so that
a disk that fills up later does not keep an exit from being written.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import time
from contextlib import suppress
from typing import Any, Dict, List, Optional, Tuple

from ..folder import Folder
from . import claims

LAUNCH_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}\Z")
FOUND = ("reached", "ran_out", "last_line")
"""The keys that the line of an exit may have besides, see `wire.agent.Found`."""
Line = Dict[str, Any]


class ClaimedError(Exception):
    """Somebody else has this launch id."""


def claim(folder: Folder, launch_id: str) -> int:
    """Take a launch id for this process: the locked descriptor of its empty record.

    Raises ClaimedError, or OSError when the disk does not take it (then nothing is left behind).
    """
    path = os.path.join(folder.attempts, launch_id)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        raise ClaimedError(launch_id) from None
    try:
        fd = lock(folder, launch_id)
    except OSError:
        os.rmdir(path)
        raise
    if fd is None:
        raise ClaimedError(launch_id)
    if os.fstat(fd).st_size:
        os.close(fd)
        raise ClaimedError(launch_id)
    claims.note(folder, b"+", launch_id)
    return fd


def reopen(folder: Folder, launch_id: str) -> Tuple[Optional[int], int]:
    """Of an attempt whose record is damaged or gone the lock, None where somebody else has it, and a descriptor to
    write to the record, which is the same if both are there. A file that is no record is laid aside. Raises OSError."""
    with suppress(ClaimedError):
        fd = claim(folder, launch_id)
        return fd, fd
    try:
        locked = lock(folder, launch_id)
    except (IsADirectoryError, NotADirectoryError, PermissionError):
        _lay_aside(folder, launch_id)
        locked = lock_new(folder, launch_id)
    if locked is not None:
        return locked, locked
    return None, os.open(_path(folder, launch_id), os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)


def regain(folder: Folder, launch_id: str) -> None:
    """Somebody took our right to read or write a record of ours. Raises OSError."""
    os.chmod(os.path.join(folder.attempts, launch_id), 0o700)
    os.chmod(_path(folder, launch_id), 0o600)


def lock_new(folder: Folder, launch_id: str) -> Optional[int]:
    """The lock of a claim that is made now. Raises OSError."""
    os.mkdir(os.path.join(folder.attempts, launch_id), 0o700)
    claims.note(folder, b"+", launch_id)
    return lock(folder, launch_id)


def has_start(lines: List[Line]) -> bool:
    """Whether a record tells all that is needed to know its tree: who claimed it, and how it began or ended."""
    kinds = {line.get("is") for line in lines}
    return "exit" in kinds or {"claim", "start"} <= kinds


def lock(folder: Folder, launch_id: str) -> Optional[int]:
    """The record, opened and locked; None when somebody else holds it. Raises OSError."""
    fd = os.open(_path(folder, launch_id), os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except OSError:
        os.close(fd)
        raise
    return fd


def read(folder: Folder, launch_id: str) -> List[Line]:
    """The whole lines of a record; none where there is no record. A torn line is as if it had not been written."""
    try:
        with open(_path(folder, launch_id), "rb", buffering=0) as file:
            data = file.read() or b""
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = (_parse(line) for line in data.split(b"\n")[:-1])
    return [line for line in found if line is not None]


def read_if_possible(folder: Folder, launch_id: str) -> List[Line]:
    """The same, none also where it cannot be read."""
    try:
        return read(folder, launch_id)
    except OSError:
        return []


def size(folder: Folder, launch_id: str) -> int:
    """Bytes of the record, 0 where there is none."""
    try:
        return os.stat(_path(folder, launch_id)).st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0


def uid_of(attempts: str, launch_id: str) -> Optional[int]:
    """Return the uid of an attempt that runs as its owner; `attempts`: the folder of claims. None where that is not
    said."""
    try:
        with open(f"{attempts}/{launch_id}/record", "rb", buffering=0) as file:
            data = file.read() or b""
    except OSError:
        return None
    found = (_parse(line) for line in data.split(b"\n")[:-1])
    return next((line.get("uid") for line in found if line is not None and line.get("is") == "start"), None)


def encode(line: Line) -> bytes:
    """A line as it stands in the record."""
    return json.dumps(line, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"


def exit_line(code: Optional[int], cause: str, error: str, started_at: Optional[float]) -> Line:
    """The record's last line, as of now."""
    return {"is": "exit", "code": code, "cause": cause, "error": error, "started_at": started_at, "at": time.time()}


def not_started(error: str, fault: str) -> Line:
    """The last line of what could not be started. `fault`: of `blame`."""
    return {**exit_line(None, "not_started", error, None), "fault": fault}


def append(fd: int, data: bytes, *, sync: bool = False) -> None:
    """Write a line; a part of one that a full disk left behind is cut off again. Raises OSError."""
    before = os.fstat(fd).st_size
    if before and os.pread(fd, 1, before - 1) != b"\n":
        data = b"\n" + data  # somebody was killed in the middle of a line
    written = os.write(fd, data)
    if written != len(data):
        os.ftruncate(fd, before)
        raise OSError(28, os.strerror(28))
    if sync:
        os.fdatasync(fd)


def is_elsewhere(folder: Folder, launch_id: str, fd: int) -> bool:
    """Whether this open record is not the one in the folder: the folder was emptied or moved since."""
    ours = os.fstat(fd)
    try:
        found = os.stat(_path(folder, launch_id))
    except OSError:
        return True
    return (found.st_dev, found.st_ino) != (ours.st_dev, ours.st_ino)


def leave(folder: Folder, launch_id: str, data: bytes) -> None:
    """Write a line, synced, into the record that another agent has made of the same attempt, or one made for it;
    nothing where their folder is gone. Raises OSError."""
    try:
        fd = os.open(_path(folder, launch_id), os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        _leave_anew(folder, launch_id, data)
        return
    try:
        append(fd, data, sync=True)
    finally:
        os.close(fd)


def _leave_anew(folder: Folder, launch_id: str, data: bytes) -> None:
    """No agent has missed the record yet: the next one finds the end there."""
    try:
        fd = claim(folder, launch_id)
    except (ClaimedError, FileNotFoundError, NotADirectoryError):
        return  # the folder is gone as well, or an agent was faster, and knows us
    try:
        append(fd, data, sync=True)
    finally:
        os.close(fd)


def ask_grace(folder: Folder, launch_id: str, grace_s: float) -> None:
    """Leave the grace of a kill where the shim looks for it. Raises OSError."""
    path = os.path.join(folder.attempts, launch_id, "kill")
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(repr(float(grace_s)))
    os.rename(path + ".new", path)


def asked_grace(folder: Folder, launch_id: str) -> Optional[float]:
    """Return the grace period that `ask_grace` wrote."""
    try:
        with open(os.path.join(folder.attempts, launch_id, "kill"), encoding="ascii") as file:
            return float(file.read())
    except FileNotFoundError:
        return None


def forget(folder: Folder, launch_id: str) -> None:
    """Remove a claim; a crash in the middle leaves only what `sweep` removes."""
    gone = os.path.join(folder.attempts, "." + launch_id)
    try:
        os.rename(os.path.join(folder.attempts, launch_id), gone)
    except (FileNotFoundError, NotADirectoryError):
        return  # there was no claim: the disk had refused it
    claims.note(folder, b"-", launch_id)
    _remove(gone)


def sweep(folder: Folder) -> List[str]:
    """Finish what `forget` began; the launch ids that have a claim, and those that had one and were not forgotten.
    Raises OSError."""
    names = os.listdir(folder.attempts)
    for name in names:
        if name.startswith("."):
            _remove(os.path.join(folder.attempts, name))
    return sorted(filter(LAUNCH_ID.match, {*names, *claims.noted(folder)}))


def _path(folder: Folder, launch_id: str) -> str:
    return f"{folder.attempts}/{launch_id}/record"


def _lay_aside(folder: Folder, launch_id: str) -> None:
    """Where something stands that is no claim, or none that can be used. Raises OSError."""
    aside = os.path.join(folder.attempts, "." + launch_id)
    with suppress(FileNotFoundError):
        _remove(aside)
    os.rename(os.path.join(folder.attempts, launch_id), aside)
    with suppress(OSError):  # the next start tries again
        _remove(aside)


def _remove(path: str) -> None:
    try:
        os.unlink(path + "/record")
        os.rmdir(path)  # mostly there is no more in it
    except OSError:
        _remove_all(path)


def _remove_all(path: str) -> None:
    """Remove whatever somebody has put there; no link is followed. Raises OSError."""
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        os.unlink(path)
        return
    for name in os.listdir(path):
        _remove_all(os.path.join(path, name))
    os.rmdir(path)


def _parse(data: bytes) -> Optional[Line]:
    try:
        line = json.loads(data)
    except ValueError:
        return None
    return line if isinstance(line, dict) else None
