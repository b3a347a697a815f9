"""How a pytest process finds its tests: in the files that its run was given, with each folder read once. With the files
as arguments, pytest reads the folder of a file anew for each of them, which takes as long as all else."""

from __future__ import annotations

import gc
from collections.abc import Generator
from pathlib import Path

import pytest


class Chosen:
    """Lets pytest collect these files and no others, in their order. They are relative to the root."""

    def __init__(self, root: Path, files: list[str]) -> None:
        self._places = {file: at for at, file in enumerate(files)}
        self._paths = {str(path) for file in files for path in (root / file, *(root / file).parents)}

    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Whether a file or folder is passed over; None leaves it to others."""
        return None if str(collection_path) in self._paths else True

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """The first test begins first."""
        items.sort(key=lambda item: self._places[item.nodeid.partition("::")[0]])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests are no garbage: nothing looks through them, now or while they run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
