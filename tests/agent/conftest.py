"""A node for a test, cleaned of its processes afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .small_master import Node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node on which no agent runs yet."""
    made = Node(tmp_path)
    yield made
    made.clean()
