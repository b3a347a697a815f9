"""The findings of the samples about a node's GPUs, and which GPUs may therefore not be given out. Pure.

A GPU is kept back while somebody else computes on it, be it a task that was not given it; while the memory of the task
that ended there is not free yet; and where the machine does not show it at all. One that is broken, or whose memory
stays held, is to be set aside until a person returns it: that is for the caller to write down.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from master.core.attempts.exhaustion import CardUse
from wire.message import Message

Text = Annotated[str, Meta(max_length=1024)]
Whole = Annotated[int, Meta(ge=0, le=1 << 53)]
Decimal = Annotated[float, Meta(ge=-1e15, le=1e15)]
"""The values of a node are passed on to all clients: no number that one of them could not read, and no text without
end."""

FREE_MIB = 1024
"""Memory that may be in use on an idle GPU (a desktop, the driver), in MiB, where no sample has shown how much is."""
SLACK_MIB = 256
"""How much more than it was when idle still counts as free, in MiB; and half of what a desktop held comes to that, for
such things change while a task runs."""
SETTLE_S = 60.0
"""Memory that is still held so long after the end of a task is held for good."""
DRIVER_MIB = 512
"""Up to so much of the memory that an idle GPU has in use is the driver's own, in MiB: those that ask for the whole of
a GPU's memory in equal shares reckon without it."""
RAMP_S = 60.0
"""So long after it was first seen on a GPU nobody can say how much of it a task will use."""
OVER_MIB = 64
"""So much more than its share a task may use, in MiB, before it counts as more: a context of the driver's."""
SMOOTH = 0.5
"""The weight of the newest sample in what is said of a GPU's time."""
TOLD = 3
STAYED = "gpu_stayed"
"""The key of what is said of memory that is held for good."""
BY_HAND = "set aside by "
"""How the note of a GPU begins that a person set aside."""
UNSEEN = Message("gpu_unseen")
RETURNED = Message("gpu_returned")


class Holder(msgspec.Struct, frozen=True):
    """A process on a GPU; `launch_id` is "" where it is not one of ours. Memory in MiB."""

    pid: Whole
    user: Text = ""
    memory_mib: Whole | None = None
    launch_id: Text = ""


class GpuReport(msgspec.Struct, frozen=True):
    """One GPU in a sample (see `wire.agent.Gpu`)."""

    index: Whole
    uuid: Text = ""
    model: Text = ""
    utilization: Decimal | None = None
    memory_utilization: Decimal | None = None
    memory_total_mib: Whole | None = None
    memory_used_mib: Whole | None = None
    temperature: Decimal | None = None
    power: Decimal | None = None
    ecc_errors: Whole | None = None
    xid: Whole | None = None
    mig: bool = False
    fault: Text = ""
    processes: tuple[Holder, ...] = ()

    @property
    def foreign(self) -> tuple[Holder, ...]:
        """The processes that Muster did not start."""
        return tuple(holder for holder in self.processes if not holder.launch_id)


class Findings(msgspec.Struct, frozen=True):
    """`kept_back`: why a GPU may not be given out now. `broken`: which are to be set aside, and why, as it is written
    down."""

    kept_back: dict[int, Message]
    broken: dict[int, str]


Condition = Literal["ok", "busy", "clearing", "aside", "broken", "unknown"]
"""In one word whether a GPU gets tasks, and if not why."""
_CONDITIONS: dict[str, Condition] = {
    "gpu_used": "busy",
    "gpu_strays": "busy",
    "gpu_left": "busy",
    "gpu_unknown_attempt": "busy",
    "gpu_not_free": "clearing",
    "gpu_not_free_yet": "clearing",
    "gpu_unseen": "unknown",
    "gpu_returned": "unknown",
}


def condition(aside: str | None, kept_back: Message | None) -> Condition:
    """In one word what a GPU's reasons say: `ok`; `busy` (others compute there); `clearing` (the memory of a task that
    ended is not free yet); `aside` (a person set it aside); `unknown` (no sample has told yet); else `broken`."""
    if aside is not None:
        return "aside" if aside.startswith(BY_HAND) else "broken"
    return "ok" if kept_back is None else _CONDITIONS.get(kept_back.key, "broken")


Holders: TypeAlias = Mapping[int, Mapping[int, int | None]]
"""Of each GPU that is held the tasks, and how many MiB each may use."""
NOBODY: Holders = MappingProxyType({})


