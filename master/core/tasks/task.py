"""A task, and the only ways in which its state may change.

A task is one command with what it needs. People submit it; it *waits* (or is *held* until somebody releases it); the
planner gives it GPUs on a node, and from the moment that decision is on disk it is *starting*: from then on something
may be alive on the node, and only the node can say otherwise. The agent reports that it runs; it is *running*, or
*paused* while the agent reports that all of it stands still. It ends exactly once per attempt, in one of five ways,
each with its own meaning to the owner:

* succeeded: the command ended with 0;
* failed: it ended with something else, or could not be started (`reason` says which);
* cancelled: somebody asked for it, or a predecessor made it pointless (`reason` says which);
* timed_out: its time limit ended it, and it was not to go on later;
* lost: nobody can know (the machine rebooted, the shim was killed, the node was given up).

An ended task may wait again (`retry`, or an edit): that is a new attempt with a new launch_id, of the same task. An
attempt's launch_id is started at most once, ever; so the states say what may be sent to a node: a launch only while
starting, a kill only while starting or running.

One that is to be tried again waits again by itself, and does not end in between: whoever waits for its end hears of the
last one. That is what its owner asked for (so many retries, of such ends; on after its time limit), or it is one that
its node could not start, for a fault of the node's own: its owner has nothing to mend.

`transitions` says which event may happen in which state, and only `task_table` changes a state.
"""

from collections.abc import Callable
from enum import StrEnum
from types import FunctionType
from typing import Any, TypeVar, cast

import msgspec

from master.core.planning.expected import Expected
from master.core.tasks.attempt import AskedEnd, Attempt, Part, in_short
from master.core.tasks.gpu_use import GpuUse, HeldBy
from master.core.tasks.nothing import NO_LIST, NO_MAPPING
from wire.message import Message

S = TypeVar("S", bound=msgspec.Struct)

FIRST_FOREIGN_ID = 10**12
"""Ids from here on are the old system's (14 digits, a date); they are kept and never advance our counter."""


class TaskState(StrEnum):
    """The states, spelled as on disk and on the wire."""

    WAITING = "waiting"
    HELD = "held"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    LOST = "lost"


QUEUED = frozenset({TaskState.WAITING, TaskState.HELD})
ACTIVE = frozenset({TaskState.STARTING, TaskState.RUNNING, TaskState.PAUSED})
EVERY = frozenset(TaskState)
ENDED = EVERY - QUEUED - ACTIVE
WAITING, HELD = TaskState.WAITING, TaskState.HELD
"""For what is done for each submit, and for each task at a start: in Python 3.11 to look a member up in its enum costs
as much as a call."""


class After(msgspec.Struct, frozen=True):
    """A predecessor. `on`: `ok` (it must succeed), `fail` (it must end otherwise) or `any`. `array`: it is all of the
    array whose first task has this id, of which each must."""

    id: int
    on: str = "ok"
    array: bool | msgspec.UnsetType = msgspec.UNSET


