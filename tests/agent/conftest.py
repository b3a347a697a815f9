"""A node for a test, cleaned of its processes afterwards; and one test of an agent at a time.

An agent looks for what is left of an attempt by its launch id on the whole machine, and these tests all call theirs t1:
so they stay on one worker where the suite runs side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .small_master import Node

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of this folder on one worker."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("agents"))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node on which no agent runs yet."""
    made = Node(tmp_path)
    yield made
    made.clean()
