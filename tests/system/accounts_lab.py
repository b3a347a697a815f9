"""A lab on whose hosts nobody is root: the nodes' own agents are lab's, and alice and bob have accounts there, over
which their tasks run: alice by the nodes' entries, bob by conf.json. carol's account is there, and nobody names it."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any

from tests.system.lab import signal_to
from tests.system.root_lab import MappedLab
from tests.testbed.accounts import PEOPLE, make_key
from tests.testbed.bed import Testbed
from tests.testbed.host import Host
from tests.waiting import until


class AccountsLab(MappedLab):
    """`key_files`: where each one's key lies, by name."""

    def __init__(self, folder: Path, bed: Testbed, *hosts: Host, **sizes: int) -> None:
        self.key_files = {name: folder / "keys" / name for name in PEOPLE}
        (folder / "keys").mkdir(parents=True)
        for name, key in self.key_files.items():
            make_key(key)
            for host in hosts:
                let_in(host, name, key)
        super().__init__(folder, bed, hosts=list(hosts), **sizes)

    def _make_shared(self) -> None:
        super()._make_shared()
        (self.root / "train_logs").chmod(0o3777)

    def account(self, name: str) -> dict[str, Any]:
        """How it is entered: the key as it is named from the folder of the file on."""
        return {name: {"user_name": name, "key_file": f"keys/{name}"}}

    def write_conf(self, **more: Any) -> None:
        """Write conf.json, in which bob's account stands."""
        super().write_conf(**{"accounts": self.account("bob"), **more})

    def entry(self, host: Host, **changes: Any) -> dict[str, Any]:
        """What the registry says of a host, and of alice's account there."""
        return super().entry(host, **{"key_file": str(self.bed.key), "accounts": self.account("alice"), **changes})

    @property
    def host(self) -> Host:
        """The one, or the first."""
        return next(iter(self.hosts.values()))

    @property
    def connections(self) -> int:
        """One besides for each account whose agent lives."""
        alive = [self.agent_of(name, host) for host in self.hosts.values() for name in PEOPLE]
        return super().connections + sum(pid is not None for pid in alive)

    def agent_of(self, name: str, host: Host | None = None) -> int | None:
        """The pid of the agent of somebody's account, if it lives, as this machine counts."""
        host = host or self.host
        locks = (host.disk / "home" / name).glob(f".local/state/muster/*-{host.name}/lock")
        lock = next(locks, None)
        try:
            return None if lock is None else host.pid(int(lock.read_text(encoding="ascii")))
        except (FileNotFoundError, ValueError):
            return None

    def agent_pids(self) -> list[int | None]:
        """Those of accounts, too."""
        of_accounts = [self.agent_of(name, host) for host in self.hosts.values() for name in PEOPLE]
        return [*super().agent_pids(), *of_accounts]

    def state_of(self, name: str) -> Path:
        """The state folder of the agent of somebody's account, once there is one."""
        base = self.host.disk / "home" / name / ".local/state/muster"
        return until(f"a state folder of {name}", lambda: next(base.glob(f"*-{self.host.name}"), None))

    def kill_agent_of(self, name: str, host: Host | None = None) -> None:
        """End it at once."""
        signal_to(until(f"an agent of {name}", lambda: self.agent_of(name, host)), signal.SIGKILL)


def let_in(host: Host, name: str, key: Path) -> None:
    """Whoever has this key is let in to the account on the host."""
    keys = host.disk / "home" / name / ".ssh"
    keys.mkdir(mode=0o700, exist_ok=True)
    shutil.copy(key.with_suffix(".pub"), keys / "authorized_keys")
    for path in (keys, keys / "authorized_keys"):
        os.chown(path, PEOPLE[name], PEOPLE[name])


def shut_out(host: Host, name: str) -> None:
    """Nobody's key opens the account any more."""
    (host.disk / "home" / name / ".ssh" / "authorized_keys").write_text("", encoding="ascii")
