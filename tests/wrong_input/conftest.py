"""Labs for mistakes, and a disk that is small."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import rights
from tests.wrong_input.mistakes import Lab8

SMALL_MIB = 12


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab8]:
    """A lab whose master is not started yet."""
    made = Lab8(tmp_path / "lab")
    yield made
    left = made.close()
    made.no_traceback()
    assert not left


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 12 MiB. The same is tested on a disk that pretends, in tests/master."""
    rights.need_root()
    folder = tmp_path / "small"
    folder.mkdir()
    options = f"size={SMALL_MIB}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "muster-test", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def small_lab(small_disk: Path, tmp_path: Path) -> Iterator[Lab8]:
    """A lab that lies on the small disk with all it has; the agents' state lies elsewhere, as it would."""
    made = Lab8(small_disk / "lab", state=tmp_path / "state")
    # What the master says on its terminal must be seen also while its disk is full.
    (made.folder / "master.out").symlink_to(tmp_path / "master.out")
    yield made
    left = made.close()
    made.no_traceback()
    assert not left
