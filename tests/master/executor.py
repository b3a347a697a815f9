"""An executor that does with effects what a test says."""

from __future__ import annotations

from collections.abc import Callable

from master.core.effects import NodeEffect
from master.core.executor import Executor


class Played:
    """Gives the effects to `carry_out`."""

    def __init__(self, carry_out: Callable[[list[NodeEffect]], None]) -> None:
        self._carry_out = carry_out

    def perform(self, effects: list[NodeEffect]) -> None:
        self._carry_out(effects)

    def close(self) -> None:
        pass


def played(carry_out: Callable[[list[NodeEffect]], None]) -> Callable[[str], Executor]:
    """For `Engine.executor_of`: all nodes have this executor."""
    executor = Played(carry_out)
    return lambda _node: executor
