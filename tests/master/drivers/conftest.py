"""What the tests of the way to a node share: a real sshd, and a master's side that goes there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.master.drivers.real_sshd import RealSshd
from tests.master.drivers.ssh_story import Site


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RealSshd]:
    """An sshd that runs."""
    made = RealSshd(tmp_path / "server")
    made.start()
    yield made
    made.close()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A master that knows no host key yet."""
    return Site(tmp_path)
