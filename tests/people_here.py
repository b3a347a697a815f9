"""alice, bob and carol as accounts of this machine, with homes and groups, for the processes that are started so;
others see nothing of them. Their uids are real. Carol has no group in common with the others."""

from __future__ import annotations

import os
from pathlib import Path

from tests import rights

PEOPLE = {"alice": 6101, "bob": 6102, "carol": 6103}
MASTER = 6200
"""The account `queue`, which a master may have that is not root."""
TEAM, READERS = 6190, 6191
"""The groups of alice and bob, and of `queue`, who may read logs."""
_INSIDE = 'mount --bind "$1/passwd" /etc/passwd && mount --bind "$1/group" /etc/group && shift && exec "$@"'


class PeopleHere:
    """The accounts, in files of `folder`, which everybody must be able to pass through."""

    def __init__(self, folder: Path) -> None:
        rights.need_users()
        self._folder = folder / "accounts"
        self._folder.mkdir()
        passwd, group = Path("/etc/passwd").read_text("utf-8"), Path("/etc/group").read_text("utf-8")
        for name, uid in (*PEOPLE.items(), ("queue", MASTER)):
            home = self._folder / name
            home.mkdir(mode=0o700)
            os.chown(home, uid, uid)
            passwd += f"{name}:x:{uid}:{uid}::{home}:/bin/bash\n"
            group += f"{name}:x:{uid}:\n"
        (self._folder / "passwd").write_text(passwd, "utf-8")
        (self._folder / "group").write_text(f"{group}team:x:{TEAM}:alice,bob\nreaders:x:{READERS}:queue\n", "utf-8")

    @property
    def inside(self) -> list[str]:
        """What a command line begins with whose process knows them."""
        return ["unshare", "--mount", "sh", "-c", _INSIDE, "sh", str(self._folder)]

    def folder(self, path: Path, owner: str, mode: int = 0o755) -> Path:
        """Make a folder of somebody's."""
        path.mkdir(parents=True, exist_ok=True)
        os.chown(path, PEOPLE[owner], PEOPLE[owner])
        path.chmod(mode)
        return path


def as_person(name: str) -> list[str]:
    """What a command line begins with whose process is that person's, without any group."""
    return ["setpriv", f"--reuid={PEOPLE[name]}", f"--regid={PEOPLE[name]}", "--clear-groups"]
