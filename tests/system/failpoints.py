"""Which crashes at a named point every run tries, by the promise that each could break; `make soak` tries all of them.

A case is the name of a point, with `:N` where the process dies when it comes there for the N-th time. The cases here
are a third of all, and the same in each run.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet

IN_EACH_RUN: dict[str, tuple[str, ...]] = {
    "a submit that was answered is never lost": ("submit.after_sync", "start.torn_kept", "compaction.journal_renamed"),
    "an attempt starts at most once": ("launch.after_sync", "agent.after_fork"),
    "two attempts of a task never live at the same time": ("started.received", "start.reconciled"),
    "two exclusive tasks never hold one GPU": ("exit.before_sync", "agent.before_exit_sent"),
    "what tasks may use of a shared GPU never exceeds its memory": ("launch.after_send:2",),
    "no task whose command was executed is restarted": ("started.before_sync:2", "shim.after_start"),
    "a lost connection is not a dead task": ("exit.after_ack", "shim.after_exit_record"),
    "killing reaches the whole tree": ("shim.before_exit_record",),
    "the three queues always parse": ("compaction.renamed:3", "compaction.archived"),
}


def some(cases: Iterable[str]) -> list[ParameterSet]:
    """The cases, of which those that are not in IN_EACH_RUN are for `make soak` alone."""
    chosen = {case for cases in IN_EACH_RUN.values() for case in cases}
    return [pytest.param(case, marks=[] if case in chosen else [pytest.mark.soak]) for case in cases]
