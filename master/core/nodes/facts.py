"""The facts that an executor tells of a node, its agent's for one, and whether it can be talked to. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

RunsAs = Literal["owners", "another", "us"]
"""The account that the tasks of a node get. `owners`: each that of its owner, or it does not start; `another`: all the
same one, which is neither the master's nor root's; `us`: that of the master, or of root on its machine."""


class NodeState(StrEnum):
    """Whether the node can be talked to. Whether it may get tasks is `schedulable`, another matter."""

    CONNECTING = "connecting"
    ONLINE = "online"
    UNREACHABLE = "unreachable"
    UNTRUSTED = "untrusted"


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of the machine in the agent's welcome. `login_fault`: why tasks there do not begin with what a log-in
    gives, "" where they do. `machine`: its own id, "" where it has none. `uid`: the agent's, and that of tasks unless
    it `can_run_as` their owners; None: not said. `account`: the name of that, "" if it was not said. `tmp_disk_mib`:
    size of the file system of /tmp; None: not said. `runs_as`: None as long as the executor has not said it; then
    nothing of an owner who must be kept apart starts there."""

    boot_id: str
    state_id: str
    cpus: int
    memory_mib: int
    tmp_disk_mib: int | None = None
    hostname: str = ""
    python: str = ""
    version: str = ""
    login_fault: str = ""
    protocol: int = 1
    machine: str = ""
    uid: int | None = None
    account: str = ""
    can_run_as: bool = False
    runs_as: RunsAs | None = None

    @property
    def is_root(self) -> bool:
        """Would what it runs as itself run as root? One that does not say who it is may be root."""
        return self.can_run_as or self.uid in (0, None)

    @property
    def identity(self) -> str:
        """Which of the machines of one boot id it is: by its own id, else by its name, for containers share their
        kernel's boot id and often have no machine id."""
        return self.machine or self.hostname
