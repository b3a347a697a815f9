"""How many random cases the properties of the core are tried with."""

from __future__ import annotations

import os

import pytest

IN_CI, BESIDE_WORK = 2000, 200
"""A run beside somebody's work is to take a minute; CI and `make soak` find what it misses."""
_ASKED = os.environ.get("MUSTER_WALKS")
CASES = int(_ASKED or (IN_CI if os.environ.get("CI") == "true" else BESIDE_WORK))
COMPARED = CASES if _ASKED else CASES // 4
"""As many cases of what compares two ways to the same decision: each step is planned three times. `make soak` tries as
many of them as of the others."""
CROWDS = CASES if _ASKED else CASES // 8
"""As many where many tasks wait for the same: such a case takes several times as long."""
IN_TIME = pytest.mark.timeout(max(60, CASES / 10))
"""The deadline of a test that tries so many."""


def some(in_ci: int) -> int:
    """So many cases of a property that CI tries with `in_ci`, in the same proportion."""
    return max(10, in_ci * CASES // IN_CI)
