"""How many random cases the properties of the core are tried with."""

from __future__ import annotations

import os

import pytest

IN_CI, BESIDE_WORK = 2000, 200
"""A run beside somebody's work is to take a minute; CI and `make soak` find what it misses."""
CASES = int(os.environ.get("MUSTER_WALKS", IN_CI if os.environ.get("CI") == "true" else BESIDE_WORK))
IN_TIME = pytest.mark.timeout(max(60, CASES / 10))
"""The deadline of a test that tries so many."""


def some(in_ci: int) -> int:
    """So many cases of a property that CI tries with `in_ci`, in the same proportion."""
    return max(10, in_ci * CASES // IN_CI)
