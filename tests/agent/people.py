"""A node whose agent is root, or an ordinary account, on a machine where people have accounts: alice, bob, carol, each
with a home, a group of her own, and one that alice and bob share.

The accounts are in files that only the agent sees, in the place of /etc/passwd and /etc/group; their uids are real.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests import rights
from tests.agent.small_master import Link, Message, Node

TEAM, LAB = 6190, 6191
"""The group of alice and bob; and that of the log folder, in which none of them is."""
_INSIDE = 'mount --bind "$1/passwd" /etc/passwd && mount --bind "$1/group" /etc/group && shift && exec "$@"'
_NO_USER = "--reuid={0}", "--regid={0}", "--clear-groups"


class Person(NamedTuple):
    """Somebody with an account there."""

    name: str
    uid: int


ROOT = Person("root", 0)
ALICE, BOB, CAROL = (Person(name, 6101 + place) for place, name in enumerate(("alice", "bob", "carol")))
PEOPLE = (ALICE, BOB, CAROL)
"""Those who are no system's."""


class PeopleNode(Node):
    """`account`: as whom the agent runs; None: root. The folder must be one that everybody may pass through."""

    def __init__(self, folder: Path, account: Person | None = None, python: str = sys.executable) -> None:
        rights.need_users()
        super().__init__(folder, python)
        self.folder = folder
        self.account = account
        self.before: list[str] = []
        """What the agent's command line begins with."""
        self.homes = {one.name: folder / "home" / one.name for one in (ROOT, *PEOPLE)}
        lines = [f"{one.name}:x:{one.uid}:{one.uid}::{self.homes[one.name]}:/bin/bash\n" for one in PEOPLE]
        system = (
            f"root:x:0:0::{self.homes['root']}:/bin/bash\ndaemon:x:1:1::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"
        )
        (folder / "passwd").write_text(system + "".join(lines), encoding="ascii")
        own = [f"{one.name}:x:{one.uid}:\n" for one in PEOPLE]
        shared = f"root:x:0:\nteam:x:{TEAM}:alice,bob\nlab:x:{LAB}:\n"
        (folder / "group").write_text(shared + "".join(own), encoding="ascii")
        self.logs.mkdir()
        os.chown(self.logs, 0, LAB)
        self.logs.chmod(0o2755)
        for one in (ROOT, *PEOPLE):
            self.homes[one.name].mkdir(parents=True)
            os.chown(self.homes[one.name], one.uid, one.uid)
        if account is not None:
            self.state = folder / "others" / "state"
            self.state.parent.mkdir()
            os.chown(self.state.parent, account.uid, account.uid)

    def move_home(self, person: Person, home: Path) -> None:
        """From the next agent on the person's home is elsewhere."""
        passwd = self.folder / "passwd"
        text = passwd.read_text(encoding="ascii")
        passwd.write_text(text.replace(str(self.homes[person.name]), str(home)), encoding="ascii")
        self.homes[person.name] = home

    def profile(self, person: Person, text: str) -> None:
        (self.homes[person.name] / ".bash_profile").write_text(text + "\n", encoding="utf-8")

    def serve(self, **env: str) -> subprocess.CompletedProcess[str]:
        words = [self.python, "-I", "-S", str(self.archive), "serve", "--state", str(self.state)]
        if self.account is not None:
            words = ["setpriv", *(word.format(self.account.uid) for word in _NO_USER), *words]
        inside = ["unshare", "--mount", "sh", "-c", _INSIDE, "sh", str(self.folder), *self.before, *words]
        whole = {**self.env, **env}
        done = subprocess.run(inside, env=whole, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode == 0:
            self.agents.append(int((self.state / "lock").read_text(encoding="ascii")))
        return done

    def launch_as(
        self, link: Link, person: Person | str, launch_id: str, command: str | list[str], **keys: object
    ) -> None:
        """Launch as somebody, in the home of the person, with a log that nobody placed."""
        link.send(self.order(person, launch_id, command, **keys))

    def order(self, person: Person | str, launch_id: str, command: str | list[str], **keys: object) -> Message:
        name = person if isinstance(person, str) else person.name
        cwd = str(self.homes.get(name, "/"))
        told = {"run_as": name, "log_folder": str(self.logs), "log_new": True, "cwd": cwd}
        return self.message(launch_id, command, **{**told, **keys})

    def run_as(
        self, link: Link, person: Person | str, launch_id: str, command: str | list[str], **keys: object
    ) -> Message:
        self.launch_as(link, person, launch_id, command, **keys)
        return link.wait_for("exit", launch_id)

    def own_log(self, person: Person, launch_id: str) -> Path:
        """Where a person's log lies."""
        return self.logs / person.name / f"{launch_id}.log"

    def said(self, person: Person, launch_id: str) -> list[str]:
        """The lines of it, without the last word."""
        text = self.own_log(person, launch_id).read_text(encoding="utf-8")
        return text.partition("\n\nProgram Exit")[0].splitlines()

    def clean(self) -> None:
        super().clean()
        shutil.rmtree(self.folder)
