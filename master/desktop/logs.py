"""The desktop client's requests for the paths of logs, which it then reads over SSH with `tail` and `cat`.

It puts the path into a shell command as it is, and opens nothing else while the command waits: so the path that it gets
is of a file that exists and holds no character that a shell would read. Where the real one cannot be given so, a link
with a plain name leads to it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from master.core.tasks.task import ENDED, QUEUED, Task, TaskState
from master.core.tasks.task_log import is_placed, may_have_log
from master.desktop.calls import Kind, Reply
from master.desktop.task_rows import id_text, read_id
from master.edited_files.ownership import open_folder
from master.files.log_file import looked
from master.files.log_pieces import Where
from master.files.public_paths import public_look
from master.secrets.log_rights import MODE
from master.verbs.archived import find
from master.verbs.call import Calls
from master.verbs.logs import masters_place
from wire.errors import BadRequestError, ConflictError, MusterError, NotFoundError, StorageError

T = TypeVar("T")

PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
LINKS = "desktop"
"""The folder in the log folder where such links lie, and the texts for who asks for a log that there is not."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FURTHER = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NOTHING = "/dev/null"
"""For who can be told no path: without one `cat` never ends."""
AWAITED_S = 3.0
"""A task that is just being started makes its log itself; so long we wait for it."""
_LOOK_EVERY_S = 0.1
_NOT_THERE = {
    "unknown": "该任务已不存在。 (There is no such task any more.)\n",
    "waiting": "任务尚未开始运行，还没有日志。 (The task has not started yet, so there is no log of it.)\n",
    "gone": "该任务的日志已被其所有者移走或删除。 (The log of this task was moved or removed by its owner.)\n",
    "unbegun": "该任务未能启动，没有日志。 (The task never began, so it has no log; `muster show` says why.)\n",
    "elsewhere": "该任务的日志指定在日志文件夹之外，目前不存在。 (Its log was to lie elsewhere, and is not there.)\n",
}


async def train_log(calls: Calls, info: Any) -> Reply:
    """get_train_log_path."""
    folder = Path(calls.master.log_folder)
    try:
        task = await find(calls.context(), read_id(info))
    except (BadRequestError, NotFoundError, StorageError):
        return "ret_train_log_path", await _in_thread(calls, _note, folder, "unknown")
    calls.check("log.read", task)
    where = masters_place(calls.context(), task)
    appeared = task.state is TaskState.STARTING and await _appears(calls, task, where)
    if not appeared and (task.state in QUEUED or task.state is TaskState.STARTING):
        # It is not made here: the node's account may be another one, and could not write into ours.
        return "ret_train_log_path", await _in_thread(calls, _note, folder, "waiting")
    path = task.log_path or f"{folder}/{id_text(task.id)}.log"
    if Path(path).parent != folder or Path(path).name not in (f"{task.id}.log", f"{id_text(task.id)}.log"):
        if not is_placed(task, str(folder)):  # it ran as its owner, who alone can make it there
            return "ret_train_log_path", await _in_thread(calls, _present_own, folder, path, f"{task.id}.log", where)
        return "ret_train_log_path", await _in_thread(calls, _present_other, folder, path, f"{task.id}.log", where)
    if not may_have_log(task, str(folder)) and await _in_thread(calls, _is_strangers, path):
        return "ret_train_log_path", await _in_thread(calls, _note, folder, "unbegun")
    if task.state in ENDED and task.reason:
        await _in_thread(calls, _say, path, f"muster: {task.reason}\n")
    return "ret_train_log_path", await _in_thread(calls, _present, folder, path, f"{task.id}.log")


async def server_log(calls: Calls, _info: Any) -> Reply:
    """get_server_log: the news, which are for everybody; the master's own log is for who runs it."""
    calls.check("log.read")
    path = calls.master.news_log
    return "ret_server_log", await _in_thread(calls, _present, Path(calls.master.log_folder), path, "news.log")


async def _in_thread(calls: Calls, work: Callable[..., T], *values: Any) -> T:
    return await calls.master.files.quick.call("the log folder", lambda _tick: work(*values))


async def _appears(calls: Calls, task: Task, where: Where) -> bool:
    """Wait for the log; whether it came. It does so a moment before the word that the task runs; what others can have
    laid there counts only from then on."""
    with suppress(TimeoutError):
        async with asyncio.timeout(AWAITED_S):
            while task.state is TaskState.STARTING:
                if await _in_thread(calls, _is_ours, task.log_path, where):
                    return True
                await asyncio.sleep(_LOOK_EVERY_S)
    return False


def _is_ours(path: str, where: Where) -> bool:
    return _is_file(path, where) and not _is_strangers(path)


