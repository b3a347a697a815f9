"""The records that the pytest processes of a stage write while they run, and the reader for the runner.

Each process appends JSON lines to a file of its own, each line in one write, so that everything up to the instant at
which a process dies is there. The kinds of lines are the functions of `Writer`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from json import dumps, loads  # by name, as the others here: a test can replace what is in the module
from os import write
from pathlib import Path
from time import monotonic
from typing import Any

SUFFIX = ".records"
ALONE = "alone"
"""The runner makes a file of this name beside the records when no other run of the stage is left."""


class Writer:
    """Appends the lines of this process; `name` is the worker's."""

    def __init__(self, folder: Path, name: str) -> None:
        self.stacks = (folder / f"{name}.stacks").open("w", encoding="utf-8")
        """Where this process writes the stacks of its threads when the runner asks for them."""
        self._file = os.open(folder / f"{name}{SUFFIX}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self.write("began", pid=os.getpid())

    def write(self, kind: str, **values: Any) -> None:
        """One line: its kind, the time, and what the kind says."""
        write(self._file, dumps({"kind": kind, "at": monotonic(), **values}).encode() + b"\n")


class Reader:
    """Reads the lines of all processes of one stage, each line once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, int] = {}

    def new(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The lines since the last call, each with the name of its worker."""
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            with path.open("rb") as file:
                file.seek(self._read.get(path.stem, 0))
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._read[path.stem] = self._read.get(path.stem, 0) + len(whole)
            for line in whole.splitlines():
                yield path.stem, loads(line)

    def stacks(self, worker: str) -> str:
        """The stacks that a worker wrote, or an empty text."""
        path = self._folder / f"{worker}.stacks"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
