"""Helpers that keep the rights of whoever runs the tests: the real program, from where it has become somebody on, and
unable to load anything more, as one is that may not read our code."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from master.helpers.frames import Place, Setup
from master.helpers.helper import PATIENCE_S, Helper
from master.helpers.starting import greet
from wire.errors import ForbiddenError
from wire.message import Message

SCRIPT = """
import os, socket, sys
from master.helpers import program

class Closed:
    def find_spec(self, name, path=None, target=None):
        os.write(2, f"loads {name}\\n".encode())
        raise ImportError(name)

program.IDLE_S = float(sys.argv[2])
control = socket.socket(fileno=int(sys.argv[1]))
control.send(program.READY)
setup = program.msgspec.json.decode(control.recv(program.SETUP_BYTES), type=program.Setup)
sys.meta_path.insert(0, Closed())
program._Helper(control, setup).serve()
"""


def setup_of(root: Path, needed: tuple[Place, ...] = ()) -> Setup:
    """What a helper is told: `data` is visible."""
    return Setup(
        root=str(root),
        visible=("data",),
        files={"data/own/{user}": "own"},
        log_folder=str(root / "logs"),
        needed=list(needed),
    )


class Spawned:
    """Starts them, but for accounts that are not there. `idle_s`: after so long without a call they end;
    `patience_s`: so long they may take to take one."""

    def __init__(
        self, setup: Setup, *, idle_s: float = 30.0, missing: str = "dave", patience_s: float = PATIENCE_S
    ) -> None:
        self._setup = setup
        self._idle_s = idle_s
        self._missing = missing
        self._patience_s = patience_s
        self.started: list[str] = []
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, account: str) -> Helper:
        """As `Starter`."""
        self.started.append(account)
        if account == self._missing:
            raise ForbiddenError(Message("no_account_here", account=account, said="there is none"))
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            words = [sys.executable, "-c", SCRIPT, str(number), str(self._idle_s)]
            process = subprocess.Popen(words, pass_fds=[number], stderr=subprocess.PIPE)
        self.running.append(process)
        greet(control, account, self._setup)
        return Helper(account, control, self._patience_s)

    def close(self) -> str:
        """Wait for the end of all; what they complained of."""
        return "".join(process.communicate(timeout=60)[1].decode() for process in self.running)
