"""Attempts whose shim is dead and left no exit: they are over only when nothing of their tree lives. Those of a state
folder that is gone are looked after in the same way, though their shims may live: these cannot be heard any more.

It owns the waiting for such trees, and killing them when asked. The code that the command ended with nobody saw.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Callable, List, Set, Tuple

from .. import tree
from ..folder import Folder
from . import record
from .attempt import Attempt
from .shim import KILL_AGAIN_S, LEFTOVER_GRACE_S

FIRST_LOOK_S = 0.05
LAST_LOOK_S = 2.0
MOST_TOLD = 20
"""So many processes are named at most."""


class Orphans:
    """`end` is told the attempt and the exit that was recorded. `fallen`: pid and start of what became our child since
    nobody else was left above it. `unproven` is told an attempt of which it is news what may be of it unproven, or,
    where we may signal none of its processes, which these are."""

    def __init__(
        self,
        folder: Folder,
        *,
        end: Callable[[Attempt, record.Line], None],
        fallen: Callable[[], Set[Tuple[int, int]]],
        unproven: Callable[[Attempt], None],
    ) -> None:
        self._folder = folder
        self._end = end
        self._fallen = fallen
        self._unproven = unproven
        self._attempts: List[Attempt] = []
        self._look_at = 0.0
        self._pause = FIRST_LOOK_S

    @property
    def any(self) -> bool:
        """Whether there are some."""
        return bool(self._attempts)

    def hurry(self) -> None:
        """The next look is to be at once."""
        self._look_at, self._pause = 0.0, FIRST_LOOK_S

    def add(self, attempt: Attempt) -> None:
        """Watch an attempt whose shim is dead. A kill that the shim did not finish goes on here.

        `attempt.lock` is the record's lock: a process before its exec holds it and cannot be told from the agent yet,
        so having it means that all of the tree can be seen. It is kept until the end is written.
        """
        attempt.orphan = True
        self._attempts.append(attempt)
        self._look_at, self._pause = 0.0, FIRST_LOOK_S

    def kill(self, attempt: Attempt, now: float) -> None:
        """TERM to the tree now, KILL after its grace."""
        if self._has_shim(attempt):
            with suppress(OSError):  # it then takes the grace of its launch
                record.ask_grace(self._folder, attempt.launch_id, attempt.grace_s)
            tree.send([tree.Process(attempt.shim, 0, attempt.shim_start, "")], signal.SIGTERM)
            return
        kill_at = now + max(0.0, attempt.grace_s)
        attempt.kill_at = kill_at if attempt.kill_at is None else min(attempt.kill_at, kill_at)
        tree.terminate(tree.trees([attempt.trace()])[attempt.launch_id])
        self._look_at, self._pause = 0.0, FIRST_LOOK_S

    def look(self, now: float) -> None:
        """See which trees are gone; kill those whose grace is over."""
        if not self._attempts or now < self._look_at:
            return
        self._take_fallen()
        found = tree.search([attempt.trace() for attempt in self._attempts])
        for attempt in list(self._attempts):
            members, candidates, attempt.cgroups = found[attempt.launch_id]
            if self._has_shim(attempt):
                self._remember(attempt)
                continue  # it ends what must end, and leaves the exit where we look
            attempt.members = {(process.pid, process.start) for process in members}
            self._note_unproven(attempt, [] if any(map(tree.may_signal, members)) else [*members, *candidates])
            if not members:
                if not candidates and not attempt.doubt:
                    self._over(attempt)
            elif attempt.kill_at is None:
                self._end_leftovers(attempt, now)
            elif now >= attempt.kill_at:
                tree.send(members, signal.SIGKILL)
        killing = any(attempt.kill_at is not None for attempt in self._attempts)
        self._pause = KILL_AGAIN_S if killing else min(self._pause * 2, LAST_LOOK_S)
        self._look_at = now + self._pause

    def _remember(self, attempt: Attempt) -> None:
        """Remember the processes below its shim as its own, also when the shim is dead."""
        below = tree.descendants([attempt.shim], tree.everyone())
        attempt.members = {(process.pid, process.start) for process in below}
        self._note_unproven(attempt, [])

    def _note_unproven(self, attempt: Attempt, candidates: List[tree.Process]) -> None:
        found = {process.pid for process in candidates}
        pids = sorted(sorted(found, key=lambda pid: (pid != attempt.pid, pid))[:MOST_TOLD])  # the command among them
        if pids != attempt.unproven:
            attempt.unproven = pids
            self._unproven(attempt)

    def _take_fallen(self) -> None:
        """A daemon whose parent ended between two looks. Where it may be of several trees, all of them wait for it."""
        known = {one for attempt in self._attempts for one in attempt.members}
        for one in self._fallen() - known:
            for attempt in self._attempts:
                attempt.members.add(one)

    def _end_leftovers(self, attempt: Attempt, now: float) -> None:
        """End the processes that the command left behind when it ended, as its shim would have done."""
        if attempt.kill_asked:
            self.kill(attempt, now)
        elif attempt.pid and not tree.is_alive(attempt.pid, attempt.pid_start):
            attempt.grace_s = LEFTOVER_GRACE_S
            self.kill(attempt, now)

    @staticmethod
    def _has_shim(attempt: Attempt) -> bool:
        return tree.is_alive(attempt.shim, attempt.shim_start)

    def _over(self, attempt: Attempt) -> None:
        if attempt.lock is None:
            try:
                attempt.lock, fd = record.reopen(self._folder, attempt.launch_id)
            except OSError:
                return  # as below
            if attempt.lock is None:
                os.close(fd)
                return  # somebody may still start or watch it
        left = [line for line in record.read(self._folder, attempt.launch_id) if line.get("is") == "exit"]
        line = left[0] if left else record.exit_line(None, _cause(attempt), attempt.error, attempt.started_at)
        try:
            if not left:
                record.append(attempt.lock, record.encode(line), sync=True)
        except OSError:
            return  # a full disk: the next look tries again, and until then nobody hears of the end
        os.close(attempt.lock)
        attempt.lock = None
        attempt.orphan = False
        self._attempts.remove(attempt)
        self._end(attempt, line)


def _cause(attempt: Attempt) -> str:
    return "killed" if attempt.kill_asked else "unknown"
