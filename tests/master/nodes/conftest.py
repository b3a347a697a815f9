"""Links of these tests do not wait before they try again."""

from __future__ import annotations

import pytest

from master.nodes import backoff


@pytest.fixture(autouse=True)
def _tries_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "BACKOFF_S", dict.fromkeys(("short", "long"), (0.001, 0.001)))
