"""The settings of an agent that dials in: its master, the authority to believe, its node's name and its token.

Owns one file of mode 0600 beneath the state's base, how what lies beside it is called, and where that base lies. The
token comes from a file, from MUSTER_NODE_TOKEN or from stdin, never from the command line, where everybody on the
machine could read it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import sys
from typing import Any, Dict, Optional
from urllib.parse import quote

from wire.pinning import fingerprint, normal

from ..folder import FolderError, write_synced

TOKEN_VARIABLE = "MUSTER_NODE_TOKEN"  # noqa: S105  (the variable's name)
NETWORK_FILE_SYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p", "ceph", "lustre")
LONGEST_NAME = 160
"""Bytes of a node's name within a folder's; file systems allow 255."""
MAX_PORT = 65535
_KEPT = ("master", "authority", "certificate", "cluster", "token")


class SettingsError(Exception):
    """Something is missing or wrong; the message is one line that says what to do."""


class Settings:
    """`base` is the folder of all agents of this user. `path` is the file, made by `save`; `log` and `lock` are for who
    goes by it. `cluster` is the master's own name for its lab, the same whatever authority and address it has."""

    def __init__(self, base: str, node: str) -> None:
        self.base = base
        self.node = node
        self._stem = os.path.join(base, f"report-{file_name(node)}")
        self.path, self.log, self.lock = (f"{self._stem}.{kind}" for kind in ("json", "log", "lock"))
        self.master = ""
        self.authority = ""
        self.certificate = ""
        self.cluster = ""
        self.token = ""
        self._load()

    @property
    def place(self) -> "tuple[str, int]":
        """Host and port of the master. Raises SettingsError."""
        host, _, port = self.master.rpartition(":")
        host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if not host or not (port.isascii() and port.isdigit() and 0 < int(port) <= MAX_PORT):
            raise SettingsError(f"--master: {self.master!r} is not HOST:PORT (the port is the master's data_port)")
        return host, int(port)

    @property
    def folder(self) -> str:
        """Of the agent's state. Another lab's master must not find what is this one's; a master that only has another
        certificate must. One that does not tell its lab is known by its authority."""
        return f"{self._stem}-{self.cluster or self.authority[7:15]}"

    def point_to(self, master: Optional[str], authority: Optional[str]) -> None:
        """Take over what was said now. Raises SettingsError when something is still missing."""
        if authority:
            try:
                authority = normal(authority)
            except ValueError as error:
                raise SettingsError(f"--authority: {error}") from None
            if authority != self.authority:
                self.authority, self.certificate = authority, ""
        self.master = master or self.master
        if not self.master or not self.authority:
            raise SettingsError(
                f"say --master HOST:PORT and --authority sha256:… (`muster node token {self.node}` prints them): "
                f"{self.path} does not"
            )
        self.place  # noqa: B018  (it raises)

    def is_pinned(self, pem: str) -> bool:
        """Is this the certificate of the authority to believe?"""
        try:
            return fingerprint(pem) == self.authority
        except ValueError:
            return False

    def learned(self, certificate: str, cluster: str) -> None:
        """Keep what the master says of itself. Raises SettingsError."""
        self.certificate = certificate
        self.cluster = cluster if re.fullmatch(r"[0-9A-Za-z]{1,64}", cluster) else ""
        self.save()

    def save(self) -> None:
        """Write the file. Raises SettingsError."""
        told = {"node": self.node, **{key: getattr(self, key) for key in _KEPT}}
        try:
            write_synced(self.path, json.dumps(told, indent=1).encode() + b"\n")
        except OSError as error:
            raise SettingsError(f"{self.path} cannot be written: {error.strerror}") from None

    def _load(self) -> None:
        try:
            with open(self.path, encoding="utf-8") as file:
                state = os.fstat(file.fileno())
                known: Dict[str, Any] = dict(json.load(file))
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError) as error:
            raise SettingsError(f"{self.path} cannot be read ({error}); remove it and give the token again") from None
        if state.st_uid not in (0, os.geteuid()):
            raise SettingsError(f"{self.path} belongs to uid {state.st_uid}, who may have put it there: remove it")
        if state.st_mode & 0o077:
            raise SettingsError(f"{self.path} holds a secret and others may read it: chmod 600 {self.path}")
        for key in _KEPT:
            setattr(self, key, str(known.get(key, "")))
        if not self.is_pinned(self.certificate):
            self.certificate = ""  # nothing of it, or damaged: it is asked for again


def read_token(path: Optional[str]) -> str:
    """The token from `path`, else from the environment, which forgets it, else from stdin. Raises SettingsError."""
    given = os.environ.pop(TOKEN_VARIABLE, "")
    if path is not None:
        given = _from_file(path)
    elif not given:
        given = _ask()
    token = given.strip()
    if not re.fullmatch(r"[0-9A-Za-z_-]+\.[0-9A-Za-z_-]+", token):
        raise SettingsError("that is not a token: ID.SECRET, as `muster node token` shows it")
    return token


def _from_file(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise SettingsError(f"{path} holds a secret and others may read it: chmod 600 {path}")
            return file.read()
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} holds no token") from None


def _ask() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline()
    import getpass  # noqa: PLC0415  (only where somebody types)

    # Ctrl-C is an exception here: getpass takes it to give the terminal its echo back.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return getpass.getpass("token (it is not shown): ")
    except EOFError:
        return ""
    finally:
        signal.signal(signal.SIGINT, before)


def file_name(node: str) -> str:
    """A node's name as a part of a file's."""
    name = quote(node, safe="")
    if len(name) <= LONGEST_NAME:
        return name
    import hashlib  # noqa: PLC0415

    return f"{name[:LONGEST_NAME]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def state_base(mounts: str = "/proc/self/mountinfo") -> str:
    """Where agents of this user keep their state: the same rule as in `master.drivers.bootstrap`."""
    configured = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(configured):
        configured = os.path.join(os.path.expanduser("~"), ".local", "state")
    base = os.path.join(configured, "muster")
    if _file_system(base, mounts) in NETWORK_FILE_SYSTEMS:
        return f"/var/tmp/muster-{os.getuid()}"  # noqa: S108  (`make_base` looks whose it is)
    return base


def make_base(base: str) -> None:
    """Make the folder, ours alone. Raises FolderError."""
    try:
        os.makedirs(base, mode=0o700, exist_ok=True)
        found = os.lstat(base) if base.startswith("/var/tmp/") else os.stat(base)  # noqa: S108
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise FolderError(f"{base} is not a folder of uid {os.geteuid()}: remove it")
        if stat.S_IMODE(found.st_mode) & 0o077:
            os.chmod(base, 0o700)
    except OSError as error:
        raise FolderError(f"{base} cannot be used: {error.strerror}") from None


def _file_system(path: str, mounts: str) -> str:
    """The type of the file system that holds `path`, which need not exist yet."""
    best, kind = "", ""
    with open(mounts, encoding="utf-8", errors="replace") as table:
        for line in table:
            left, _, right = line.partition(" - ")
            mount = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code.group(1), 8)), left.split()[4])
            if (os.path.realpath(path) + "/").startswith(mount.rstrip("/") + "/") and len(mount) >= len(best):
                best, kind = mount, right.split()[0]
    return kind
