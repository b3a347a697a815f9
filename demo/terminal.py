"""Types `muster` commands as a person would, and shows them with what they answer.

Owns how a command is run and what counts as its failure; what is typed is the demo's.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TIMEOUT_S = 120.0
STREAM_S = 600.0
_BOLD, _PLAIN = ("\033[1m", "\033[0m") if sys.stdout.isatty() and "NO_COLOR" not in os.environ else ("", "")


class DemoError(Exception):
    """Something was not as it must be; the text says what."""


class Terminal:
    """A shell prompt whose `muster` finds the master of one folder. `folder` holds conf.json."""

    def __init__(self, folder: Path) -> None:
        self._muster = str(Path(sys.executable).with_name("muster"))
        self._environ = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        self._environ["MUSTER_CONF"] = str(folder / "conf.json")
        self._environ["XDG_STATE_HOME"] = str(folder / "state")
        self._environ["XDG_CONFIG_HOME"] = str(folder / "config")  # this lab is to be gone without a trace
        self._environ["MUSTER_AGENT_IDLE_S"] = "1"
        self._folder = folder

    def say(self, text: str) -> None:
        """A line of explanation."""
        print(f"\n{_BOLD}# {text}{_PLAIN}", flush=True)

    def show(self, *words: str) -> None:
        """Type a command and let its output be seen. Raises DemoError if it fails."""
        self._prompt(words)
        code = self._run(words, capture=False).returncode
        if code:
            raise DemoError(f"`muster {shlex.join(words)}` ended with {code}")

    def submit(self, *words: str) -> int:
        """Type a submit, show the id that it prints, and give it."""
        words = ("submit", *words)
        self._prompt(words)
        answer = self.ask(*words)
        print(answer["id"], flush=True)
        return int(answer["id"])

    def ask(self, *words: str) -> Any:
        """Return the command's answer as JSON, without showing it. Raises DemoError if it fails."""
        done = self._run((words[0], "--json", *words[1:]), capture=True)
        if done.returncode:
            raise DemoError(f"`muster {shlex.join(words)}` ended with {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def code(self, *words: str) -> int:
        """The exit code of a command that nobody sees."""
        return self._run(words, capture=True).returncode

    def stream(self, *words: str) -> Iterator[str]:
        """Type a command and give each line of its output at the moment that it is shown. Raises DemoError if it has
        not ended after STREAM_S."""
        self._prompt(words)
        late = threading.Event()
        with subprocess.Popen(
            [self._muster, *words], cwd=self._folder, env=self._environ, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip

            def end() -> None:
                late.set()
                process.kill()

            alarm = threading.Timer(STREAM_S, end)
            alarm.start()
            try:
                for line in process.stdout or ():
                    print(line, end="", flush=True)
                    yield line
            finally:
                alarm.cancel()
                process.terminate()
                process.wait()
        if late.is_set():
            raise DemoError(
                f"`muster {shlex.join(words)}` had not ended after {STREAM_S:.0f} s: this machine is slow, or busy "
                "with other things; try again when it is quiet"
            )

    def _prompt(self, words: tuple[str, ...]) -> None:
        print(f"\n{_BOLD}$ muster {shlex.join(words)}{_PLAIN}", flush=True)

    def _run(self, words: tuple[str, ...], *, capture: bool) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [self._muster, *words], cwd=self._folder, env=self._environ, stdin=subprocess.DEVNULL,
                capture_output=capture, text=True, timeout=TIMEOUT_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise DemoError(f"`muster {shlex.join(words)}` was silent for {TIMEOUT_S:.0f} s") from None
