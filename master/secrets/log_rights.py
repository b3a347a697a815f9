"""The permission to read logs: only the group of the folder that they lie in has it.

The desktop client's PCs read logs over SSH, with an account of their own; `log_group` of conf.json is a group of that
account. Nodes make the logs of tasks, as accounts that may be members of nothing: so the log folder hands its group
down (setgid), which works over NFS too. Owns that folder's group and the rights of the master's own log.
"""

from __future__ import annotations

import errno
import grp
import logging
import os
import pwd
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path

import msgspec

from master.config.config import Config
from master.edited_files.ownership import open_folder, user_name
from wire.file_fault import fault
from wire.message import Message

MODE = 0o640
BYTES = 10 << 20
FILES = 5


def group_of(config: Config) -> int | None:
    """The group that may read logs; None: whichever the log folder has. Raises ConfigError."""
    if config.log_group is None:
        return None
    try:
        return grp.getgrnam(config.log_group).gr_gid
    except KeyError:
        raise fault(config.path, Message("log_group_unknown", group=config.log_group)) from None


def give_folder_to_group(config: Config) -> None:
    """Let the log folder hand its group down to what is made in it. Raises ConfigError where `log_group` says which,
    and it cannot be so."""
    folder, group = config.train_logs, group_of(config)
    try:
        _hand_down(folder, group)
        info = folder.stat()
    except OSError as error:
        if group is None and isinstance(error, PermissionError):
            return  # another account's folder: its owner chose the group
        raise fault(config.path, _refused(config, error)) from None
    if group is not None and not (info.st_gid == group and info.st_mode & stat.S_ISGID):
        what = Message("log_group_not_kept", folder=str(folder), group=config.log_group, ours=user_name(os.geteuid()))
        raise fault(config.path, what)


class Readers(msgspec.Struct, frozen=True):
    """The accounts besides the master's that may read logs: the `others` who are in the `group` of the log folder.
    `is_named`: conf.json says which group, so it is one of the account that the desktop PCs use."""

    group: str
    others: tuple[str, ...]
    is_named: bool


def readers(config: Config) -> Readers:
    """Return the accounts that may read logs. A directory service that knows them may take its time. Raises OSError if
    the folder cannot be seen, KeyError if its group has no name."""
    group = grp.getgrgid(config.train_logs.stat().st_gid)
    members = {*group.gr_mem, *(one.pw_name for one in pwd.getpwall() if one.pw_gid == group.gr_gid)}
    others = tuple(sorted(members - {user_name(os.geteuid()), user_name(0)}))
    return Readers(group.gr_name, others, config.log_group is not None)


def _hand_down(folder: Path, group: int | None) -> None:
    held = open_folder(folder)
    try:
        place = f"/proc/self/fd/{held}"
        info = os.fstat(held)
        mode = stat.S_IMODE(info.st_mode) | stat.S_ISGID | (0o050 if group is not None else 0)
        if group is not None and info.st_gid != group:
            os.chown(place, -1, group)
            info = os.fstat(held)
        if stat.S_IMODE(info.st_mode) != mode:
            os.chmod(place, mode)  # noqa: PTH101  (what was looked at, by its descriptor)
    finally:
        os.close(held)


def _refused(config: Config, error: OSError) -> Message:
    return Message(
        "log_group_refused",
        folder=str(config.train_logs),
        group=config.log_group,
        detail=error.strerror or "",
        ours=user_name(os.geteuid()),
    )


_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
"""A pipe is not waited at, nor is who has a lease."""
_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_MOST_LINKS = 40
_KEEPS_NOTHING = frozenset(os.makedev(1, minor) for minor in (3, 5, 7))
"""/dev/null, /dev/zero, /dev/full: whoever has them, nobody reads there what was written. In a container that knows
root by no number they belong to nobody."""


