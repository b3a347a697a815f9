"""A machine that dials in: the agent that `muster node token --write` gave out, a real process with its own state.

Owns starting it as the printed steps do, and ending it with what it started.
"""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.system.lab import Lab
from tests.waiting import until

NAME = "far"
ENTRY = {"name": NAME, "driver": "report", "gpu_count": 2, "gpu_probe": "declared", "slots": 4}


class Steps:
    """What `muster node token NAME` prints: the token, and the lines to type on the machine; after a rotation there is
    nothing to fetch."""

    def __init__(self, printed: str) -> None:
        lines = [line.strip() for line in printed.splitlines()]
        self.token = next(line for line in lines if line.count(".") == 1 and " " not in line)
        self.fetch = next((line for line in lines if line.startswith("python3 -c")), "")
        self.report = printed[printed.index("python3 muster-agent.pyz report") :].partition("\n\n")[0]
        self.units = [line for line in lines if "--unit" in line]


def files_with(secret: bytes, *places: Path) -> list[Path]:
    """The files beneath these folders that hold it. One that is gone before it could be read is none."""
    found = []
    for path in (path for place in places for path in place.rglob("*") if path.is_file()):
        with suppress(FileNotFoundError):
            if secret in path.read_bytes():
                found.append(path)
    return found


class FarNode:
    """Node `far` of a lab. `said`: what its caller wrote so far."""

    def __init__(self, lab: Lab, python: str = sys.executable) -> None:
        self.lab = lab
        self.python = python
        self.base = lab.state / "muster"
        self.archive = lab.folder / "muster-agent.pyz"
        self.log = lab.folder / "far.out"
        self.process: subprocess.Popen[bytes] | None = None
        self.token = ""
        self.authority = ""
        self.before: list[str] = []
        """What the command line of who dials begins with."""

    @property
    def said(self) -> str:
        """What the calling process wrote."""
        return self.log.read_text(encoding="utf-8") if self.log.exists() else ""

    def make_token(self, action: str = "make") -> dict[str, Any]:
        """As `muster node token far` does, with --rotate or --revoke for other actions; the agent is fetched, too."""
        with self.lab.client() as client:
            told = client.node_token(NAME, action)
            if not self.archive.exists():
                self.archive.write_bytes(base64.b64decode(client.call("node.archive", {})["content"]))
        self.token, self.authority = told["token"] or "", told["authority"]
        return told

    def muster(self, *words: str) -> str:
        """A command that must succeed; what it printed."""
        done = self.lab.muster(*words)
        assert done.returncode == 0, done
        return done.stdout

    def start(self, *words: str, token: str | None = None, port: int | None = None) -> subprocess.Popen[bytes]:
        """Dial the master, with a token on stdin."""
        where = f"127.0.0.1:{port or self.lab.keys['socket_info']['data_port']}"
        asked = ["--master", where, "--authority", self.authority]
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                [*self.before, self.python, str(self.archive), "report", "--node", NAME, *asked, *words],
                env=self.lab.environment(),
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
            )
        assert self.process.stdin is not None
        self.process.stdin.write((self.token if token is None else token).encode() + b"\n")
        self.process.stdin.close()
        return self.process

    def start_again(self, *words: str) -> subprocess.Popen[bytes]:
        """Dial with what is remembered."""
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                [*self.before, self.python, str(self.base / "muster-agent.pyz"), "report", "--node", NAME, *words],
                env=self.lab.environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        return self.process

    def type_steps(self) -> None:
        """Do on the machine what `muster node token` prints, as it stands."""
        port = self.lab.keys["socket_info"]["data_port"]
        steps = Steps(self.muster("node", "token", NAME, "--at", f"127.0.0.1:{port}"))
        self._type(steps.fetch)
        self._type(steps.report, steps.token + "\n")

    def _type(self, line: str, said: str = "") -> None:
        there = self.lab.folder / "home"
        there.mkdir(exist_ok=True)
        subprocess.run(
            ["/bin/sh", "-c", line], cwd=there, check=True, env=self.lab.environment(), input=said, text=True,
            capture_output=True,
        )  # fmt: skip

    def end_callers(self) -> int:
        """End whatever dials in the background; how many those were."""
        callers = [process.pid for process in self.lab.processes() if "report --node" in process.command]
        for pid in callers:
            os.kill(pid, signal.SIGTERM)
        return len(callers)

    def await_state(self, state: str) -> dict[str, Any]:
        """Wait until the master says so of the node."""

        def there() -> dict[str, Any] | None:
            with self.lab.client() as client:
                node: dict[str, Any] = dict(client.node(NAME))
            return node if node["state"] == state else None

        return until(f"{NAME} is {state}; it said: {self.said}", there)

    @property
    def folder(self) -> Path:
        """The agent's state folder."""
        return until("the agent's folder", lambda: next(self.base.glob(f"report-{NAME}-*/"), None))

    def agent_pid(self) -> int:
        """The agent's."""
        return int(until("an agent", lambda: (self.folder / "lock").read_text(encoding="ascii").strip()))

    def hang_up(self) -> None:
        """End the process that dials; the agent and its tasks stay."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.process = None

    def close(self) -> None:
        """End all of it."""
        self.hang_up()
        for lock in self.base.glob("report-*/lock"):
            with suppress(ProcessLookupError, ValueError):
                os.kill(int(lock.read_text(encoding="ascii")), signal.SIGTERM)
