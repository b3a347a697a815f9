"""Another account of this machine: who it is, whether a command may run as it, and becoming it.

It owns the refusals and the dropping of rights, for the agent's forks and for the master's helpers. Accounts are
looked up in processes of their own only, since the directory service that knows them may hang; what one has become is
for good.
"""

from __future__ import annotations

import errno
import os
import pwd
import re
import socket
from typing import Any, Dict, NamedTuple, Optional, Sequence

FIRST_PERSON = 1000
"""Uids before this are the system's."""
NOBODY = 65534
"""The uid of accounts that have none here; it owns the files of unknown accounts."""
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}\Z")
"""It becomes the name of a folder."""
_CHOWN, _KILL, _SETGID, _SETUID = 0, 5, 6, 7
_NEEDED = 1 << _CHOWN | 1 << _KILL | 1 << _SETGID | 1 << _SETUID


class AccountError(Exception):
    """A command cannot run as that account; the message says why, and what to do. `is_nodes`: whoever owns the command
    can do nothing about it."""

    def __init__(self, text: str, *, is_nodes: bool = False) -> None:
        super().__init__(text)
        self.is_nodes = is_nodes


class Account(NamedTuple):
    """An account, as the directory service has it now."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str

    def variables(self) -> Dict[str, str]:
        """Those that every log-in of it has."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell}


def own() -> Account:
    """The account of this process; one that no directory knows, as in a container, is called by its number."""
    uid = os.geteuid()
    try:
        return _of(pwd.getpwuid(uid))
    except KeyError:
        return Account(str(uid), uid, os.getegid(), "/", "/bin/sh")


def can_change() -> bool:
    """Whether this process may become others, and may give files away and signal them; not so in some containers."""
    return os.geteuid() == 0 and _capabilities("CapEff") & _NEEDED == _NEEDED


class Door:
    """The accounts that the commands of this agent may run as. `name`: its own account; `can_change`: see the
    function."""

    def __init__(self) -> None:
        self.name = own().name
        self.can_change = can_change()

    def account_of(self, message: Dict[str, Any]) -> Optional[str]:
        """Return the account that the command of a launch or a probe runs as; None: the agent's own. Raises
        AccountError."""
        name = message.get("run_as")
        if name is None:
            return None
        allowed = message.setdefault("run_as_allowed", [])
        if not isinstance(name, str) or not NAME.match(name) or not isinstance(allowed, list):
            raise AccountError(f"{str(name)[:80]!r} is not the name of an account")
        if self.can_change:
            return name
        if os.geteuid() != 0 and name == self.name:
            return None
        host, cure = socket.gethostname(), "start it as root (docs/deployment.md says how)"
        if os.geteuid() == 0:
            cure = "it is root without the right to (in a container: CAP_SETUID, CAP_SETGID, CAP_CHOWN and CAP_KILL)"
        text = f"the agent on {host} runs as {self.name} and cannot run anything as {name}: {cure}"
        raise AccountError(text, is_nodes=True)


def find(name: str, allowed: Sequence[Any], elsewhere: str = ", or choose another node") -> Account:
    """The account, if commands may run as it. `allowed`: names and uids of those of the system that may; `elsewhere`:
    what else can be done where there is none. It may hang where the directory service does. Raises AccountError."""
    host = socket.gethostname()
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        cure = f"make it there (`sudo adduser --uid N {name}`, with the uid that it has on the other machines)"
        raise AccountError(f"there is no account {name} on {host}: {cure}{elsewhere}") from None
    is_systems = found.pw_uid < FIRST_PERSON or found.pw_uid == NOBODY
    if is_systems and name not in allowed and found.pw_uid not in allowed:
        cure = "if that is meant, name it in `run_as_allowed` of conf.json"
        raise AccountError(f"{name} (uid {found.pw_uid}) on {host} is an account of the system's: {cure}")
    return _of(found)._replace(name=name)


def become(account: Account) -> None:
    """Give up what this process may, for good: groups first, then group, then user, as only root may do the first two.
    Raises AccountError."""
    try:
        groups = os.getgrouplist(account.name, account.gid)
        os.setgroups(groups)
        os.setresgid(account.gid, account.gid, account.gid)
        os.setresuid(account.uid, account.uid, account.uid)
    except OSError as error:
        text = f"nothing can become {account.name} (uid {account.uid}) on {socket.gethostname()}: {error.strerror}"
        is_unknown = error.errno == errno.EINVAL  # this very number, in a container that has some only
        raise AccountError(text, is_nodes=not is_unknown) from None
    _verify(account, groups)


def _verify(account: Account, groups: Sequence[int]) -> None:
    """Raise AccountError unless only the account's rights are left, whatever the kernel is set up to keep."""
    dropped = (
        os.getresuid() == (account.uid,) * 3
        and os.getresgid() == (account.gid,) * 3
        and set(os.getgroups()) == set(groups)
        and (account.uid == 0 or not (_capabilities("CapPrm") or _capabilities("CapEff") or _returns()))
    )
    if not dropped:
        text = f"the rights of root could not be dropped for {account.name} on {socket.gethostname()}"
        raise AccountError(f"{text}: start the agent without securebits and capabilities of its own", is_nodes=True)


def _returns() -> bool:
    try:
        os.setuid(0)
    except PermissionError:
        return False
    return True


def _capabilities(kind: str) -> int:
    with open("/proc/self/status", "rb") as file:
        lines = file.read().split(b"\n")
    name = kind.encode() + b":"
    return int(next(line for line in lines if line.startswith(name)).split()[1], 16)


def _of(found: pwd.struct_passwd) -> Account:
    return Account(found.pw_name, found.pw_uid, found.pw_gid, found.pw_dir, found.pw_shell or "/bin/sh")
