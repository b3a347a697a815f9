"""A lab to make mistakes in, and the one rule for what every mistake must get: a single line that says what to do."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from client.shapes import Task
from tests.faults import in_words
from tests.system.lab import ROOT, Lab, rewrite
from tests.waiting import until

ENDED = ("succeeded", "failed", "cancelled", "timed_out", "lost")
LINE = re.compile(r"error: ([a-z_]+): (.+)")


class Refusal(NamedTuple):
    """The one line that a mistake got."""

    code: str
    message: str


class Lab8(Lab):
    """One node named `node0` with 8 declared GPUs, in a folder that a test may spoil."""

    def __init__(self, folder: Path, *, state: Path | None = None) -> None:
        super().__init__(folder, nodes=1, state=state)

    def muster(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `muster`; its words may hold `--`."""
        done = self.muster_bytes(*words)
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode("utf-8", "replace")
        )

    def muster_bytes(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        """The same, with what it printed as bytes."""
        return subprocess.run(
            [sys.executable, "-m", "muster", "--conf", str(self.conf), *words],
            cwd=ROOT,
            env={**self.environment(), "COLUMNS": "120"},
            capture_output=True,
            timeout=120,
            check=False,
        )

    def start_whole(self) -> None:
        """Start the master and wait until its node takes tasks."""
        self.start()
        with self.client() as client:
            until("its node", lambda: {node["state"] for node in client.nodes()} == {"online"})

    def refused_start(self) -> Refusal:
        """Start a master that must refuse to; what it said."""
        done = subprocess.run(
            [sys.executable, "-m", "master", "--conf", str(self.conf)],
            cwd=ROOT,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout == ""
        return the_line(done, 1)

    def refused(self, *words: str, status: int = 1) -> Refusal:
        """Run a command of `muster` that must be refused; what it said."""
        done = self.muster(*words)
        assert done.stdout == ""
        return the_line(done, status)

    def change(self, **keys: Any) -> None:
        """Change keys of conf.json; None takes one out."""
        conf = json.loads(self.conf.read_text(encoding="utf-8"))
        conf.update(keys)
        conf = {key: value for key, value in conf.items() if value is not None}
        rewrite(self.conf, json.dumps(conf))

    def muster_seen(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `muster`, again until who is asked whether what it names is there says so within a submit's
        patience, which on a busy machine he may not at once."""

        def seen() -> subprocess.CompletedProcess[str] | None:
            done = self.muster(*words)
            return None if in_words(done.stdout + done.stderr, "places_unseen") else done

        return until("an answer to what is there", seen)

    def submit(self, *words: str) -> int:
        """Submit through the command line; the id."""
        done = self.muster("submit", *words)
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    def ended(self, task_id: int) -> Task:
        """Wait for the end of a task."""
        with self.client() as client:

            def look() -> Task | None:
                task = client.show(task_id)
                return task if task["state"] in ENDED else None

            return until(f"the end of task {task_id}", look)

    def tasks(self) -> dict[int, Task]:
        """All tasks that the master knows."""
        with self.client() as client:
            return {task["id"]: task for task in client.tasks(ended=True)}

    def no_traceback(self) -> None:
        """Whatever happened, nobody was shown the inside of the program: not on the terminal, not in the log."""
        for path in (self.folder / "master.out", self.folder / "server_log.log"):
            if path.is_file():
                text = path.read_text(encoding="utf-8", errors="replace")
                assert "Traceback" not in text, text[max(0, text.index("Traceback") - 500) :][:3000]


def the_line(done: subprocess.CompletedProcess[str], status: int) -> Refusal:
    """Check that a program said exactly one line, of the form that scripts rely on."""
    assert done.returncode == status, (done.returncode, done.stderr)
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    found = LINE.fullmatch(lines[0])
    assert found is not None, done.stderr
    return Refusal(found[1], found[2])
