"""The scripts that the doctor runs on a node: Python 3.8 of the node's own, and two pieces of sh and bash.

Each Python script reads its words as one JSON object from stdin and prints one line, MARK and a JSON object. Nothing
is put into the text of a script.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

from wire.agent import Probed

MARK = "muster-doctor "
"""Begins the line that is the answer; what a sitecustomize or a profile prints stands around it."""

_INTERPRETER = 'p=$1; shift; case $p in "~/"*) p=$HOME/${p#"~/"};; esac; exec "$p" "$@"'
"""A log-in shell expands `~`, in which the registry's `python` may begin; `exec` of the words does not."""

_HEAD = f'import json, os, sys\ndef tell(**facts): print("\\n{MARK}" + json.dumps(facts), flush=True)\n'

MACHINE = f"""
import pwd, time
now = time.time()
{_HEAD}
told = json.load(sys.stdin)

def ancestors():
    # The forks between the agent and us have its command line: the farthest one that has it is the agent.
    pid = os.getppid()
    while pid > 1:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            words = [os.fsdecode(word) for word in file.read().split(b"\\0")]
        with open("/proc/%d/stat" % pid, "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        if "--state" in words[:-1]:
            age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
            yield words[words.index("--state") + 1], age
        pid = int(fields[1])

def disk(path):
    try:
        where, room = os.stat(path), os.statvfs(path)
    except OSError as error:
        return {{"path": path, "error": error.strerror}}
    return {{"path": path, "device": where.st_dev, "size": room.f_blocks * room.f_frsize,
            "free": room.f_bavail * room.f_frsize, "files": room.f_files, "files_free": room.f_favail}}

def has_account(name):
    try:
        return bool(pwd.getpwnam(name))
    except KeyError:
        return False

try:
    found = list(ancestors())
except OSError:
    found = []
state, age = found[-1] if found else (None, None)
tell(now=now, age=age, disks=[disk(path) for path in ([state] if state else []) + told["paths"]],
     strangers=[name for name in told["users"] if not has_account(name)])
"""

FOLDER = f"""
import time
{_HEAD}
told = json.load(sys.stdin)
folder, theirs, mine = told["folder"], told["theirs"], told["mine"]

def read():
    try:
        os.close(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))  # NFS asks its server what is new
    except OSError:
        pass
    # What lies there under the name may be a link to a secret, or a pipe.
    fd = os.open(os.path.join(folder, theirs), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(fd, encoding="ascii") as file:
        return file.read(200)

def patiently():
    end = time.monotonic() + told["patience_s"]
    while True:
        try:
            return read(), ""
        except (OSError, ValueError) as error:
            if time.monotonic() > end:
                return None, getattr(error, "strerror", None) or str(error)
        time.sleep(0.2)

def write():
    path = os.path.join(folder, mine)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            os.write(fd, told["text"].encode("ascii"))
            os.fchmod(fd, 0o644)
        finally:
            os.close(fd)
    except OSError as error:
        return error.strerror
    return ""

if not os.path.isdir(folder):
    tell(there=False)
elif not os.access(folder, os.X_OK):
    tell(there=True, closed=True)
else:
    text, error = patiently() if theirs else (None, "")
    room = os.statvfs(folder)
    tell(there=True, closed=False, read=text, read_error=error, write_error=write(),
         disk={{"path": folder, "device": os.stat(folder).st_dev, "size": room.f_blocks * room.f_frsize,
               "free": room.f_bavail * room.f_frsize, "files": room.f_files, "files_free": room.f_favail}})
"""

REMOVE = ["/bin/sh", "-c", 'rm -f -- "$@"', "sh"]
"""The paths to remove are its further words."""

START = """
[ -d "$1" ] || { echo "muster-doctor no-folder"; exit 0; }
make() {
  mktemp "$1/muster-doctor.XXXXXXXXXX" 2>/dev/null && return
  [ -z "$(command -v mktemp)" ] || return
  f=$1/muster-doctor.$RANDOM$RANDOM$RANDOM
  (set -C; : > "$f") 2>/dev/null && echo "$f"
}
f=$(make "$1") || { echo "muster-doctor no-file"; exit 0; }
rm -f -- "$f"
echo "muster-doctor started in $PWD"
"""
"""$1: the folder of the logs. Others may write there, and this may run as root: a name that nobody can guess, and never
through a link. Without `mktemp`, bash makes the file (`set -C` is O_EXCL)."""


def python_question(python: str, script: str, words: dict[str, Any]) -> tuple[list[str], str]:
    """The argument list and the stdin that run a script with the node's Python."""
    return ["/bin/sh", "-c", _INTERPRETER, "sh", python, "-I", "-c", script], json.dumps(words)


class Disk(msgspec.Struct, frozen=True):
    """The disk that holds `path`; sizes in bytes, `files` in inodes. `error`: why it cannot be looked at."""

    path: str
    error: str = ""
    device: int = 0
    size: int = 0
    free: int = 0
    files: int = 0
    files_free: int = 0


class MachineTold(msgspec.Struct, frozen=True):
    """The answer to MACHINE. `now`: the node's clock. `age`: seconds since the agent began, None where it was not found
    among the forebears of the probe. `strangers`: the users who have no account there, of those asked about."""

    now: float
    age: float | None
    disks: list[Disk]
    strangers: list[str] = []


class FolderTold(msgspec.Struct, frozen=True):
    """The answer to FOLDER. `read`: what the master's file holds there, None where it could not be read, because of
    `read_error`; `write_error`: why the node could write none, "" if it could."""

    there: bool
    closed: bool = False
    read: str | None = None
    read_error: str = ""
    write_error: str = ""
    disk: Disk | None = None

    @property
    def wrote(self) -> bool:
        """Is there a file of the node now?"""
        return self.there and not self.closed and not self.write_error


T = TypeVar("T")


def answer_of(probed: Probed, kind: type[T]) -> T | None:
    """Return the answer of a Python script; None if it printed none."""
    for line in reversed(probed["output"].splitlines()):
        if line.startswith(MARK):
            try:
                return msgspec.json.decode(line[len(MARK) :], type=kind)
            except (msgspec.DecodeError, RecursionError):
                return None
    return None


def complaint(probed: Probed) -> str:
    """Why there is no answer."""
    if probed["error"]:
        return probed["error"]
    lines = [line.strip() for line in probed["output"].splitlines() if line.strip()]
    return lines[-1] if lines else f"it ended with code {probed['code']} and said nothing"
