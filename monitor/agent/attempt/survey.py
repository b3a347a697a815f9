"""Which processes are of an attempt although nothing that they carry says so: who stood under its shim.

It owns the looking. `keeper` and `orphans` decide what follows from it.
"""

from __future__ import annotations

from typing import Dict, Set, Tuple

from .. import tree
from .attempt import ENDED, Attempt

EVERY_S = 10.0
Processes = Set[Tuple[int, int]]
"""By pid and start."""


class Survey:
    """`attempts` by launch id, and those whose shim is our own child by its pid: both are the keeper's tables."""

    def __init__(self, attempts: Dict[str, Attempt], shims: Dict[int, Attempt]) -> None:
        self._attempts = attempts
        self._shims = shims
        self._due = 0.0

    def look(self, now: float) -> None:
        """From time to time: what stands under shims of an agent before us would not become ours if they died, so it is
        remembered. `now`: monotonic seconds."""
        adopted = [one for one in self._attempts.values() if one.state != ENDED and not one.ours and not one.orphan]
        if now < self._due or not adopted:
            return
        self._due = now + EVERY_S
        processes = tree.everyone()
        for attempt in adopted:
            shim = processes.get(attempt.shim)
            if shim is not None and shim.start == attempt.shim_start:
                below = tree.descendants([attempt.shim], processes)
                attempt.members |= {(process.pid, process.start) for process in below}

    def fallen(self) -> Processes:
        """Return the processes that became our children and hide whose they are; those of a session that we know do not
        hide it."""
        sessions = {attempt.pid for attempt in self._attempts.values()}
        traces = (attempt.trace() for attempt in self._attempts.values())
        found = tree.strays(set(self._shims), {trace.launch_id: trace.uid for trace in traces})
        return {(process.pid, process.start) for process in found if process.session not in sessions}

    def fallen_later(self) -> Processes:
        """The same, of trees whose shim is long dead; nothing while another one's death is still to be heard of."""
        fallen = self.fallen()
        shims = (tree.look(pid) for pid in self._shims)
        return set() if any(shim is None or shim.state in "ZX" for shim in shims) else fallen
