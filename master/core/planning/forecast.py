"""When a task can start that has to wait for others to end: what it will then have of a node, or of a licence, and who
has to end before.

Pure. The end of a task is known by its limit, or by what its like took. Tasks of which nobody knows end last.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import Any, TypeAlias

from master.core.nodes.inventory import Inventory
from master.core.nodes.node import Node
from master.core.nodes.resources import GPUS, Free, FreeNode, Need, rows_of_cluster
from master.core.planning.expected import Runs
from master.core.tasks.attempt import part_on
from master.core.tasks.request import Request, request_of
from master.core.tasks.task import Task

_NEVER = float("inf")


class Hold:
    """The resources that are kept on one node, or of a licence, for `task`: these GPUs (`gpus`), and of what is counted
    all but `spare`. `until`: when it is expected to start, None where nobody knows; `holders`: the tasks that have to
    end before."""

    __slots__ = ("gpus", "holders", "spare", "task", "until")

    def __init__(
        self, task: int, gpus: frozenset[int], spare: dict[str, int], until: float | None, holders: tuple[int, ...]
    ) -> None:
        self.task = task
        self.gpus = gpus
        self.spare = spare
        self.until = until
        self.holders = holders

    def copy(self, task: int, until: float | None) -> Hold:
        """The same again, for another node, task or time."""
        return Hold(task, self.gpus, dict(self.spare), until, self.holders)


NO_HOLDS: Mapping[str, Hold] = MappingProxyType({})


def ends_before(end: float | None, hold: Hold) -> bool:
    """Will a task that ends then (None: nobody knows) have ended before the one that this is kept for could start?
    Nothing else decides whether a task may pass a reservation."""
    return end is not None and hold.until is not None and end <= hold.until


Ahead: TypeAlias = "tuple[Sequence[Task], Hold | None]"
"""The reservation on a node, if the tasks there end in this order."""


_Timed: TypeAlias = tuple[float, float, int, Task]
"""When a task ends, when it began, and its id: by these they are sorted."""
_TASK: Callable[[_Timed], Task] = itemgetter(3)
_ID: Callable[[Task], int] = attrgetter("id")


class InOrder:
    """The tasks on a node in the order in which they end (`tasks`, another list whenever the order is another).
    `timed`: those that have begun, sorted, with the keys of it: these hold from `begin` until `end`, while nothing of
    the tasks changes and none of their `owners` has more runs than when there were so many (`runs`). `fresh`: the
    others."""

    __slots__ = ("_begun", "begin", "end", "fresh", "owners", "runs", "tasks", "timed")

    def __init__(self, tasks: list[Task]) -> None:
        self.tasks = tasks
        self.timed: list[_Timed] = []
        self._begun = list[Task]()
        self.begin, self.end = _NEVER, _NEVER
        self.fresh = tuple([task for task in tasks if not task.started_at])
        self.owners = tuple({task.owner for task in tasks})
        self.runs = 0

    def hold(self, timed: list[_Timed], now: float) -> None:
        """From now on it is by these keys that those stand which have begun."""
        self.timed = sorted(timed)
        self._begun = list(map(_TASK, self.timed))
        self.begin, self.end = now, self.timed[0][0] if timed else _NEVER

    def sort(self, fresh: Iterable[_Timed]) -> None:
        """Put all in order, with these keys of those that have not begun."""
        tasks = self._begun.copy() if self.fresh else self._begun
        for one in sorted(fresh, reverse=True):
            tasks.insert(bisect_left(self.timed, one), one[3])
        if tasks != self.tasks:
            self.tasks = tasks
        if not self.fresh:
            self._begun = self.tasks  # once: most nodes have no others


IN_ORDER = "in order"
"""The name under which it is kept among the findings about a node."""


class Forecast:
    """When the tasks that run will have ended. `tasks`: by id; `at_most`: seconds that a task takes, None if nobody
    knows; `now`: in seconds since the epoch; `found_on`: by node what was found out before, while it is as it was, and
    its tasks are; `runs`: by which `at_most` goes."""

    def __init__(
        self,
        tasks: Mapping[int, Task],
        at_most: Callable[[Task], float | None],
        now: float,
        found_on: Callable[[str], dict[Hashable, Any]] | None = None,
        runs: Callable[[], Runs] | None = None,
    ) -> None:
        self.now = now
        self._found_on = found_on
        self._runs = runs
        self._runs_now: Runs | None = None
        self._owners_since: dict[int, set[str]] = {}
        self._tasks = tasks
        self._at_most = at_most
        self._ends: dict[int, float | None] = {}
        self._holders: dict[str, Sequence[Task]] = {}

    def task(self, task_id: int) -> Task:
        """One of them."""
        return self._tasks[task_id]

    def ends(self, task_id: int) -> float | None:
        """When a task that would start now, or runs, will have ended; None if nobody knows. One that takes longer than
        its like did ends at its limit."""
        if task_id in self._ends:
            return self._ends[task_id]
        end = self._ends[task_id] = self.end_of(self._tasks[task_id])
        return end

    def end_of(self, task: Task) -> float | None:
        """Return the same of a task that need not be one of them."""
        takes = self._at_most(task)
        if takes is None:
            return None
        now = self.now
        begun = (now if task.started_at is None else task.started_at) - task.ran_s
        end = begun + takes
        if end < now and task.time_limit_s is not None:
            end = begun + task.time_limit_s
        return end if end >= now else None

    def hold(self, task_id: int, node: Node, request: Request, gpus: Collection[int] = ()) -> Hold | None:
        """Return the reservation on a node with which a task starts there as soon as it can; `gpus`: preferably these.
        None if it could not even if the node were empty."""
        if self._found_on is None:
            return self._worked_out(task_id, node, request, gpus)
        asked, in_order = (request, tuple(gpus)), self._holders_on(node)
        found = self._found_on(node.name)
        known: Ahead | None = found.get(asked)
        if known is None or (known[0] is not in_order and _ids(known[0]) != _ids(in_order)):
            known = found[asked] = (in_order, self._worked_out(task_id, node, request, gpus))
        hold = known[1]
        return None if hold is None else hold.copy(task_id, self._until(hold.holders))

    def _worked_out(self, task_id: int, node: Node, request: Request, gpus: Collection[int]) -> Hold | None:
        wanted = set(gpus)
        needs = request.needs_on(node.name)
        if wanted and all(node.why_closed_for_long(gpu) is None for gpu in wanted):
            found = self._on_node(task_id, node, tuple(_exactly(need, wanted) for need in needs))
            if found is not None:
                return found
        return self._on_node(task_id, node, needs)

    def _until(self, holders: Sequence[int]) -> float | None:
        """When all of these have ended, of whom the last one does so last."""
        return self.ends(holders[-1]) if holders else self.now

    def not_before(self, node: Node, need: Need) -> tuple[float, int] | None:
        """Before when so many whole GPUs as are needed of a node cannot be free, and before how many tasks have ended:
        found without a look at each GPU. None if there are too few."""
        free, ended = node.free_soon, 0
        if free >= need.amount:
            return self.now, ended
        if len(node.spec.gpu_models) < need.amount:
            return None
        for holder in self._holders_on(node):
            part = part_on(holder.allocation, node.name)
            free += len(part.gpus) if part is not None and holder.within is None else 0
            ended += 1
            if free >= need.amount:
                until = self.ends(holder.id)
                return float("inf") if until is None else until, ended
        return None

    def _holders_on(self, node: Node) -> Sequence[Task]:
        """The tasks on a node, in the order in which they end."""
        found = self._holders.get(node.name)
        if found is None:
            found = self._holders[node.name] = self._order_on(node)
        return found

    def _order_on(self, node: Node) -> Sequence[Task]:
        """As it was found before; tasks whose owners have more runs by now are looked at anew, and those that have not
        begun."""
        if self._found_on is None or self._runs is None:
            return self._in_order(map(self.task, node.active))
        if self._runs_now is None:
            self._runs_now = self._runs()
        kept, runs, now = self._found_on(node.name), self._runs_now, self.now
        known: InOrder | None = kept.get(IN_ORDER)
        if known is None:
            known = kept[IN_ORDER] = InOrder(list(map(self.task, node.active)))
        is_other = True
        if not known.begin <= now <= known.end:
            known.hold([self._timed(task) for task in known.tasks if task.started_at], now)
        elif self._have_run_more(known, runs):
            (total, last), before = runs, known.runs
            timed = [self._timed(one[3]) if last.get(one[3].owner, total) > before else one for one in known.timed]
            known.hold(timed, now)
        else:
            is_other = bool(known.fresh)
        if is_other:
            known.sort(map(self._timed, known.fresh))
        known.runs = runs.total
        return known.tasks

    def _have_run_more(self, known: InOrder, runs: Runs) -> bool:
        """Has one of the owners more runs by now? For one who has none all runs count."""
        before = known.runs
        if before == runs.total:
            return False
        if before not in self._owners_since:
            self._owners_since[before] = runs.owners_since(before)
        newer = self._owners_since[before]
        return not newer.isdisjoint(known.owners) or not all(owner in runs.last for owner in known.owners)

    def _in_order(self, tasks: Iterable[Task]) -> Sequence[Task]:
        return list(map(_TASK, sorted(map(self._timed, tasks))))

    def _timed(self, task: Task) -> _Timed:
        ends, number = self._ends, task.id
        if number not in ends:
            ends[number] = self.end_of(task)
        return (ends[number] or _NEVER, task.started_at or self.now, number, task)

    def licence(self, task_id: int, inventory: Inventory, need: Need) -> Hold | None:
        """The same of a licence. None if there are not so many."""

        def give_back(holder: Task) -> None:
            free.give_back([one for one in request_of(holder).shared if one.resource == need.resource], None)

        free = Free(inventory.cluster, rows_of_cluster(inventory.cluster))
        active = {holder for node in inventory.nodes.values() for holder in node.active}
        holders = [one for one in map(self.task, active) if _asks(request_of(one), need.resource)]
        return self._ahead(task_id, free, (need,), self._in_order(holders), give_back)

    def needed(self, node: Node, request: Request, holders: Iterable[int]) -> list[int]:
        """Return those of the tasks that end before this fits on a node without which it would not fit: of several
        that end first, the last one may give back enough by itself."""
        needs, needed, rest = request.needs_on(node.name), list[Task](), list(map(self.task, holders))
        while True:
            free = FreeNode.soon(node)
            for task in needed:
                _give_back(free, node.name, task)
            ended = _end(free, needs, rest, partial(_give_back, free, node.name))
            if not ended:
                return sorted(task.id for task in needed)
            *rest, last = ended
            needed.append(last)

    def _on_node(self, task_id: int, node: Node, needs: tuple[Need, ...]) -> Hold | None:
        free, name = FreeNode.soon(node), node.name
        asked = {need.resource for need in needs}
        exact = {gpu for need in needs if need.resource == GPUS.name for gpu in need.exact}
        holders = [one for one in self._holders_on(node) if _has_some(one, asked, exact, name)]
        return self._ahead(task_id, free, needs, holders, partial(_give_back, free, name))

    def _ahead(
        self,
        task_id: int,
        free: Free,
        needs: tuple[Need, ...],
        holders: Sequence[Task],
        give_back: Callable[[Task], None],
    ) -> Hold | None:
        """Return the reservation where this is free now, and these give something back, one after the other."""
        waits_for = [holder.id for holder in _end(free, needs, holders, give_back)]
        if not free.fits(needs):
            return None
        taken = free.take(needs).get(GPUS.name, [])
        spare = {need.resource: free.counts[need.resource] for need in needs if need.resource != GPUS.name}
        return Hold(task_id, frozenset(taken), spare, self._until(waits_for), tuple(waits_for))


def _end(free: Free, needs: Collection[Need], holders: Iterable[Task], give_back: Callable[[Task], None]) -> list[Task]:
    """Have these give something back, one after the other, until there is enough; which have."""
    ended = []
    for holder in holders:
        if free.fits(needs):
            break
        give_back(holder)
        ended.append(holder)
    return ended


def _ids(tasks: Iterable[Task]) -> list[int]:
    return list(map(_ID, tasks))


def _of_node(task: Task) -> Iterable[Need]:
    """Return the needs that a task gives back to its node: GPUs within an allocation stay that one's."""
    needs = request_of(task).needs
    return needs if task.within is None else [need for need in needs if need.resource != GPUS.name]


def _give_back(free: Free, name: str, holder: Task) -> None:
    """Take back what a task has of a node."""
    part = part_on(holder.allocation, name)
    if part is not None:
        free.give_back(_of_node(holder), part)


def _has_some(holder: Task, asked: AbstractSet[str], exact: AbstractSet[int], name: str) -> bool:
    """Return whether a task has some of what is asked of a node; `exact`: only these GPUs will do, if there are any."""
    found = asked & {need.resource for need in _of_node(holder)}
    if not exact or found != {GPUS.name}:
        return bool(found)
    part = part_on(holder.allocation, name)
    return part is not None and not exact.isdisjoint(part.gpus)


def _asks(request: Request, resource: str) -> bool:
    return any(need.resource == resource for need in request.shared)


def _exactly(need: Need, gpus: set[int]) -> Need:
    if need.resource != GPUS.name or need.exact or not need.amount <= len(gpus) <= max(need.amount, need.most):
        return need  # it asks for something else than when it got them
    return need._replace(exact=tuple(sorted(gpus)), amount=len(gpus), most=0)