def _is_strangers(path: str) -> bool:
    """Has another account than ours and the folder's put something there?"""
    try:
        with _open(Path(path).parent) as folder:
            owners = 0, os.geteuid(), os.fstat(folder).st_uid
            return os.stat(Path(path).name, dir_fd=folder, follow_symlinks=False).st_uid not in owners
    except OSError:
        return False


def _present(folder: Path, path: str, name: str) -> str:
    """A path of the log that can be put into a command. Raises ConflictError where there can be no file."""
    _make(path)
    return _plain(folder, path, name)


def _present_other(folder: Path, path: str, name: str, where: Where) -> str:
    """Likewise where the owner wished the log to be. Nothing is created there: the master may write where the owner may
    not, and in the log folder it is the place of another task's log."""
    return _plain(folder, path, name) if _is_file(path, where) else _note(folder, "elsewhere")


def _present_own(folder: Path, path: str, name: str, where: Where) -> str:
    """Likewise in the folder of the task's owner, who may have taken it away, or put a link in its place."""
    return _plain(folder, path, name) if _is_file(path, where) else _note(folder, "gone")


def _is_file(path: str, where: Where) -> bool:
    """Is it a file, in a place where the master may look for the caller, or any account may? A log that was wished
    elsewhere, or a link, tells nobody what lies there."""
    with suppress(MusterError), looked(path, *where) as look:
        return look is not None and stat.S_ISREG(os.fstat(look).st_mode)
    found = public_look(path)
    return isinstance(found, os.stat_result) and stat.S_ISREG(found.st_mode)


def _note(folder: Path, which: str) -> str:
    name = f"{which}.txt"
    try:
        with _own_folder(folder) as own, suppress(FileExistsError):
            fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=own)
            with os.fdopen(fd, "w", encoding="utf-8") as note:
                note.write(_NOT_THERE[which])
    except OSError:
        return NOTHING
    return _plain(folder, str(folder / LINKS / name), name)


@contextmanager
def _open(folder: Path) -> Iterator[int]:
    """The log folder, open. Raises OSError, also where a stranger's link leads there."""
    held = open_folder(folder)
    try:
        yield held
    finally:
        os.close(held)


@contextmanager
def _own_folder(folder: Path) -> Iterator[int]:
    """The folder LINKS, open. Others may write into the log folder; a link or a folder that they put there is not used.
    Raises OSError."""
    with _open(folder) as above:
        owners = 0, os.geteuid(), os.fstat(above).st_uid
        with suppress(FileExistsError):
            os.mkdir(LINKS, dir_fd=above)
        fd = os.open(LINKS, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    try:
        if os.fstat(fd).st_uid not in owners:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        yield fd
    finally:
        os.close(fd)


def _make(path: str) -> None:
    """Make an empty log where there is none, so that accounts that may make files in its folder can write into it."""
    try:
        with _open(Path(path).parent) as folder:
            info = os.fstat(folder)
            fd = os.open(Path(path).name, _NEW, 0o600, dir_fd=folder)
    except FileExistsError:
        return
    except OSError as error:
        raise ConflictError(f"there is no log {path}: {error.strerror}") from None
    try:
        if os.geteuid() == 0:
            os.fchown(fd, info.st_uid, info.st_gid)
        os.fchmod(fd, MODE | info.st_mode & 0o660)
    finally:
        os.close(fd)


def _say(path: str, text: str) -> None:
    """Put why a task ended into a log that says nothing: the client's tables have no column for it."""
    with suppress(ConflictError, OSError):
        _make(path)
        with _open(Path(path).parent) as folder:
            fd = os.open(Path(path).name, _FURTHER, dir_fd=folder)
        try:
            found = os.fstat(fd)
            if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_size == 0:
                os.write(fd, text.encode())
        finally:
            os.close(fd)


def _plain(folder: Path, path: str, name: str) -> str:
    if PLAIN.fullmatch(path):
        return path
    link = folder / LINKS / name
    if not PLAIN.fullmatch(str(link)):
        return shlex.quote(path)
    with suppress(OSError), _own_folder(folder) as own:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=own)
        os.symlink(path, name, dir_fd=own)
        return str(link)
    return shlex.quote(path)


def _refuse_train(_info: Any, _text: str) -> Reply:
    # Nothing of the request may reach the client's shell.
    return "ret_train_log_path", NOTHING


def _refuse_server(_info: Any, _text: str) -> Reply:
    return "ret_server_log", NOTHING


KINDS: dict[str, Kind] = {
    "get_train_log_path": Kind(train_log, _refuse_train),
    "get_server_log": Kind(server_log, _refuse_server),
}
