"""The stages of the runner: the pytest processes of each stage, and the files that each process gets."""

from __future__ import annotations

import ast
import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.runner import layers
from tests.runner.layers import Layers

WORKERS = "MUSTER_TEST_WORKERS"
"""The variable that says how many workers each run has, in place of the numbers here, which are right for two cores."""
BROWSER = "playwright", "tests.web.browser"
"""A module that uses one of these drives Chromium."""


@dataclass(frozen=True)
class Run:
    """One pytest process with its workers."""

    name: str
    layers: tuple[str, ...]
    workers: int
    distribution: str
    deadline_s: float
    later: int = 0
    """So many more workers begin when no other run of the stage is left."""
    browser: bool | None = None
    """Whether it runs the tests that drive a browser (in a network of its own: Chromium gives up what it is fetching
    whenever an address of the machine comes or goes), those that drive none, or (None) both."""

    @property
    def marks(self) -> str:
        """The tests of it, as pytest's option -m."""
        chosen = f"({' or '.join(self.layers)}) and not soak"
        return chosen if self.browser is None else f"{chosen} and {'' if self.browser else 'not '}browser"


STAGES: dict[str, tuple[Run, ...]] = {
    # Tests that compute, and some that wait: a worker more than cores. Who has no test left takes over another's.
    "A": (Run("A", ("unit", "master"), 3, "worksteal", 60),),
    # Tests that mostly wait: each needs about a third of a processor's time. Those that share an expensive fixture stay
    # on one worker. A browser needs half of the processors' time, so the others have one worker more when it is done.
    "B": (
        Run("B", ("real", "storm"), 6, "loadgroup", 120, later=1, browser=False),
        Run("B in a browser", ("real", "storm"), 1, "loadgroup", 120, browser=True),
    ),
}


def stages(chosen: Sequence[str]) -> dict[str, tuple[Run, ...]]:
    """The stages for these layers alone, with the number of workers that the environment asks for."""
    workers = os.environ.get(WORKERS)
    narrowed = {}
    for name, runs in STAGES.items():
        some = [replace(run, layers=tuple(layer for layer in run.layers if layer in chosen)) for run in runs]
        if workers:
            if not workers.isdecimal() or int(workers) < 1:
                raise SystemExit(f"{WORKERS} must be a number of workers from 1, not {workers!r}")
            some = [replace(run, workers=int(workers), later=0) for run in some]
        if kept := tuple(run for run in some if run.layers):
            narrowed[name] = kept
    return narrowed


class Suite:
    """The test files beneath a root, and the layers that each may have. Collecting takes seconds in each worker, so a
    worker only gets the files that can have tests of its layers."""

    def __init__(self, root: Path) -> None:
        options = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
        table = layers.read((root / layers.TABLE).read_text(encoding="utf-8"))
        folders = [root / folder for folder in options["testpaths"]]
        files = sorted(file for folder in folders for file in folder.rglob("test_*.py"))
        self._layers = {file.relative_to(root).as_posix(): _possible(table, root, file) for file in files}
        self._browser = {
            file.relative_to(root).as_posix(): _drives_a_browser(file.read_text(encoding="utf-8")) for file in files
        }

    def files(self, run: Run) -> list[str]:
        """The files for a run. Those with many faults come first, since they take longest."""
        found = [
            file
            for file, possible in self._layers.items()
            if possible & set(run.layers) and run.browser in (None, self._browser[file])
        ]
        return sorted(found, key=lambda file: "storm" not in self._layers[file])


def _drives_a_browser(text: str) -> bool:
    """Whether a test file imports one of the modules. The words alone can also stand in a text that it writes."""
    if not any(name in text for name in BROWSER):
        return False
    try:
        tree = ast.parse(text)
    except SyntaxError:  # pytest tells it
        return False
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return any((node.module or "").startswith(BROWSER) for node in imports)


def _possible(table: Layers, root: Path, file: Path) -> set[str]:
    """The layers that tests of a file can have: its path's, and those of the fixtures and marks that it names."""
    text = file.read_text(encoding="utf-8")
    path = file.relative_to(root).as_posix()
    fixtures = set(re.findall(r"\w+", text)) & table.fixtures.keys()
    marks = set(re.findall(r"pytest\.mark\.(\w+)", text)) & set(layers.LAYERS)
    return {
        table.of(path),
        *(table.of(path, [name]) for name in fixtures),
        *(table.of(path, (), [name]) for name in marks),
    }
