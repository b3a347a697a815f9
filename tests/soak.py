"""What `make soak` tries and `make test` does not: most cases of families that each take seconds of real processes, and
seeds other than the constant ones. `make test` does the same in each run, so that only a change can make it red."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def one_in(every: int, cases: Iterable[Any]) -> list[ParameterSet]:
    """The cases, of which the first of every so many is tried with every change."""
    return [case if at % every == 0 else _soaked(case) for at, case in enumerate(map(_parameters, cases))]


def seed_of(variable: str, constant: int) -> int:
    """The seed of a run with random faults: that of the environment, or else always the same."""
    return int(os.environ.get(variable) or constant)


def _parameters(case: Any) -> ParameterSet:
    if isinstance(case, ParameterSet):
        return case
    return pytest.param(*case) if isinstance(case, tuple) else pytest.param(case)


def _soaked(case: ParameterSet) -> ParameterSet:
    return pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.soak])
