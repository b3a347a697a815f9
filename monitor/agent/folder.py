"""The agent's state folder: where its things lie, who may use it, and how its socket is reached.

It owns names, the lock, the state id and the socket's address (paths may be longer than a socket address allows). It
knows nothing of what is written into the attempts.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import stat
from contextlib import suppress
from typing import Any, List, Optional, Tuple

MAX_ADDRESS = 100
"""Bytes; the kernel allows 107."""


class FolderError(Exception):
    """The state folder cannot be used; the message is one line that says why."""


class Folder:
    """Paths in one state folder (made by `make`, mode 0700)."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.attempts = os.path.join(self.path, "attempts")
        self.claims = os.path.join(self.path, "claims")
        self.reports = os.path.join(self.path, "reports")
        self.log = os.path.join(self.path, "agent.log")
        self.failpoint = os.path.join(self.path, "failpoint")
        self._lock: Optional[int] = None
        self._known: List[Tuple[int, int]] = []

    def make(self) -> None:
        """Create what is missing. Raises FolderError."""
        try:
            os.makedirs(self.attempts, mode=0o700, exist_ok=True)
            if os.stat(self.path).st_uid != os.geteuid():
                raise FolderError(f"the state folder {self.path} belongs to another user")
            os.chmod(self.path, 0o700)
            _make_fifo(self.reports)
        except OSError as error:
            raise FolderError(f"the state folder {self.path} cannot be used: {error.strerror}") from None

    def lock(self) -> None:
        """Take the folder for this process until it ends (a POSIX lock: forks do not inherit it).

        Raises FolderError naming the process that has it.
        """
        fd = os.open(os.path.join(self.path, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(fd, 32).decode("ascii", "replace").strip()
            os.close(fd)
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise FolderError(f"{self.path}/lock cannot be locked: {error.strerror}") from None
            raise FolderError(f"an agent (pid {holder or 'unknown'}) already serves {self.path}") from None
        os.ftruncate(fd, 0)
        os.write(fd, b"%d\n" % os.getpid())
        self._lock = fd

    def unlock(self) -> None:
        """Give the folder to the next agent."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def remember(self) -> None:
        """This is the folder that `is_another` compares with. Raises OSError."""
        self._known = self._identity()

    def is_another(self) -> bool:
        """Was the folder removed, emptied, moved or replaced? Nobody finds this agent through it any more then."""
        try:
            return self._identity() != self._known
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False  # a disk in trouble: what it says of its files is no news of them

    def _identity(self) -> List[Tuple[int, int]]:
        found = [os.lstat(os.path.join(self.path, name)) for name in ("state_id", "agent.sock", "attempts")]
        return [(one.st_dev, one.st_ino) for one in found]

    def state_id(self) -> str:
        """The random name of this folder, made at first use and synced."""
        path = os.path.join(self.path, "state_id")
        try:
            with open(path, encoding="ascii") as file:
                text = file.read().strip()
        except FileNotFoundError:
            text = ""
        if not text:
            text = os.urandom(8).hex()
            write_synced(path, text.encode() + b"\n")
        return text

    def read_json(self, name: str) -> Any:
        """The value in a file of the folder; None when there is no such file. Raises FolderError when it is bad."""
        path = os.path.join(self.path, name)
        try:
            with open(path, encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise FolderError(f"{path} is not JSON ({error}); remove it if this node may obey any master") from None

    def write_json(self, name: str, value: Any) -> None:
        """Write a file of the folder so that a crash leaves the old or the new one; synced. Raises OSError."""
        write_synced(os.path.join(self.path, name), json.dumps(value).encode() + b"\n")

    def listen(self) -> socket.socket:
        """The listening socket; a left-over of an earlier agent is replaced (hold the lock). Raises OSError."""
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self.path, "agent.sock"))
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._at_address(listener.bind)
        listener.listen(64)
        listener.setblocking(False)  # noqa: FBT003  (the standard library's signature)
        return listener

    def connect(self) -> socket.socket:
        """A connection to the agent of this folder. Raises OSError when nobody answers."""
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._at_address(peer.connect)
        except OSError:
            peer.close()
            raise
        return peer

    def _at_address(self, use: Any) -> None:
        path = os.path.join(self.path, "agent.sock")
        if len(os.fsencode(path)) <= MAX_ADDRESS:
            use(path)
            return
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            use(f"/proc/self/fd/{fd}/agent.sock")
        finally:
            os.close(fd)


def write_synced(path: str, data: bytes) -> None:
    """Replace a file: temporary file, fsync, rename, fsync of its folder. Raises OSError."""
    temporary = path + ".new"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(temporary, path)
    parent = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def _make_fifo(path: str) -> None:
    try:
        os.mkfifo(path, 0o600)
    except FileExistsError:
        if not stat.S_ISFIFO(os.stat(path).st_mode):
            raise FolderError(f"{path} is not a pipe; remove it") from None
