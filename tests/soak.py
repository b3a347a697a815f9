"""Families of cases that each take seconds of real processes: some of each are tried with every change (`make test`),
the others by `make soak`, and all by whoever runs the file with pytest alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def one_in(every: int, cases: Iterable[Any]) -> list[ParameterSet]:
    """The cases, of which the first of every so many is tried with every change."""
    return [case if at % every == 0 else _soaked(case) for at, case in enumerate(map(_parameters, cases))]


def _parameters(case: Any) -> ParameterSet:
    if isinstance(case, ParameterSet):
        return case
    return pytest.param(*case) if isinstance(case, tuple) else pytest.param(case)


def _soaked(case: ParameterSet) -> ParameterSet:
    return pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.soak])
