"""Keeps the tests of a group on one worker, and some workers without tests until the run beside this one is over. The
process that hands out tests has not collected any, so it reads the groups from what the workers recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling as Scheduling

from tests.runner.records import ALONE, Reader

__all__ = ["Scheduling", "group_scheduling"]


def group_scheduling(config: pytest.Config, log: Any, folder: Path, later: int) -> Scheduling:
    """A scheduler for the tests whose records are in the folder. The last workers, `later` of them, get tests once the
    folder has the file `ALONE`."""
    return _GroupScheduling(config, log, folder, later)


class _GroupScheduling(Scheduling):  # type: ignore[misc]  # xdist has no types
    """Hands out whole groups; a test without a group is one of its own."""

    def __init__(self, config: pytest.Config, log: Any, folder: Path, later: int) -> None:
        super().__init__(config, log)
        self._records = Reader(folder)
        self._alone = folder / ALONE
        self._later = later
        self._kept_back: list[Any] = []
        self._groups: dict[str, str] = {}

    def schedule(self) -> None:
        """Hand out the first tests."""
        if self.collection is None:
            self._kept_back = self.nodes[len(self.nodes) - self._later :]
        super().schedule()

    def _assign_work_unit(self, node: Any) -> None:
        if node not in self._kept_back:
            super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        if node in self._kept_back:
            return
        super()._reschedule(node)
        if self._kept_back and (not self.workqueue or self._alone.exists()):
            begin, self._kept_back = self._kept_back, []
            for each in begin:
                for _ in range(2):  # a worker runs a test when it knows the one after it
                    super()._reschedule(each)

    def _split_scope(self, nodeid: str) -> str:
        if not self._groups:  # asked for the first time, when all workers have collected
            lines = [line for _, line in self._records.new() if line["kind"] == "collected"]
            self._groups = {name: group or name for line in lines for name, _, _, group in line["tests"]}
        return self._groups[nodeid]
