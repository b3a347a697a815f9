"""Which lab a state folder (`task_info`) is of: the process that has its lock, and the record that its master keeps.

Two labs must not share one: the queue would be the one's today and the other's tomorrow. The record has the form of
`wire.lab`'s file. The lab that it names counts as long as its conf.json names this folder: so a lab that was moved, or
has another folder by now, is in nobody's way.
"""

from __future__ import annotations

import json
import os

from wire.errors import ConfigError
from wire.lab import stored
from wire.regular_file import read_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wire.lab import Lab

RECORD = "lab.json"
LOCK = "lock"
_KEY = "task_info"
_MOST = 32


def check_alone(conf: str, folder: str, lab: Lab) -> None:
    """Raise ConfigError where the state folder of this conf.json is another lab's, be its master up or down."""
    pid, theirs = _at_work(folder, lab)
    if not theirs:
        theirs = _recorded(folder, lab)
    if theirs:
        from wire.message import Message

        what = (
            Message("task_info_in_use", folder=folder, other=theirs, pid=pid)
            if pid
            else Message("task_info_shared", folder=folder, other=theirs)
        )
        raise ConfigError(Message("in_file", path=conf, fault=what))


def holder_of(path: str) -> int | None:
    """Which process holds this lock, if one does."""
    import fcntl

    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.read(fd, _MOST).strip()
        return int(text) if text.isdigit() else None
    finally:
        os.close(fd)
    return None


def has_open(pid: int, path: str) -> bool:
    """Has a process of this machine the file open? Else the lock's file is shared with another machine, and the pid is
    another process's here. Raises PermissionError for another account's process."""
    wanted = os.stat(path)
    try:
        with os.scandir(f"/proc/{pid}/fd") as files:
            return any(os.path.samestat(file.stat(), wanted) for file in files if file.is_file())
    except (FileNotFoundError, ProcessLookupError):  # it is not there, or ends just now
        return False


def started_with(pid: int) -> str:
    """The conf.json that a process of this machine was started with (`--conf`), as an absolute path; empty where it
    was given none, or the kernel does not tell."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = os.fsdecode(file.read()).split("\0")
        named = words[words.index("--conf") + 1] if "--conf" in words[:-1] else ""
        return os.path.join(os.readlink(f"/proc/{pid}/cwd"), named) if named and named[0] != "/" else named
    except OSError:
        return ""


def _at_work(folder: str, lab: Lab) -> tuple[int, str]:
    """The process that has the folder, with the conf.json of its lab; zero and nothing where that is this lab."""
    path = os.path.join(folder, LOCK)
    try:
        pid = holder_of(path)
        if pid is None or not has_open(pid, path):
            return 0, ""
    except PermissionError:
        pid = None
    except OSError:
        return 0, ""
    theirs = "" if pid is None else started_with(pid)
    return (pid or 0, theirs) if theirs and not lab.has_conf(theirs) else (0, "")


def _recorded(folder: str, lab: Lab) -> str:
    """The conf.json of another lab whose master kept the folder last, and which still names it."""
    identity, conf = stored(os.path.join(folder, RECORD))
    if not identity or identity == lab.identity or lab.has_conf(conf):
        return ""
    return conf if _names(conf, folder) else ""


def _names(conf: str, folder: str) -> bool:
    """Does this conf.json name the folder as its own? One that cannot be read may."""
    try:
        said = json.loads(read_regular(conf).decode("utf-8-sig"))
    except FileNotFoundError:
        return False
    except (OSError, ValueError, RecursionError):
        return os.path.lexists(conf)
    named = said.get(_KEY) if isinstance(said, dict) else None
    path = os.path.join(os.path.dirname(conf), os.path.expanduser(named if isinstance(named, str) else _KEY))
    try:
        return os.path.samefile(path, folder)
    except OSError:
        return False
