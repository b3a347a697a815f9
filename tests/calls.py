"""What something costs, in a measure that no machine's load changes."""

from __future__ import annotations

import sys
from collections.abc import Callable


def calls_of(work: Callable[[], object]) -> int:
    """How many functions it calls."""
    calls: list[str] = []
    sys.setprofile(lambda _frame, event, _arg: calls.append(event))
    try:
        work()
    finally:
        sys.setprofile(None)
    return len(calls)
