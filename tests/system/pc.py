"""Somebody's PC: a home of its own, and, where it is a host of the testbed, an address of its own. What is typed on it
is `muster`, and says nothing of where the master is or who one is, unless the test does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.client.terminal import MUSTER, ROOT, Terminal
from tests.testbed.host import Host
from tests.waiting import PATIENCE_S


class Pc:
    """`host`: where it is on the network; None: on this machine."""

    def __init__(self, folder: Path, host: Host | None = None) -> None:
        self.home = folder
        self._host = host
        (folder / "work").mkdir(parents=True)

    @property
    def logins(self) -> list[Path]:
        """The files of log-ins."""
        return sorted(self.home.glob("config/muster/logins/*"))

    def muster(self, *words: str, said: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command without a terminal; `more` is its environment."""
        return subprocess.run(
            self._words(words), cwd=self.home / "work", env={**self._environment(), **more}, input=said,
            capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False,
        )  # fmt: skip

    def terminal(self, *words: str, **more: str) -> Terminal:
        """Run a command at a terminal."""
        return Terminal(self._words(words), {**self._environment(), **more}, self.home / "work")

    def log_in(self, name: str, password: str, *words: str) -> str:
        """Come in with a password; what was told at the terminal."""
        with self.terminal("login", *words, "--user", name) as terminal:
            terminal.shows(b"Password of")
            terminal.types(f"{password}\n")
            code, said = terminal.ends()
        assert code == 0, said
        return said.decode()

    def _words(self, words: tuple[str, ...]) -> list[str]:
        entered = [] if self._host is None else ["nsenter", f"--target={self._host.init}", "--net", "--"]
        return [*entered, *MUSTER, *words]

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        return {**kept, "PYTHONPATH": str(ROOT), "HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / "config")}
