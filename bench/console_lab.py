"""Labs with a console beside their master, and its process; how a page in a browser is signed in."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.far_lab import FarLab, How
from bench.lab import DEADLINE_S, ROOT, BenchError, Lab, eventually
from tests.ports import free_ports


class ConsoleLab(Lab):
    """One whose conf.json has a console."""

    def __init__(self, workshop: Path, privacy: str) -> None:
        [self.web_port] = free_ports(1)
        self._privacy = privacy
        super().__init__(workshop, gpus=8)

    def _keys(self) -> dict[str, Any]:
        return {"web": {"port": self.web_port}, "privacy": self._privacy}


class FarConsoleLab(FarLab):
    """The same, of many nodes that dial in."""

    def __init__(self, workshop: Path, agents: int, how: How) -> None:
        [self.web_port] = free_ports(1)
        super().__init__(workshop, agents, how, web={"port": self.web_port})


CHROMIUM = "/usr/bin/chromium"
"""The browser that people have; the tests run a smaller one."""
SIGN_IN = """async ([token]) => {
    const asked = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token }) };
    const told = await (await fetch("/session", asked)).json();
    localStorage.setItem("muster.key", JSON.stringify(told.key));
}"""
"""The script that a page evaluates, with a token, to log in without its form."""


@contextmanager
def console_of(lab: ConsoleLab | FarConsoleLab) -> Iterator[int]:
    """Its process."""
    with (lab.folder / "web.out").open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "web", "--conf", str(lab.conf)],
            cwd=ROOT,
            env=lab.environment,
            stdout=out,
            stderr=out,
        )

    def answers() -> bool:
        if process.poll() is not None:
            raise BenchError(f"the console ended: {(lab.folder / 'web.out').read_text(encoding='utf-8')[-300:]}")
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{lab.web_port}/readyz", timeout=5) as told:
            return bool(told.status == 200)  # noqa: PLR2004  (HTTP's "OK")
        return False

    try:
        eventually(answers, "the console's first answer", 0.05)
        yield process.pid
    finally:
        process.terminate()
        process.wait(DEADLINE_S)
