"""Disks that fail, for tests of copies."""

from __future__ import annotations

import errno
import os

import pytest


@pytest.fixture
def disk_full_at_the_fifth_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four pieces are copied; there is no room for the fifth, nor ever after."""
    copied: list[int] = []
    real = os.copy_file_range

    def fill_up(*args: int) -> int:
        if len(copied) == 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        copied.append(real(*args))
        return copied[-1]

    monkeypatch.setattr(os, "copy_file_range", fill_up)
