"""A lab for each test, which fails if anything of it is left alive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.system.lab import Lab
from tests.system.oracle import Oracle
from tests.system.ssh_lab import SshLab
from tests.testbed.bed import Testbed

LabMaker = Callable[..., Lab]


@pytest.fixture
def make_system_lab(tmp_path: Path) -> Iterator[LabMaker]:
    """`make_system_lab(name, **what Lab takes)`: a lab that is ended with the test, and must then be gone."""
    labs: list[Lab] = []

    def make(name: str = "lab", **options: object) -> Lab:
        labs.append(Lab(tmp_path / name, **options))  # type: ignore[arg-type]
        return labs[-1]

    yield make
    for lab in labs:
        lab.kill_master()  # two may share their agents
    left = [process for lab in labs for process in lab.close()]
    assert left == []


@pytest.fixture
def lab(make_system_lab: LabMaker) -> Lab:
    """One lab with one node, not started yet."""
    return make_system_lab(nodes=1)


@pytest.fixture
def oracle(tmp_path: Path) -> Oracle:
    """Where the tasks of a test tell what they do."""
    return Oracle(tmp_path / "oracle")


@pytest.fixture(scope="package")
def testbed() -> Iterator[Testbed]:
    """Five hosts, the fourth behind the proxy. A test that asks for `ssh_lab` finds them as new."""
    with Testbed(5, inner=[4]) as bed:
        yield bed


@pytest.fixture
def ssh_lab(testbed: Testbed, tmp_path: Path) -> Iterator[SshLab]:
    """A lab of the first four hosts, not started yet: two by password, two by key, one of these through the proxy.
    Like `make_system_lab` it fails if anything is left alive."""
    lab = SshLab(tmp_path / "lab", testbed, hosts=testbed.hosts[:4])
    yield lab
    left = lab.close()
    testbed.renew()
    assert left == []
