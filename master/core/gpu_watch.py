"""What the samples say of a node's GPUs, and which of them may therefore not be given out. Pure.

A GPU is kept back while somebody else computes on it, be it a task that was not given it; while the memory of the task
that ended there is not free yet; and where the machine does not show it at all. One that is broken, or whose memory
stays held, is to be set aside until a person returns it: that is for the caller to write down.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from wire.message import Message

Text = Annotated[str, Meta(max_length=1024)]
Whole = Annotated[int, Meta(ge=0, le=1 << 53)]
Decimal = Annotated[float, Meta(ge=-1e15, le=1e15)]
"""What a node says goes on to whoever listens: no number that one of them could not read, and no text without end."""

FREE_MIB = 1024
"""Memory that may be in use on an idle GPU (a desktop, the driver), in MiB, where no sample has shown how much is."""
SLACK_MIB = 256
"""How much more than it was when idle still counts as free, in MiB; and half of what a desktop held comes to that, for
such things change while a task runs."""
SETTLE_S = 60.0
"""Memory that is still held so long after the end of a task is held for good."""
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


class GpuWatch:
    """The GPUs of one node. `newest` holds the last report of each."""

    def __init__(self) -> None:
        self.newest: dict[int, GpuReport] = {}
        self._idle_mib: dict[int, int] = {}
        self._settling: dict[int, tuple[int, float | None]] = {}

    def names(self) -> dict[int, str]:
        """What tasks must call the GPUs where their number will not do: one fell off the bus and keeps its number here,
        and CUDA, which counts those that are there, would take the next one for it."""
        if not any(report.fault and report.memory_used_mib is None for report in self.newest.values()):
            return {}
        return {gpu: report.uuid for gpu, report in self.newest.items() if report.uuid.startswith("GPU-")}

    def released(self, gpu: int, task_id: int) -> None:
        """A task gave this GPU back. Kept back until a sample shows its memory free, if samples tell of it."""
        if gpu in self.newest:
            self._settling[gpu] = (task_id, None)

    def settling(self) -> dict[int, Message]:
        """The GPUs whose last task has ended and whose memory no sample has shown free yet."""
        return {gpu: Message("gpu_not_free_yet", task=task_id) for gpu, (task_id, _) in self._settling.items()}

    def look(
        self,
        reports: Iterable[GpuReport],
        count: int,
        held: Collection[int],
        now: float,
        alive: Mapping[str, int] | None = None,
    ) -> Findings:
        """Take over a sample. `count`: GPUs in the registry; `held`: those that tasks hold now; `now`: in seconds;
        `alive`: the tasks that run there, by launch id."""
        self.newest = {report.index: report for report in reports}
        kept_back: dict[int, Message] = {}
        broken: dict[int, str] = {}
        for gpu in range(count):
            report = self.newest.get(gpu)
            if report is None:
                kept_back[gpu] = Message("gpu_missing", shown=len(self.newest), count=count)
            elif report.fault:
                broken[gpu] = report.fault
            elif used := _used(report) or (None if gpu in held else _strays(report, alive or {})):
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
        if used is None or (not report.processes and used <= self._room(gpu)):
            del self._settling[gpu]
            return None
        since = now if since is None else since
        self._settling[gpu] = (task_id, since)
        if now - since > SETTLE_S:
            del self._settling[gpu]
            return Message("gpu_stayed", mib=used, seconds=round(SETTLE_S), task=task_id)
        return Message("gpu_not_free", task=task_id, mib=used)

    def _room(self, gpu: int) -> int:
        """How much may be in use of a GPU that nobody computes on."""
        idle = self._idle_mib.get(gpu)
        return FREE_MIB + SLACK_MIB if idle is None else idle + idle // 2 + SLACK_MIB

    def _note_idle(self, report: GpuReport, *, nobody: bool = False) -> None:
        """What is in use besides the processes that compute. A driver that tells none may hide some, so no process is
        an answer only where there is `nobody`."""
        told = [holder.memory_mib for holder in report.processes]
        if report.memory_used_mib is not None and (told or nobody) and None not in told:
            self._idle_mib[report.index] = max(0, report.memory_used_mib - sum(mib or 0 for mib in told))


def _strays(report: GpuReport, alive: Mapping[str, int]) -> Message | None:
    """The tasks that compute on a GPU which no task holds: `task 12 (pid 7), which was not given it`."""
    found = {alive[holder.launch_id]: holder.pid for holder in report.processes if holder.launch_id in alive}
    tasks = tuple(Message("task_process", task=task_id, pid=pid) for task_id, pid in found.items())
    return Message("gpu_strays", tasks=tasks) if tasks else None


def _used(report: GpuReport) -> Message | None:
    """`used by alice (pid 7), bob (pid 9) and 2 more`: by what is not ours."""
    holders = report.foreign
    users = tuple(Message("process", user=holder.user or "somebody", pid=holder.pid) for holder in holders[:TOLD])
    return Message("gpu_used", users=users, more=max(0, len(holders) - TOLD)) if users else None
