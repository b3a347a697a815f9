"""Quotas: how much of the cluster each of those with a quota uses, and whose quota is reached.

Pure. Use is counted as tasks start and end, by owner and project; the other accounts that it counts for (the project,
groups) are worked out when they are asked for, since people change groups. A task counts for its owner; for its
project; and for a group: that of its project, or where the project has none, each whose member its owner is. All of it
counts for the cluster, whose quota is the setting `scheduler.max_running`.

The cap of an array counts like a quota of the array's, but nobody passes it: the owner of the array set it.

A quota stops nothing that runs. The planner takes from a `Ledger`, one for each plan, so that a quota that is reached
is looked at once for all tasks of an owner that are alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import msgspec

from master.core.nodes.idle import IdleTasks
from master.core.nodes.resources import GPUS
from master.core.outcome import Pending
from master.core.people.people import Group, People, User
from master.core.people.projects import Project, Projects
from master.core.people.quota import NO_QUOTA, Quota, Use
from master.core.tasks.arrays import Arrays
from master.core.tasks.attempt import Allocation, Place
from master.core.tasks.request import KEPT, Demand, Request, capped
from master.core.tasks.task import ACTIVE, Task
from master.core.tasks.task_table import TaskTable
from master.core.tasks.transitions import State
from master.core.tasks.waiting import Waiting
from master.core.tuning import Tuning
from wire.errors import ImpossibleError
from wire.message import Message, ids

TOLD = 4
"""So many who use a quota are named."""
_NO_END = 10**9
Key: TypeAlias = tuple[str, str]
"""The holder of a quota: `user`, `group`, `project`, `array` or `cluster`, and the name."""


class Payer(NamedTuple):
    """For whom a task counts: whose it is, of which project (only one of which there is something to say), and of which
    array (0: none)."""

    owner: str
    project: str
    array: int = 0


class Account(msgspec.Struct, eq=False):
    """The holder of a quota, and the use that counts for it. `kind`: `user`, `group`, `project`, `array` or
    `cluster`."""

    kind: str
    name: str
    quota: Quota
    use: Use

    def reached(self, demand: Demand) -> str:
        """Which limit a task with this demand would pass now; "" for none. An allocation is no task that runs."""
        quota, use, gpus = self.quota, self.use, gpus_of(demand.request)
        if quota.max_running is not None and use.running >= quota.max_running and not demand.is_allocation:
            return "max_running"
        if quota.max_total_gpus is not None and gpus and use.gpus + gpus > quota.max_total_gpus:
            return "max_total_gpus"
        if quota.max_manual_gpus is not None and demand.is_allocation and use.manual + gpus > quota.max_manual_gpus:
            return "max_manual_gpus"
        return self.never(demand)

    def never(self, demand: Demand) -> str:
        """Which limit such a task would pass even if nothing else ran; "" for none."""
        quota, gpus = self.quota, gpus_of(demand.request)
        if quota.max_gpus_per_task is not None and gpus > quota.max_gpus_per_task:
            return "max_gpus_per_task"
        if quota.max_total_gpus is not None and gpus > quota.max_total_gpus:
            return "max_total_gpus"
        if quota.max_manual_gpus is not None and demand.is_allocation and gpus > quota.max_manual_gpus:
            return "max_manual_gpus"
        return "max_running" if quota.max_running == 0 else ""

    def up_to(self, demand: Demand, has: int = 0) -> int:
        """How many GPUs a task with this demand may come to that has so many, which are counted."""
        quota, most = self.quota, _NO_END
        if quota.max_gpus_per_task is not None:
            most = quota.max_gpus_per_task
        if quota.max_total_gpus is not None:
            most = min(most, quota.max_total_gpus - self.use.gpus + has)
        if quota.max_manual_gpus is not None and demand.is_allocation:
            most = min(most, quota.max_manual_gpus - self.use.manual + has)
        return most


class Ledger:
    """The amounts that may still be taken in one plan, of those who have a quota."""

    def __init__(self, quotas: Quotas | None = None, accounts: dict[Key, Account] | None = None) -> None:
        self._quotas = quotas
        self._accounts = accounts or {}
        self._of: dict[Payer, tuple[Account, ...]] = {}

    def of(self, payer: Payer) -> tuple[Account, ...]:
        """The accounts with a quota for which the payer's tasks count."""
        found = self._of.get(payer)
        if found is None and self._quotas is not None:
            limited = [(key, quota) for key, quota in self._quotas.keys_of(payer) if quota != NO_QUOTA]
            found = tuple(self._accounts.setdefault(key, Account(*key, quota, Use())) for key, quota in limited)
            self._of[payer] = found
        return found or ()

    def allows(self, demand: Demand) -> bool:
        """May a task with this demand start, as far as quotas and idle tasks of the owner go?"""
        if self._quotas is None:
            return True
        if self._quotas.idle_stop(demand) is not None:
            return False
        return not any(account.reached(demand) for account in binding(demand, self.of(payer_of(demand))))

    def within(self, demand: Demand) -> Demand:
        """The demand with no more GPUs than may be had, where it asks for some up to a number."""
        if self._quotas is None or demand.over_quota:
            return demand
        most = most_of(demand.request)
        if most <= gpus_of(demand.request):
            return demand
        room = min((account.up_to(demand) for account in self.of(payer_of(demand))), default=most)
        return (
            demand
            if room >= most
            else msgspec.structs.replace(demand, request=capped(demand.request, room // demand.request.nodes))
        )

    def gpus_for(self, demand: Demand, has: int) -> int:
        """How many GPUs a task with this demand may come to that has so many, which are counted for it."""
        accounts = self.of(payer_of(demand))
        if demand.over_quota or demand.request.within is not None:
            return _NO_END
        return min((account.up_to(demand, has) for account in accounts), default=_NO_END)

    def take(self, demand: Demand, parts: Iterable[Allocation]) -> None:
        """A task with this demand starts."""
        if self._quotas is not None:
            use = _use(parts, is_within=demand.request.within is not None, is_allocation=demand.is_allocation)
            for account in self.of(payer_of(demand)):
                account.use.add(use)


NO_LEDGER = Ledger()


class Quotas:
    """The use by owner and project, and the quotas that exist."""

    def __init__(
        self,
        task_table: TaskTable,
        waiting: Waiting,
        people: People,
        projects: Projects,
        arrays: Arrays,
        *,
        idle: IdleTasks,
        tuning: Tuning,
        pending: Pending,
    ) -> None:
        self._idle = idle
        self._task_table = task_table
        self._waiting = waiting
        self._people = people
        self._projects = projects
        self._arrays = arrays
        self._tuning = tuning
        self._pending = pending
        self._used: dict[Payer, dict[int, Use]] = {}
        self._sums: dict[Payer, Use] = {}
        self._payers: dict[int, Payer] = {}
        self._people_seen = -1
        self._groups_of: dict[int, list[Group]] = {}
        self._some_have_one = False
        waiting.backlog.projects = projects.known

    # -- what happens to tasks --------------------------------------------------------------------------------

    def concerns(self, before: State, after: State) -> bool:
        """Attempts that begin or are over, and whatever changes of one that is under way: whose it is, say."""
        return before in ACTIVE or after in ACTIVE

    def moved(self, task: Task, _before: State, after: State) -> None:
        """It counts for another now, or for nobody."""
        before = payer = self._payers.pop(task.id, None)
        if payer is not None:
            used = self._used[payer]
            self._sums[payer].add(used.pop(task.id), -1)
            if not used:
                del self._used[payer], self._sums[payer]
        if after in ACTIVE:
            payer = self._payers[task.id] = _payer_for(task)
            use = _use_of(task)
            self._used.setdefault(payer, {})[task.id] = use
            self._sums.setdefault(payer, Use()).add(use)
            if before not in (None, payer):
                self._pending.plan_needed = True

    # -- what people ask --------------------------------------------------------------------------------------

    def edit_project(self, /, name: str, **fields: Any) -> Project:
        """Say what group a project belongs to, and its quota (`group`, `quota`)."""
        was_known = name in self._projects.known
        project = self._projects.edit(name, **fields)
        if was_known is not (name in self._projects.known):  # its tasks are looked at apart from others, or no more
            backlog = self._waiting.backlog
            for task in self._task_table.tasks.values():
                if task.project == name and task.id in backlog:
                    backlog.add(task)
        return project

    def check_possible(self, demand: Demand) -> None:
        """Raise ImpossibleError for what a quota will never let start."""
        never = self.why_never(demand)
        if never is not None:
            raise ImpossibleError(never)

    # -- looking ----------------------------------------------------------------------------------------------

    @property
    def has_any(self) -> bool:
        """Has anybody a quota, or an idle task in the way of others?"""
        if self._people_seen != self._people.version:
            self._look_at_people()
        return (
            self._some_have_one
            or bool(self._idle.told and self._idle.hold_any)
            or bool(self._projects.known or self._arrays.capped)
            or self._tuning.settings.scheduler.max_running is not None
        )

    def ledger(self) -> Ledger:
        """Return the amounts that may be taken now."""
        if not self.has_any:
            return NO_LEDGER
        accounts: dict[Key, Account] = {}
        for payer, use in self._sums.items():
            for key, quota in self.keys_of(payer):
                if quota != NO_QUOTA:
                    accounts.setdefault(key, Account(*key, quota, Use())).use.add(use)
        return Ledger(self, accounts)

    def uses(self) -> dict[Key, Use]:
        """Return the use of each account, with a quota or without."""
        found: dict[Key, Use] = {}
        for payer, use in self._sums.items():
            for key, _ in self.keys_of(payer):
                found.setdefault(key, Use()).add(use)
        return found

    def accounts_of(self, user: User) -> list[Account]:
        """Those with a quota for which the user's tasks may count, whatever their project."""
        ledger = self.ledger()
        projects = [one for one in self._projects.known.values() if self.may_use(user, one)]
        payers = [Payer(user.name, ""), *(Payer(user.name, one.name) for one in projects)]
        return list({(one.kind, one.name): one for payer in payers for one in ledger.of(payer)}.values())

    def may_use(self, user: User, project: Project) -> bool:
        """Tell whether the user's tasks may be of this project: does it belong to no group, or to one of which the user
        is a member or a mentor?"""
        group = None if project.group is None else self._people.groups.get(project.group)
        return group is None or user.id in group.members | group.mentors

    def keys_of(self, payer: Payer) -> Iterable[tuple[Key, Quota]]:
        """For whom the payer's tasks count, and the quota of each, be it none."""
        self._look_at_people()
        user = self._people.named(payer.owner)
        if user is not None:
            yield ("user", user.name), user.quota
        project = self._projects.get(payer.project) if payer.project else None
        if project is not None:
            yield ("project", project.name), project.quota
        owning = None if project is None or project.group is None else self._people.groups.get(project.group)
        groups = [owning] if owning is not None else [] if user is None else self._groups_of.get(user.id, ())
        for group in groups:
            yield ("group", group.name), group.quota
        if (cap := self._arrays.capped.get(payer.array)) is not None:
            yield ("array", str(payer.array)), Quota(max_running=cap)
        yield ("cluster", ""), Quota(max_running=self._tuning.settings.scheduler.max_running)

    def stops(self, demand: Demand) -> list[Message]:
        """Return which quotas, and which idle tasks of its owner, keep a task with this demand from starting now; of
        a quota with whose it is, and who uses it."""
        if not self.has_any:
            return []
        idle = self.idle_stop(demand)
        accounts = binding(demand, self.ledger().of(payer_of(demand)))
        told = [self._told(account, limit) for account in accounts if (limit := account.reached(demand))]
        return told if idle is None else [idle, *told]

    def idle_stop(self, demand: Demand) -> Message | None:
        """Return which idle tasks of its owner keep a task with this demand from starting (`scheduler.idle_action`)."""
        if demand.over_quota or not gpus_of(demand.request) or not self._idle.hold_any:
            return None
        return self._idle.stops(demand.owner)

    def why_never(self, demand: Demand) -> Message | None:
        """Which quota will never let a task with this demand start, whose it is, and what can be done."""
        if demand.over_quota or not self.has_any:
            return None
        gpus = gpus_of(demand.request)
        for one in self.ledger().of(payer_of(demand)):
            limit = one.never(demand)
            if limit == "max_running":
                return Message("nothing_may_run", kind=one.kind, name=one.name)
            if limit:
                most = getattr(one.quota, limit)
                return Message("beyond_quota", gpus=gpus, limit=limit, kind=one.kind, name=one.name, most=most)
        return None

    def discrepancies(self) -> list[str]:
        """Where what is counted differs from what the active tasks hold."""
        active = [task for task in self._task_table.tasks.values() if task.state in ACTIVE]
        wanted = {task.id: (_payer_for(task), _use_of(task)) for task in active}
        counted = {number: (payer, use) for payer, used in self._used.items() for number, use in used.items()}
        sums: dict[Payer, Use] = {}
        for payer, use in wanted.values():
            sums.setdefault(payer, Use()).add(use)
        found = [] if counted == wanted else ["what counts for quotas is not what the active tasks hold"]
        return found if sums == self._sums else [*found, "what is counted for quotas is not the sum of it"]

    def _look_at_people(self) -> None:
        """See anew who is in which group, where something changed of the people that there are."""
        people = self._people
        if self._people_seen == people.version:
            return
        self._people_seen = people.version
        self._groups_of = {}
        for group in people.groups.values():
            for member in group.members:
                self._groups_of.setdefault(member, []).append(group)
        quotas = [user.quota for user in people.users.values()] + [one.quota for one in people.groups.values()]
        self._some_have_one = any(quota != NO_QUOTA for quota in quotas)

    def _told(self, account: Account, limit: str) -> Message:
        most = getattr(account.quota, limit)
        used = _used(account.use, limit)
        if account.kind == "array":
            return Message("array_runs_enough", id=int(account.name), most=most, used=used)
        by = self._users_of(account, limit)
        if account.kind == "cluster":
            return Message("cluster_runs_enough", most=most, used=used, by=by)
        if limit == "max_running":
            return Message("runs_enough", kind=account.kind, name=account.name, most=most, used=used, by=by)
        if limit == "max_manual_gpus":
            return Message("allocated_enough", kind=account.kind, name=account.name, most=most, used=used, by=by)
        return Message("quota_reached", limit=limit, kind=account.kind, name=account.name, most=most, used=used, by=by)

    def _users_of(self, account: Account, limit: str) -> Message:
        """Return who uses the account: the tasks of a user's account, else each owner with their amount, the greatest
        first."""
        is_its = (account.kind, account.name)
        payers = [payer for payer in self._sums if any(key == is_its for key, _ in self.keys_of(payer))]
        if account.kind == "user":
            held = (one for payer in payers for one, use in self._used[payer].items() if _used(use, limit))
            return Message("used_by_tasks", tasks=ids(held, TOLD))
        amounts: dict[str, int] = {}
        for payer in payers:
            amounts[payer.owner] = amounts.get(payer.owner, 0) + _used(self._sums[payer], limit)
        greatest = sorted(
            ((name, count) for name, count in amounts.items() if count), key=lambda one: (-one[1], one[0])
        )
        told = tuple(Message("used_by_one", name=name, count=count) for name, count in greatest[:TOLD])
        return Message("used_by", owners=told, more=max(0, len(greatest) - TOLD))


def payer_of(demand: Demand) -> Payer:
    """For whom a task with this demand counts."""
    return Payer(demand.owner, demand.project, demand.array)


def binding(demand: Demand, accounts: Iterable[Account]) -> Iterable[Account]:
    """Those of the accounts that hold for it: where no quota does, the cap of its array alone."""
    return [one for one in accounts if one.kind == "array"] if demand.over_quota else accounts


def _payer_for(task: Task) -> Payer:
    return Payer(task.owner, task.project, 0 if task.array is None else task.array.id)


@lru_cache(maxsize=KEPT)
def gpus_of(request: Request) -> int:
    """How many GPUs it asks for at least, of all nodes together. Those of an allocation are counted with that."""
    if request.within is not None:
        return 0
    return request.nodes * sum(need.amount for need in request.needs if need.resource == GPUS.name)


@lru_cache(maxsize=KEPT)
def most_of(request: Request) -> int:
    """How many it takes at most."""
    if request.within is not None:
        return 0
    return request.nodes * sum(max(need.most, need.amount) for need in request.needs if need.resource == GPUS.name)


def _use_of(task: Task) -> Use:
    return _use(task.allocation, is_within=task.within is not None, is_allocation=task.is_allocation)


def _use(parts: Iterable[Place], *, is_within: bool, is_allocation: bool = False) -> Use:
    """Return the use of these parts: GPUs of an allocation count, once, as long as that is held; but nothing runs for
    it."""
    gpus = 0 if is_within else sum(len(part.gpus) for part in parts)
    return Use(gpus=gpus, running=int(not is_allocation), manual=gpus if is_allocation else 0)


def _used(use: Use, limit: str) -> int:
    """How much of what the limit bounds."""
    if limit == "max_running":
        return use.running
    return use.manual if limit == "max_manual_gpus" else use.gpus
