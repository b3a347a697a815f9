"""What the account that runs the tests may do here, and how a test says that it cannot be run.

A test that needs root, several users or a program of the system's asks for it where it uses it (`need_…`). What cannot
be had is told in one line at the end, with the command that runs the rest (`tests/conftest.py`); where all must run
(`CI=true`), that is an error. Namespaces are made by `tests/as_root.sh`, where the kernel lets it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

AS_ROOT = "sudo make test"
_SYS_ADMIN = 21


class CannotHere(Exception):  # noqa: N818  (no error: something that this account or machine cannot do)
    """A test cannot be run. `why`: what it needs; `cure`: the command after which, or with which, it runs."""

    def __init__(self, why: str, cure: str) -> None:
        super().__init__(f"{why} ({cure})")
        self.why = why
        self.cure = cure


def outer_uid() -> int:
    """The uid of this process as the machine knows it, also where a user namespace calls it 0."""
    own = os.geteuid()
    for inside, outside, count in _mapping():
        if inside <= own < inside + count:
            return outside + own - inside
    return own


def _mapping() -> list[tuple[int, int, int]]:
    lines = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    return [(int(inside), int(outside), int(count)) for inside, outside, count in map(str.split, lines)]


def has_users() -> bool:
    """Whether we can be somebody else: root, and not of a namespace that has no other uid."""
    return os.geteuid() == 0 and sum(count for _, _, count in _mapping()) > 1


def need_root() -> None:
    """For mounts and networks. Raises CannotHere unless we are root, be it in a namespace of our own."""
    if os.geteuid() != 0:
        raise CannotHere("need root, and the kernel lets this account be root of no namespace of its own", AS_ROOT)
    if not _capabilities() >> _SYS_ADMIN & 1:
        raise CannotHere("need a root that may mount", "in a container: --privileged")


def _capabilities() -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
    return int(next(line for line in status.splitlines() if line.startswith("CapEff:")).split()[1], 16)


def need_real_root() -> None:
    """For what no namespace gives. Raises CannotHere unless we are the machine's root."""
    if outer_uid() != 0:
        raise CannotHere("need the machine's own root", AS_ROOT)


def need_users() -> None:
    """For processes and files of somebody else. Raises CannotHere where only one uid is to be had."""
    need_root()
    if not has_users():
        raise CannotHere("need more than one uid", f"sudo apt install uidmap, then make test; or {AS_ROOT}")


def need_program(program: str, package: str) -> None:
    """Raises CannotHere where the program is not installed."""
    if shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
        raise CannotHere(f"need {program}", f"sudo apt install {package}")