class GpuWatch:
    """The GPUs of one node. `newest` holds the last report of each; `peak_mib`: the most memory, in MiB, that each task
    which holds one was seen to use of a GPU that it holds; `strays`: by task the GPUs on which it was last seen to
    compute without holding them."""

    def __init__(self) -> None:
        self.newest: dict[int, GpuReport] = {}
        self.peak_mib: dict[int, int] = {}
        self.strays: dict[int, list[int]] = {}
        self._idle_mib: dict[int, int] = {}
        self._settling: dict[int, tuple[int, float | None]] = {}
        self._used: dict[int, dict[int, int]] = {}
        self._seen_since: dict[int, dict[int, float]] = {}
        self._ramps: dict[int, dict[int, int]] = {}
        self._busy: dict[int, float] = {}
        self._at = 0.0

    def names(self) -> dict[int, str]:
        """Return the names by which tasks must address the GPUs where their number will not do: one fell off the bus
        and keeps its number here, and CUDA, which counts only those that are present, would take the next one for
        it."""
        if not any(report.fault and report.memory_used_mib is None for report in self.newest.values()):
            return {}
        return {gpu: report.uuid for gpu, report in self.newest.items() if report.uuid.startswith("GPU-")}

    def released(self, gpu: int, task_id: int) -> None:
        """A task gave this GPU back. Kept back until a sample shows its memory free, if samples tell of it."""
        if gpu in self.newest:
            self._settling[gpu] = (task_id, None)
            if not self.newest[gpu].foreign:
                self._busy.pop(gpu, None)

    def settling(self) -> dict[int, Message]:
        """The GPUs whose last task has ended and whose memory no sample has shown free yet."""
        return {gpu: Message("gpu_not_free_yet", task=task_id) for gpu, (task_id, _) in self._settling.items()}

    def look(
        self,
        reports: Iterable[GpuReport],
        count: int,
        held: Holders,
        now: float,
        alive: Mapping[str, int] | None = None,
    ) -> Findings:
        """Take over a sample. `count`: GPUs in the registry; `held`: those that tasks hold now; `now`: in seconds;
        `alive`: the tasks that run there, by launch id."""
        self.newest = {report.index: report for report in reports}
        self.strays = {}
        self._at = now
        for shown in self.newest.values():
            self._measure(shown, held.get(shown.index, {}), alive or {}, now)
        kept_back: dict[int, Message] = {}
        broken: dict[int, str] = {}
        for gpu in range(count):
            report = self.newest.get(gpu)
            if report is None:
                kept_back[gpu] = Message("gpu_missing", shown=len(self.newest), count=count)
            elif report.fault:
                broken[gpu] = report.fault
            elif report.processes and (used := self._strays(report, held.get(gpu, {}), alive or {}) or _used(report)):
                kept_back[gpu] = used
                self._begin_anew(gpu)
            elif gpu in held:
                self._note_idle(report)
            elif unsettled := self._unsettled(report, now):
                if unsettled.key == STAYED:
                    broken[gpu] = str(unsettled)
                else:
                    kept_back[gpu] = unsettled
        return Findings(kept_back, broken)

    # -- for those that share a GPU ---------------------------------------------------------------------------

    def used_by_tasks(self, gpu: int) -> Mapping[int, int]:
        """MiB that tasks were last seen to use of a GPU, by task; of those alone that the driver told."""
        return self._used.get(gpu, {})

    def debited_mib(self, gpu: int, task_id: int) -> int:
        """Return how many MiB of a GPU count for a task besides what it asked for: what it was last seen to use, or in
        its first `RAMP_S` the most that it was seen to use; 0 where the driver tells nothing of it."""
        return max(self._used.get(gpu, {}).get(task_id, 0), self._ramps.get(gpu, {}).get(task_id, 0))

    def outgrown(self, gpu: int, holders: Mapping[int, int | None]) -> bool:
        """Return whether one of the `holders` uses notably more of a GPU than its share."""
        if gpu not in self._used:
            return False
        shares = ((task_id, mib) for task_id, mib in holders.items() if mib is not None)
        return any(self.debited_mib(gpu, task_id) > mib + OVER_MIB for task_id, mib in shares)

    def foreign_mib(self, gpu: int) -> int:
        """MiB that processes use which are none of our tasks', as far as the driver tells it."""
        report = self.newest.get(gpu)
        return 0 if report is None else sum(holder.memory_mib or 0 for holder in report.foreign)

    def unexplained_mib(self, gpu: int, holders: Mapping[int, int | None]) -> int:
        """MiB in use beyond what a driver keeps for itself and what is known of others' processes and of the `holders`;
        0 where nobody tells. A driver that tells no memory of ours may show what they asked for, once they were
        seen."""
        report = self.newest.get(gpu)
        if report is None or report.memory_used_mib is None:
            return 0
        used, since = self._used.get(gpu, {}), self._seen_since.get(gpu, {})
        explained = sum(mib for task_id, mib in used.items() if task_id in holders)
        if not used:
            explained = sum(mib or 0 for task_id, mib in holders.items() if since.get(task_id, self._at) < self._at)
        of_driver = min(DRIVER_MIB, self._idle_mib.get(gpu, DRIVER_MIB))
        return max(0, report.memory_used_mib - of_driver - self.foreign_mib(gpu) - explained)

    def busy_percent(self, gpu: int, holders: Collection[int]) -> float:
        """How much of its time a GPU is in use, smoothed, in percent. Of one with a task that has not been seen there
        for `RAMP_S` nobody can say, so it counts as busy; of one that no sample tells of, as idle, and so does one that
        nobody else uses from the end of its last task on until its memory is free."""
        if gpu not in self.newest:
            return 0.0
        since = self._seen_since.get(gpu, {})
        if any(self._at - since.get(task_id, self._at) < RAMP_S for task_id in holders):
            return 100.0
        return self._busy.get(gpu, 0.0)

    def busy_without_tasks(self, gpu: int) -> float:
        """The same once its tasks have ended."""
        report = self.newest.get(gpu)
        return self._busy.get(gpu, 0.0) if report is not None and report.foreign else 0.0

    def card_use(self, gpu: int, task_id: int, launch_id: str) -> CardUse | None:
        """Return the memory of this GPU that a task that held it used, at most, and the memory that others use; None
        where no sample tells that."""
        report = self.newest.get(gpu)
        if report is None or not report.memory_total_mib or task_id not in self.peak_mib:
            return None
        others = sum(holder.memory_mib or 0 for holder in report.processes if holder.launch_id != launch_id)
        return CardUse(self.peak_mib[task_id], others, report.memory_total_mib)

    def _measure(
        self, report: GpuReport, holders: Mapping[int, int | None], alive: Mapping[str, int], now: float
    ) -> None:
        """Take over what a sample says of the use of one GPU, by its `holders` and at all."""
        gpu = report.index
        if report.utilization is not None and (report.foreign or gpu not in self._settling):
            was = self._busy.get(gpu, report.utilization)
            self._busy[gpu] = was + (report.utilization - was) * SMOOTH
        if not holders and not report.processes:  # as mostly, or at night
            self._seen_since.pop(gpu, None)
            self._used.pop(gpu, None)
            self._ramps.pop(gpu, None)
            return
        before = self._seen_since.get(gpu, {})
        since = self._seen_since[gpu] = {one: min(before.get(one, now), now) for one in holders}
        used: dict[int, int] = {}
        for process in report.processes:
            task_id = alive.get(process.launch_id)
            if task_id is not None and process.memory_mib is not None:
                used[task_id] = used.get(task_id, 0) + process.memory_mib
        self._used[gpu] = used
        most = self._ramps.get(gpu, {})
        young = [task_id for task_id in holders if now - since[task_id] < RAMP_S]
        self._ramps[gpu] = {task_id: max(most.get(task_id, 0), used.get(task_id, 0)) for task_id in young}
        for task_id, mib in used.items():
            if task_id in holders:
                self.peak_mib[task_id] = max(mib, self.peak_mib.get(task_id, 0))

    def _strays(self, report: GpuReport, holders: Mapping[int, int | None], alive: Mapping[str, int]) -> Message | None:
        """Note the tasks that compute on a GPU which they do not hold, and return what to say of it: `task 12 (pid 7),
        which was not given it`."""
        found: dict[int, int] = {}
        for process in report.processes:
            task_id = alive.get(process.launch_id)
            if task_id is not None and task_id not in holders:
                found.setdefault(task_id, process.pid)
        for task_id in found:
            self.strays.setdefault(task_id, []).append(report.index)
        tasks = tuple(Message("task_process", task=task_id, pid=pid) for task_id, pid in found.items())
        return Message("gpu_strays", tasks=tasks) if tasks else None

    def _begin_anew(self, gpu: int) -> None:
        """Memory that others hold says nothing of what the last task left: that is waited for when they are gone."""
        if gpu in self._settling:
            self._settling[gpu] = (self._settling[gpu][0], None)

    def _unsettled(self, report: GpuReport, now: float) -> Message | None:
        """Why the memory of the last task is not free yet; None if it is."""
        gpu, used = report.index, report.memory_used_mib
        if gpu not in self._settling:
            self._note_idle(report, nobody=True)
            return None
        task_id, since = self._settling[gpu]
        if used is None or (not report.processes and used <= self._available(gpu)):
            del self._settling[gpu]
            return None
        since = now if since is None else since
        self._settling[gpu] = (task_id, since)
        if now - since > SETTLE_S:
            del self._settling[gpu]
            return Message("gpu_stayed", mib=used, seconds=round(SETTLE_S), task=task_id)
        return Message("gpu_not_free", task=task_id, mib=used)

    def _available(self, gpu: int) -> int:
        """How much may be in use of a GPU that nobody computes on."""
        idle = self._idle_mib.get(gpu)
        return FREE_MIB + SLACK_MIB if idle is None else idle + idle // 2 + SLACK_MIB

    def _note_idle(self, report: GpuReport, *, nobody: bool = False) -> None:
        """Note the memory that is in use besides the processes that compute. A driver that tells none may hide some, so
        no process is an answer only where there is `nobody`."""
        in_use = report.memory_used_mib
        if in_use is None:
            return
        if not report.processes:
            if nobody:
                self._idle_mib[report.index] = in_use
            return
        told = [holder.memory_mib for holder in report.processes]
        if None not in told:
            self._idle_mib[report.index] = max(0, in_use - sum(mib or 0 for mib in told))


def _used(report: GpuReport) -> Message | None:
    """`used by alice (pid 7), bob (pid 9) and 2 more`: by what is not ours."""
    holders = report.foreign
    users = tuple(Message("process", user=holder.user or "somebody", pid=holder.pid) for holder in holders[:TOLD])
    return Message("gpu_used", users=users, more=max(0, len(holders) - TOLD)) if users else None
