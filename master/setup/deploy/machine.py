"""This machine, as far as the files about it must know it: whose master it is, where it lies, what is mounted.

Looks and changes nothing. No packet is sent: the address towards a node is what the routing table says.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
import stat
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import master

_MOUNTINFO = Path("/proc/self/mountinfo")
_NFS = ("nfs", "nfs4")
_REMOTE = ("afs", "beegfs", "ceph", "cifs", "gpfs", "lustre", "smb3", "wekafs")
_WITHOUT_IDENTITY = ("fuseblk", "overlay", "ramfs", "tmpfs")
_ANY_PORT = 9


class Mount(NamedTuple):
    """A mounted file system: where, its kind, and what of it (`server:/path` for NFS)."""

    point: Path
    kind: str
    source: str

    @property
    def is_nfs(self) -> bool:
        """Whether it comes from an NFS server."""
        return self.kind in _NFS

    @property
    def is_remote(self) -> bool:
        """Whether it comes from another machine, so that it is not ours to export."""
        return self.is_nfs or self.kind in _REMOTE or self.kind.startswith("fuse.")

    @property
    def needs_fsid(self) -> bool:
        """Whether an NFS server must be told how to call it, since it brings no identity of its own."""
        return self.kind in _WITHOUT_IDENTITY


class Machine(NamedTuple):
    """`user`: who runs the master. `code`: the folder that the packages lie in. `towards`: our address as a machine
    of that address sees it, None where there is no way to it. `closed`: whether not everybody may pass a folder.
    """

    host: str
    user: str
    uid: int
    home: Path
    python: str
    code: Path
    grafana: Path
    mounts: tuple[Mount, ...]
    towards: Callable[[str], str | None]
    closed: Callable[[Path], bool]

    def mount_of(self, path: Path) -> Mount:
        """The file system that `path` lies on."""
        over = [mount for mount in self.mounts if path.is_relative_to(mount.point)]
        return max(over, key=lambda mount: len(mount.point.parts), default=Mount(Path("/"), "ext4", "/"))

    def has_mounts_beneath(self, path: Path) -> bool:
        """Whether other file systems are mounted beneath `path`."""
        return any(mount.point != path and mount.point.is_relative_to(path) for mount in self.mounts)


def look(owned: Iterable[Path]) -> Machine:
    """This machine. The master is run by the owner of the first of `owned` that is there: so `sudo muster deploy` does
    not make it root's.
    """
    uid = next((path.stat().st_uid for path in owned if path.exists()), os.geteuid())
    try:
        entry = pwd.getpwuid(uid)
        user, home = entry.pw_name, Path(entry.pw_dir)
    except KeyError:
        user, home = str(uid), Path("/")
    code = Path(master.__file__).resolve().parents[1]
    return Machine(
        host=socket.gethostname(),
        user=user,
        uid=uid,
        home=home,
        python=sys.executable,
        code=code,
        grafana=code / "monitor" / "grafana",
        mounts=parse_mounts(_MOUNTINFO.read_bytes().decode("utf-8", "surrogateescape")),
        towards=address_towards,
        closed=is_closed,
    )


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """/proc/self/mountinfo; of several mounts on one point the last one, which covers the others."""
    found: dict[Path, Mount] = {}
    for line in text.splitlines():
        front, _, back = line.partition(" - ")
        point = Path(_unescape(front.split(" ")[4]))
        kind, source = back.split(" ")[:2]
        found[point] = Mount(point, kind, _unescape(source))
    return tuple(found.values())


def address_towards(address: str) -> str | None:
    """The address of ours that the way to `address` begins at; None where there is no way, or no such name."""
    try:
        family, kind, _, _, where = socket.getaddrinfo(address, _ANY_PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(where)  # of a datagram socket: looks the way up, sends nothing
            return str(probe.getsockname()[0])
    except (OSError, UnicodeError):
        return None


def is_closed(folder: Path) -> bool:
    """Whether not everybody may pass through a folder to what lies in it."""
    try:
        return not folder.stat().st_mode & stat.S_IXOTH
    except OSError:
        return False


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
