"""Admission: the answer to a hello, by whether its sender may command this agent.

It owns the refusals and the words of the welcome. `authority` decides which master to obey.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from typing import Any, Callable, Dict, Optional

from wire.account import Door
from wire.agent import PROTOCOL

from ..folder import Folder
from ..machine import MIB, machine_id, tmp_disk_mib
from ..sample.host import read_memory
from .authority import Authority
from .connection import Connection


class Admission:
    """`version`: the digest of the archive that runs; `complain` writes to the agent's log; `door`: the accounts as
    which tasks may run. `login_fault`: what was wrong with the log-in shell here."""

    def __init__(self, folder: Folder, version: str, boot_id: str, door: Door, complain: Callable[[str], None]) -> None:
        self.login_fault = ""
        self._door = door
        self._folder = folder
        self._version = version
        self._boot_id = boot_id
        self._complain = complain
        self._authority = Authority(folder)
        self._state_id = folder.state_id()

    def admit(self, connection: Connection, hello: Dict[str, Any], master: Optional[Connection]) -> Optional[str]:
        """The incarnation of the master that said it, which is obeyed from now on; None: it was refused, and told so.

        `master`: the connection that commands now, if it was heard a moment ago.
        """
        try:
            epoch, incarnation = int(hello["epoch"]), str(hello["incarnation"])
            objection = self._authority.objection(epoch, incarnation, hello.get("lineage") or [])
        except (KeyError, TypeError, ValueError, IndexError) as error:
            self._complain(f"a hello that cannot be read: {error!r}")
            connection.closed = True
            return None
        if objection is not None:
            self._refuse(connection, "fenced", objection)
            return None
        if master is not None and master.incarnation != incarnation:
            self._refuse(connection, "busy", "another master's connection to this agent is alive")
            return None
        try:
            self._authority.obey(epoch, incarnation)
        except OSError as error:
            text = f"the master cannot be remembered in {self._folder.path}, so it is not obeyed: {error.strerror}"
            self._refuse(connection, "unwritable", text)
            return None
        return incarnation

    def welcome(self) -> Dict[str, Any]:
        """Return the welcome: what a master that is obeyed is told of this agent and its machine."""
        return {
            "op": "welcome",
            "protocol": PROTOCOL,
            "version": self._version,
            "pid": os.getpid(),
            "uid": os.geteuid(),
            "boot_id": self._boot_id,
            "machine": machine_id(),
            "state_id": self._state_id,
            "hostname": socket.gethostname(),
            "python": ".".join(str(part) for part in sys.version_info[:3]),
            "cpus": os.cpu_count() or 1,
            "memory_mib": int(read_memory()["total"]) // MIB,
            "tmp_disk_mib": tmp_disk_mib(),
            "now": time.time(),
            "login_fault": self.login_fault,
            "can_run_as": self._door.can_change,
            "account": self._door.name,
            "keeps_pace": True,
        }

    def _refuse(self, connection: Connection, code: str, text: str) -> None:
        self._complain(f"refused ({code}): {text}")
        known = {
            "epoch": self._authority.epoch,
            "incarnation": self._authority.incarnation,
            "folder": self._folder.path,
        }
        connection.send({"op": "refused", "code": code, "message": text, **known})
        connection.flush()
        connection.closed = True