class Unstarted(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node that could not start the task, for a fault of the node's own, and what it said; or, `ran`, on which it did
    run, and should not again."""

    node: str
    why: str
    ran: bool = False


class EarlySignal(msgspec.Struct, frozen=True):
    """The signal that the processes of a task get `before_s` seconds before its time limit ends it. `name`: `USR1` and
    the like; `main_only`: only the command itself gets it, and none of those that it started."""

    name: str
    before_s: float
    main_only: bool = False


class PauseAsked(msgspec.Struct, frozen=True):
    """That a task is to stand still: `by` whom, and since when, `at` in seconds since the epoch."""

    by: str
    at: float


class Resizing(msgspec.Struct, frozen=True):
    """That a task is to go on with so many `gpus`, which had `was` before: fewer, so that task `waiter` can start; or
    more, for nobody waits for them (`waiter` is None). `at`: since when, in seconds since the epoch."""

    gpus: int
    was: int
    waiter: int | None
    at: float


class ArrayPlace(msgspec.Struct, frozen=True, gc=False):
    """Which of an array's tasks it is. `id`: of the array's first task, by which the array is called."""

    id: int
    index: int


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """The origin of a copied folder that a task runs in: the folder `of` its owner's, as it was when it was queued. Two
    with the same `digest` hold the same. `commit`: git's then, "" for none; `changed`: and not all was as in it."""

    of: str
    digest: str
    files: int
    bytes: int
    commit: str
    changed: bool


class Terms(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """The terms of a task besides its command: how, where and when it shall run. `gpu_ids` asks for exact GPUs, `gpus`
    then counts them; `gpus_max`: as many as there are at the start, up to that. `gpu_memory_mib`: of each GPU so much,
    if it is a `share`, else one that has at least that; `gpu_models`: one of these; `min_free_util`: only where so much
    of its time is unused, in percent. `memory_mib`: of the node's; `tmp_disk_mib`: of its temporary folder's file
    system. `licences`: how many of which the cluster has. `nodes`: on so many at once, with all this on each; `node`:
    on this one, `node_list`: on no others than these, `exclude`: on none of these. `gpus_on`: on each of these nodes at
    once, and there on these GPUs; `gpus` then counts those of one, `nodes` the nodes. `begin_at`: not before this time.
    `on_timeout`: what its time limit does to it, `fail` or `requeue`. `max_retries`: so many attempts more, for what
    `retry_on` names (see `endings`). `token`: it gets a token of its owner's, for each attempt a new one, to submit
    others with ("submit"); "": none. `within`: of GPUs it gets those of this allocation, by its id. `elastic`: while it
    runs it may get more GPUs, or have to do with fewer, within its range; each time it is ended, and goes on from its
    checkpoint, a file that matches `checkpoint` (a path with `*` and the like, from its folder). `snapshot`: what `cwd`
    is a copy of."""

    name: str = ""
    project: str = ""
    cwd: str = ""
    snapshot: Snapshot | None = None
    env: str = ""
    setup: str = ""
    variables: dict[str, str] = NO_MAPPING
    gpus: int = 0
    gpus_max: int | None = None
    gpu_ids: list[int] | None = None
    gpu_memory_mib: int | None = None
    gpu_models: list[str] = NO_LIST
    share: bool = False
    min_free_util: float = 0.0
    cpus: int | None = None
    memory_mib: int | None = None
    tmp_disk_mib: int | None = None
    licences: dict[str, int] = NO_MAPPING
    nodes: int = 1
    node: str | None = None
    node_list: list[str] = NO_LIST
    gpus_on: dict[str, list[int]] = NO_MAPPING
    exclude: list[str] = NO_LIST
    after: list[After] = NO_LIST
    priority: int = 0
    urgent: bool = False
    time_limit_s: float | None = None
    begin_at: float | None = None
    on_timeout: str = "fail"
    max_retries: int = 0
    retry_on: list[str] = NO_LIST
    signal: EarlySignal | None = None
    token: str = ""
    within: int | None = None
    elastic: bool = False
    checkpoint: str = ""


class Wish(Terms, kw_only=True, omit_defaults=True, gc=False):
    """Every field of a task that a submit sets, and no other: what may be said, and what may be edited, follows from
    this class."""

    command: list[str] | str
    log_path: str = ""


class FirstEnd(msgspec.Struct, frozen=True):
    """Which part of an attempt of several ended first otherwise than well, and so ended the others: its `rank`, where
    it ran, in which state a task of it alone would have ended, its code. `unbegun`: its node could not begin it."""

    rank: int
    node: str
    state: TaskState
    code: int | None = None
    unbegun: bool = False


class Former(msgspec.Struct, frozen=True):
    """Where the one part of an attempt was sent, as files of the first format have it: beside the allocation."""

    launch_id: str
    node: str
    boot_id: str
    state_id: str
    address: str = ""
    machine: str = ""
    pid: int = 0
    pid_start: int | None = None


def _in_order(*, omit_defaults: bool, kw_only: bool = True) -> Callable[[type[S]], type[S]]:
    """A Struct has its base's keys before its own. This makes one of all of them in the order of `KEYS`; what is not
    among these comes behind. (It has the fields of its bases, and is no subclass of them.) `kw_only`: its values must
    be named, as mypy has it of each; by their places it is made faster.

    It stays, since without it each field of a `Wish` would be written twice: that is a type of its own, its keys stand
    between others of a task, and a Struct cannot have two bases with fields. A field that was only in one of the two
    lists would be accepted from a client, and lost in the journal. A class made so has the memory and the speed of one
    that is written out: it is a Struct like others, and is made once, at the import."""

    def made(kind: type[S]) -> type[S]:
        fields = _fields(kind)
        ordered = [fields.pop(key) for key in KEYS.split() if key in fields] + list(fields.values())
        methods = {name: value for name, value in vars(kind).items() if isinstance(value, FunctionType | property)}
        whole = msgspec.defstruct(
            kind.__name__,
            ordered,
            namespace={**methods, "__doc__": kind.__doc__},
            module=kind.__module__,
            kw_only=kw_only,
            omit_defaults=omit_defaults,
            gc=False,
        )
        return cast("type[S]", whole)

    return made


def _fields(kind: type[S]) -> dict[str, tuple[str, Any, Any]]:
    """Its fields by their keys: name, type and default. The types are those of the source, as text: `msgspec.structs`
    works out what each means, which whoever starts a master waits for, and which is done again for the type made here.
    """
    types = {
        name: text for base in reversed(kind.__mro__) for name, text in vars(base).get("__annotations__", {}).items()
    }
    names, keys, defaults = kind.__struct_fields__, kind.__struct_encode_fields__, kind.__struct_defaults__
    defaults = (msgspec.NODEFAULT,) * (len(names) - len(defaults)) + defaults
    return {
        key: (name, types[name], _default(default, key if key != name else None))
        for name, key, default in zip(names, keys, defaults, strict=True)
    }


def _default(default: Any, key: str | None) -> Any:
    factory = getattr(default, "factory", None)  # what msgspec has in the place of a `default_factory`
    if factory is not None:
        return msgspec.field(default_factory=factory, name=key)
    return msgspec.field(default=default, name=key)


KEYS = (
    "id name owner project state reason command cwd env setup variables gpus gpu_ids gpu_memory_mib share cpus node "
    "after waits_for priority urgent position time_limit_s attempt submitted_at started_at ended_at exit_code log_path "
    "cancel_requested forced allocation launch unstarted seq"
)
"""The keys of a task in the order in which its lines always had them."""


class TaskFields(Wish, kw_only=True, omit_defaults=True, gc=False):
    """The fields of a task on disk and in every list of tasks."""

    id: int
    owner: str = ""
    state: TaskState = TaskState.WAITING
    reason: str | None = None
    waits_for: list[After] = NO_LIST
    position: float | None = None
    attempt: int = 0
    submitted_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    forced: bool = False
    allocation: list[Part] = NO_LIST
    unstarted: list[Unstarted] = NO_LIST
    seq: int = 0
    reason_key: str | None = None
    reason_args: dict[str, Any] | None = None
    asked_end: AskedEnd | None = None
    over_quota: bool = False
    first_end: FirstEnd | None = None
    learned_gpu_mib: int | None = None
    gpu_peak_mib: int | None = None
    pause_asked: PauseAsked | None = None
    last_line: str | None = None
    not_before: float | None = None
    eligible_at: float | None = None
    retries: int = 0
    array: ArrayPlace | None = None
    sweep: dict[str, str] = NO_MAPPING
    is_allocation: bool = False
    resizing: Resizing | None = None
    resizes: int = 0
    ran_s: float = 0.0
    by_admin: bool = False


@_in_order(omit_defaults=True)
class Task(TaskFields, kw_only=True, omit_defaults=True, gc=False):
    """One task, whole: this is what a journal record and a line of the three queues hold. Unset fields are not written.

    Times are seconds since the epoch. `seq` is the journal's number of the last change. `position` is set by `move`: it
    takes the place of the id in the order of the queue. `waits_for` holds what is left of `after`: a predecessor that
    was met is taken out, so that it may be deleted. `forced` puts it before all, `over_quota`: whatever the quotas.
    `unstarted`: where it is not tried again while another node could take it. `reason` is the sentence of `reason_key`
    and `reason_args`; of what an earlier version wrote it stands alone. `learned_gpu_mib`: what tasks like it were seen
    to use of a GPU, where its owner left that open; `gpu_peak_mib`: what it was seen to use of one itself, at most, in
    MiB, in the last attempt that was watched.

    `not_before`: it is not sent anywhere before this time: that of its wish, or when it is to be tried again.
    `eligible_at`: since when (or, where its time has not come, from when on) nothing but room keeps it from starting,
    where that is not since it was submitted. `retries`: so many of `max_retries` are used up. `array`: its place among
    those that were submitted with it; `sweep`: the values that were put into its command, by name. `is_allocation`: it
    has no command, and holds its GPUs for the tasks that are to run `within` it (see `allocations`). `resizing`: its
    attempt is to end, and the next one to have another number of GPUs; `resizes`: how often that has happened, `ran_s`:
    for how many seconds the attempts ran that were ended so, which its time limit counts, too. `by_admin`: all that it
    runs was submitted, edited and queued again by admins with the scope `admin`; what an earlier version wrote does not
    say so.

    Of the attempt that is under way, or was the last thing that happened, `attempt` is the number, `allocation` the
    parts, `asked_end` who wanted its end, `pause_asked` who wants it to stand still; the times, the exit code and, once
    it has ended, the reason are those of the task. `first_end`: of several parts, the one that ended the others.
    `to_resume`: the launch ids of the parts that are to go on after a pause, and of which no agent has answered since
    that they run. `earlier`: the attempts before. `said_by`: who said what it does, where that is not its owner, who
    was given it and has not asked for it again. Fields that begin with `former` are read from files of the first format
    only, and brought into that shape by `records`.
    """

    earlier: list[Attempt] = NO_LIST
    to_resume: list[str] = NO_LIST
    said_by: str = ""
    former_cancel: bool = msgspec.field(default=False, name="cancel_requested")
    former_launch: Former | None = msgspec.field(default=None, name="launch")

    @property
    def cancel_requested(self) -> bool:
        """Is the present attempt, or was the last one, to end because somebody cancelled it?"""
        return self.asked_end is not None and self.asked_end.why == "cancel"

    @property
    def is_ending(self) -> bool:
        """Is the present attempt to end, because somebody or something wants that, or since a part of it did?"""
        return self.asked_end is not None or self.first_end is not None

    @property
    def attempts(self) -> list[Attempt]:
        """The attempts that are kept (`in_short`), the newest last; the present one, too."""
        if not self.allocation:
            return self.earlier
        is_over = self.ended_at is not None
        present = Attempt(
            no=self.attempt,
            parts=self.allocation,
            asked_end=self.asked_end,
            started_at=self.started_at,
            ended_at=self.ended_at,
            exit_code=self.exit_code,
            reason=self.reason if is_over else None,
            reason_key=self.reason_key if is_over else None,
            reason_args=self.reason_args if is_over else None,
            last_line=self.last_line,
        )
        return in_short([*self.earlier, present])

    def close_attempt(self) -> None:
        """The present attempt is one of the earlier ones, and nothing of it is left but its number."""
        self.earlier = self.attempts
        self.allocation = NO_LIST
        self.started_at = self.ended_at = self.exit_code = self.asked_end = self.pause_asked = None
        self.last_line = self.first_end = self.resizing = None
        give_reason(self, None)


def give_reason(task: Task, reason: Message | None) -> None:
    """Write down what there is to say of a task: for people, and for programs."""
    if reason is None:
        task.reason = task.reason_key = task.reason_args = None
    else:
        task.reason, task.reason_key, task.reason_args = str(reason), reason.key, reason.plain_args()


@_in_order(omit_defaults=True)
class SparseTask(TaskFields, kw_only=True, omit_defaults=True, gc=False):
    """A task with the keys that are not as in the list's `defaults`."""

    cancel_requested: bool = False


@_in_order(omit_defaults=False, kw_only=False)
class TaskView(TaskFields, kw_only=True, omit_defaults=False, gc=False):
    """A task as clients see it: every key present. Times are seconds since the epoch, null where it has not happened;
    `time_limit_s` is in seconds, memory in MiB, GPUs are indices. `reason`: why it waits, or how it ended, as a
    sentence; `reason_key` and `reason_args`: the same for programs, null where there is none, or only the sentence of
    an earlier version. `attempt`: the number of the last one; `allocation`: what that holds, or held, a part for each
    node; `asked_end`: why it was to end, and who wanted that; `pause_asked`: who wants it to stand still, and since
    when, whether it does by now or not. `last_line`: of one that ended badly, the line of its log that says most of
    that; null for who may not read the log. `begin_at`: asked for; `not_before`: until then nothing of it starts;
    `eligible_at`: since when, or from when on, only room keeps it, null: since it was submitted; `retries`: so many of
    `max_retries` are used up. `array`: its place among those that were submitted as one, `sweep`: the values that were
    put into its command, by name. `is_allocation`: it runs nothing itself, but holds GPUs for others; `within`: the
    allocation whose GPUs it uses, by its id. `resizing`: it is being ended, to go on with so many GPUs, for the task
    `waiter` or, with null, because nobody waits for them; `resizes`: how often that has happened; `ran_s`: seconds that
    the attempts ran which were ended so. `by_admin`: it counts as an admin's, for admins with the scope `admin` said
    all that it runs. `warning`: what looks wrong with it while it runs, likewise. `unsaved`: its
    newest change could not be written yet, and is taken back if the master ends before."""

    command: list[str] | str = ""
    cancel_requested: bool = False
    warning: str | None = None
    warning_key: str | None = None
    warning_args: dict[str, Any] | None = None
    unsaved: bool = False


class TaskPage(TaskView, kw_only=True, omit_defaults=False, gc=False):
    """All about one task: as in a list, and its `attempts`, the oldest first; of more than 31 the first and the newest
    30. `expected_s`: how long it is expected to run, by what its like took; null where nothing is known. `gpu_use`:
    what one that runs uses of its GPUs. `held_by`: the first tasks that have what one that waits lacks, of `holders`
    that the caller may know."""

    attempts: list[Attempt] = []
    expected_s: Expected | None = None
    gpu_use: list[GpuUse] = []
    held_by: list[HeldBy] = []
    holders: int = 0
