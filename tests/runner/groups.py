"""Keeps the tests of a group on one worker. The process that hands out tests has not collected any, so it reads the
groups from what the workers recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling as Scheduling

from tests.runner.records import Reader

__all__ = ["Scheduling", "group_scheduling"]


def group_scheduling(config: pytest.Config, log: Any, folder: Path) -> Scheduling:
    """A scheduler for the tests whose records are in the folder."""
    return _GroupScheduling(config, log, Reader(folder))


class _GroupScheduling(Scheduling):  # type: ignore[misc]  # xdist has no types
    """Hands out whole groups; a test without a group is one of its own."""

    def __init__(self, config: pytest.Config, log: Any, records: Reader) -> None:
        super().__init__(config, log)
        self._records = records
        self._groups: dict[str, str] = {}

    def _split_scope(self, nodeid: str) -> str:
        if not self._groups:  # asked for the first time, when all workers have collected
            lines = [line for _, line in self._records.new() if line["kind"] == "collected"]
            self._groups = {name: group or name for line in lines for name, _, _, group in line["tests"]}
        return self._groups[nodeid]
