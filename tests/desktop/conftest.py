"""What the tests of the desktop client share."""

from __future__ import annotations

import pytest

from master.desktop import pushes


@pytest.fixture
def _quick_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables are told more often than in real life, where a test would wait for them."""
    monkeypatch.setattr(pushes, "EVERY_S", 0.2)