def _opened(path: Path, links: int = 0) -> int:
    """Open the log for writing. Raises OSError, also for a file that a stranger has put there: to root every other
    account is a stranger, even in that account's own folder. The file that was checked is opened, whatever has its name
    by then. `links`: the number of links followed so far."""
    if links > _MOST_LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    folder = open_folder(path.parent)
    try:
        with suppress(FileExistsError):
            return os.open(path.name, _FLAGS | _NEW, MODE, dir_fd=folder)
        look = os.open(path.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            found = os.fstat(look)
            _check(found, os.fstat(folder))
            if not stat.S_ISLNK(found.st_mode):
                return os.open(f"/proc/self/fd/{look}", _FLAGS)
            if found.st_dev == os.lstat("/proc/self").st_dev:  # /dev/stdout, say: it leads where no path does
                return os.open(path.name, _FLAGS, dir_fd=folder)
            leads = path.parent / os.readlink("", dir_fd=look)
        finally:
            os.close(look)
    finally:
        os.close(folder)
    return _opened(leads, links + 1)


def _check(found: os.stat_result, above: os.stat_result) -> None:
    """Raise PermissionError if a stranger has put the entry `found` into the folder `above`. A pipe of the folder's
    owner would block us."""
    is_file, is_link = stat.S_ISREG(found.st_mode), stat.S_ISLNK(found.st_mode)
    if stat.S_ISCHR(found.st_mode) and found.st_rdev in _KEEPS_NOTHING:
        return
    ours = {0, os.geteuid()}
    if os.geteuid() != 0 and (is_file or is_link):
        ours.add(above.st_uid)
    is_open_to_all = bool(above.st_mode & stat.S_IWOTH)
    is_twice = is_file and found.st_nlink > 1 and (is_open_to_all or above.st_uid not in ours)
    if is_twice or ((is_open_to_all or not is_file) and found.st_uid not in ours):
        raise PermissionError(errno.EPERM, f"{user_name(found.st_uid)} has laid something there: remove it")


class LogFile(logging.FileHandler):
    """A rotated log that its group may read, on a disk that may be full: said once where somebody may see it, never
    line by line with a traceback. All is done in the open folder of the log, so changed names above it lead nowhere
    else. `group`: None leaves it to the folder; `size`: a file has at most so many bytes.

    The standard library has a handler that rotates. Of it nothing would be left here but the names, and its module
    loads several others at each start.
    """

    _told = False

    def __init__(self, path: Path, group: int | None, *, size: int = BYTES) -> None:
        self._group = group
        self.size = size
        super().__init__(path, encoding="utf-8")
        with suppress(OSError), self.folder() as folder:
            for number in range(1, FILES + 1):  # those of an earlier version were open to all
                self._close_to_others(self.older(number), folder)

    @contextmanager
    def folder(self) -> Iterator[int]:
        """The folder of the log, open by O_PATH. Raises OSError, also where a stranger's link leads there."""
        held = open_folder(Path(self.baseFilename).parent)
        try:
            yield held
        finally:
            os.close(held)

    def older(self, number: int) -> str:
        """Return the name of an older log in that folder, the newest is 1; the log itself is 0."""
        name = Path(self.baseFilename).name
        return f"{name}.{number}" if number else name

    def shift(self, folder: int, *, least: int) -> None:
        """Give each older one from this number on the next number; the last one is gone."""
        for number in range(FILES - 1, least - 1, -1):
            with suppress(FileNotFoundError):
                os.rename(self.older(number), self.older(number + 1), src_dir_fd=folder, dst_dir_fd=folder)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, into a new file if this one would be larger than it may be."""
        try:
            if self._is_full(record):
                self.rotate()
        except Exception:  # noqa: BLE001  (as in the base class: what a log does must not end what is logged)
            self.handleError(record)
        else:
            super().emit(record)

    def _is_full(self, record: logging.LogRecord) -> bool:
        if self.stream is None:
            self.stream = self._open()
        info = os.fstat(self.stream.fileno())
        return stat.S_ISREG(info.st_mode) and info.st_size + len(self.format(record)) + 1 >= self.size

    def rotate(self) -> None:
        """Begin a new file."""
        try:
            with self.folder() as folder:
                self.shift(folder, least=0)
        except OSError as error:
            self.go_on(error)
            return
        if self.stream is not None:
            self.stream.close()
            self.stream = None  # one that cannot be opened is tried again with the next line
        self.stream = self._open()

    def go_on(self, error: OSError) -> None:
        """No new file could be begun: let the lines go on in this one, and try again once as much more is written."""
        self.size *= 2
        self._tell(f"has not been rotated: {error.strerror}; it grows on")

    def _open(self) -> TextIOWrapper:
        fd = _opened(Path(self.baseFilename))
        os.set_blocking(fd, True)
        if stat.S_ISREG(os.fstat(fd).st_mode):  # a device belongs to the machine, even if we write to it
            try:
                os.fchmod(fd, MODE)
                if self._group is not None:
                    os.fchown(fd, -1, self._group)
            except PermissionError:
                pass  # somebody else's file that we may write into
        return os.fdopen(fd, "a", encoding=self.encoding)

    def _close_to_others(self, name: str, folder: int) -> None:
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except OSError:
            return  # there is none, or not ours
        try:
            if stat.S_ISREG(os.fstat(fd).st_mode) and os.fstat(fd).st_nlink == 1:
                os.fchmod(fd, MODE)
        except PermissionError:
            return
        finally:
            os.close(fd)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  (its name in the base class)
        """Say that the log has gaps; what is in the lines that are missing is not worth the work of the master."""
        error = sys.exception()
        if not isinstance(error, OSError):
            super().handleError(record)
        else:
            self._tell(f"cannot be written: {error.strerror}; it has gaps now")

    def _tell(self, what: str) -> None:
        if not self._told:
            self._told = True
            print(f"the log {self.baseFilename} {what}", file=sys.stderr)  # noqa: T201  (it cannot tell that itself)
