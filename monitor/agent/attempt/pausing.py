"""Attempts that stand still because the master asked for that: stopping their whole trees, letting them go on, and
seeing which of both is so.

It owns the stopping and the looking. Its finding about an attempt, `paused`, comes from the processes and from no note:
so the next agent, and one whose state folder was lost, knows it again, and sees it when somebody continues a task by
hand.
"""

from __future__ import annotations

import signal
from typing import Callable, Dict, Iterable, List, Optional, Set, Tuple

from .. import tree
from .attempt import RUNNING, Attempt

HURRY_S = 5.0
"""So long a tree that does not stand yet is looked at as often as the agent can: most stand at the second look."""
LOOK_S = 1.0


class Pausing:
    """`tell` is given an attempt of which it is news whether it stands."""

    def __init__(self, tell: Callable[[Attempt], None]) -> None:
        self._tell = tell
        self._stopping: Dict[str, Tuple[Attempt, float]] = {}
        """Those that are to stand and do not yet, and since when."""
        self._stand: Dict[str, Tuple[Attempt, Set[Tuple[int, int]]]] = {}
        """Those that stand, and the processes, by pid and start, that did when all of them were looked at."""
        self._moved: Set[str] = set()
        """Of these, those of which something was seen to move: once may be a process that is just dying."""
        self._look_at = 0.0

    def hurried(self, now: float) -> bool:
        """Whether `look` should be called several times a second."""
        return any(now - since < HURRY_S for _, since in self._stopping.values())

    def pause(self, attempt: Attempt, now: float) -> None:
        """Have its whole tree stand still. Told once it does."""
        if attempt.state != RUNNING or attempt.kill_asked or attempt.paused:
            return
        self._stopping.setdefault(attempt.launch_id, (attempt, now))
        self._stop(attempt)

    def resume(self, attempt: Attempt) -> None:
        """Have it go on; also where it is only in part that it stands, as an agent may have left it that died then.
        Told in any case: by that the master knows that all of it was let go on."""
        self._stopping.pop(attempt.launch_id, None)
        if attempt.state != RUNNING:
            return
        tree.send(_members(attempt), signal.SIGCONT)
        self._stands_no_more(attempt)
        self._tell(attempt)

    def ends(self, attempt: Attempt) -> None:
        """It is to end: whoever sees to that continues it, too."""
        self._stopping.pop(attempt.launch_id, None)
        self._goes_on(attempt)

    def recognise(self, attempts: Iterable[Attempt]) -> None:
        """See which of these stand, as an agent before us left them."""
        processes = tree.everyone()
        for attempt in attempts:
            members = _members(attempt, processes) if attempt.state == RUNNING else []
            if members and all(map(tree.stands, members)):
                self._stand[attempt.launch_id] = (attempt, _named(members))
                attempt.paused = True

    def look(self, now: float) -> None:
        """See which stand by now, and which do not any more."""
        for launch_id, (attempt, since) in list(self._stopping.items()):
            if attempt.state != RUNNING:
                del self._stopping[launch_id]
            elif (now - since < HURRY_S or now >= self._look_at) and self._stop(attempt):
                del self._stopping[launch_id]
                attempt.paused = True
                self._tell(attempt)
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        for launch_id, (attempt, members) in list(self._stand.items()):
            if attempt.state != RUNNING:
                del self._stand[launch_id]
                self._moved.discard(launch_id)
            elif _stand_still(members):
                self._moved.discard(launch_id)
            elif launch_id in self._moved:
                self._goes_on(attempt)
            else:
                self._moved.add(launch_id)

    def _stop(self, attempt: Attempt) -> bool:
        """Whether all of it stands; what does not is told to. A process that was being forked is met by the next
        call."""
        members = _members(attempt)
        moving = [process for process in members if not tree.stands(process)]
        tree.send(moving, signal.SIGSTOP)
        if moving or not members:
            return False
        self._stand[attempt.launch_id] = (attempt, _named(members))
        return True

    def _goes_on(self, attempt: Attempt) -> None:
        if self._stands_no_more(attempt):
            self._tell(attempt)

    def _stands_no_more(self, attempt: Attempt) -> bool:
        """Whether it did."""
        self._stand.pop(attempt.launch_id, None)
        self._moved.discard(attempt.launch_id)
        stood, attempt.paused = attempt.paused, False
        return stood


def _members(attempt: Attempt, processes: Optional[Dict[int, tree.Process]] = None) -> List[tree.Process]:
    """The living processes of its tree, found as for a kill."""
    if _has_shim(attempt):
        return tree.descendants([attempt.shim], tree.everyone() if processes is None else processes)
    return tree.trees([attempt.trace()])[attempt.launch_id]


def _has_shim(attempt: Attempt) -> bool:
    """Whether its shim still stands over it. One that is ours may be dead before we have heard of it, and is nobody
    else's pid until then; what it stood over has fallen to us."""
    shim = tree.look(attempt.shim) if attempt.shim else None
    return shim is not None and shim.state not in "ZX" and (attempt.ours or shim.start == attempt.shim_start)


def _named(members: Iterable[tree.Process]) -> Set[Tuple[int, int]]:
    return {(process.pid, process.start) for process in members}


def _stand_still(members: Iterable[Tuple[int, int]]) -> bool:
    """Whether none of them moves. Stopped processes fork nothing, so there are no others to look at."""
    for pid, start in members:
        found = tree.look(pid)
        if found is not None and found.start == start and found.state not in "ZX" and not tree.stands(found):
            return False
    return True
