"""What a task is, and the only ways in which its state may change.

A task is one command with what it needs. People submit it; it *waits* (or is *held* until somebody releases it); the
planner gives it GPUs on a node, and from the moment that decision is on disk it is *starting*: from then on something
may be alive on the node, and only the node can say otherwise. The agent reports that it runs; it is *running* (or
*paused*). It ends exactly once per attempt, in one of five ways, each with its own meaning to the owner:

* succeeded: the command ended with 0;
* failed: it ended with something else, or could not be started (`reason` says which);
* cancelled: somebody asked for it, or a predecessor made it pointless (`reason` says which);
* timed_out: its time limit ended it;
* lost: nobody can know (the machine rebooted, the shim was killed, the node was given up).

An ended task may wait again (`retry`, or an edit): that is a new attempt with a new launch_id, of the same task. An
attempt's launch_id is started at most once, ever; so the states say what may be sent to a node: a launch only while
starting, a kill only while starting or running. One that its node could not start, for a fault of the node's own, waits
again by itself: its attempt is over, nothing was done, and its owner has nothing to mend.

What may happen in which state is `law`'s to say, and nobody but the `book` changes one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import FunctionType
from typing import Any, TypeVar, cast

import msgspec

from master.core.attempt import KEPT, AskedEnd, Attempt, Part
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
ENDED = frozenset(TaskState) - QUEUED - ACTIVE


class After(msgspec.Struct, frozen=True):
    """A predecessor. `on`: `ok` (it must succeed), `fail` (it must end otherwise) or `any`."""

    id: int
    on: str = "ok"


class Unstarted(msgspec.Struct, frozen=True):
    """A node that could not start the task, for a fault of the node's own, and what it said."""

    node: str
    why: str


class Terms(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """What people say of a task besides its command: how, where and when it shall run. `gpu_ids` asks for exact GPUs,
    `gpus` then counts them."""

    name: str = ""
    project: str = ""
    cwd: str = ""
    env: str = ""
    setup: str = ""
    variables: dict[str, str] = {}
    gpus: int = 0
    gpu_ids: list[int] | None = None
    cpus: int | None = None
    node: str | None = None
    after: list[After] = []
    priority: int = 0
    urgent: bool = False
    time_limit_s: float | None = None


class Wish(Terms, kw_only=True, omit_defaults=True, gc=False):
    """Every field of a task that a submit sets, and no other: what may be said, and what may be edited, follows from
    this class."""

    command: list[str] | str
    log_path: str = ""


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
    be named, as mypy has it of each; by their places it is made faster."""

    def made(kind: type[S]) -> type[S]:
        fields = {one.encode_name: one for one in msgspec.structs.fields(kind)}
        ordered = [fields.pop(key) for key in KEYS.split() if key in fields] + list(fields.values())
        methods = {name: value for name, value in vars(kind).items() if isinstance(value, FunctionType | property)}
        whole = msgspec.defstruct(
            kind.__name__,
            [(one.name, one.type, _default(one)) for one in ordered],
            namespace={**methods, "__doc__": kind.__doc__},
            module=kind.__module__,
            kw_only=kw_only,
            omit_defaults=omit_defaults,
            gc=False,
        )
        return cast("type[S]", whole)

    return made


def _default(field: msgspec.structs.FieldInfo) -> Any:
    name = field.encode_name if field.encode_name != field.name else None
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=field.default_factory, name=name)
    return msgspec.field(default=field.default, name=name)


KEYS = (
    "id name owner project state reason command cwd env setup variables gpus gpu_ids gpu_memory_mib share cpus node "
    "after waits_for priority urgent position time_limit_s attempt submitted_at started_at ended_at exit_code log_path "
    "cancel_requested forced allocation launch unstarted seq"
)
"""The keys of a task in the order in which its lines always had them."""


class TaskFields(Wish, kw_only=True, omit_defaults=True, gc=False):
    """What a task has on disk and in every list of tasks."""

    id: int
    owner: str = ""
    state: TaskState = TaskState.WAITING
    reason: str | None = None
    gpu_memory_mib: int | None = None
    share: bool = False
    waits_for: list[After] = []
    position: float | None = None
    attempt: int = 0
    submitted_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    forced: bool = False
    allocation: list[Part] = []
    unstarted: list[Unstarted] = []
    seq: int = 0
    reason_key: str | None = None
    reason_args: dict[str, Any] | None = None
    asked_end: AskedEnd | None = None


@_in_order(omit_defaults=True)
class Task(TaskFields, kw_only=True, omit_defaults=True, gc=False):
    """One task, whole: this is what a journal record and a line of the three queues hold. Unset fields are not written.

    Times are seconds since the epoch. `seq` is the journal's number of the last change. `position` is set by `move`:
    it takes the place of the id in the order of the queue. `waits_for` holds what is left of `after`: a predecessor
    that was met is taken out, so that it may be deleted. `forced` puts it before all. `unstarted`: where it is not
    tried again while another node could take it. `reason` is the sentence of `reason_key` and `reason_args`; of what
    an earlier version wrote it stands alone. `gpu_memory_mib`, `share`: of the old system's files; nothing heeds
    them.

    Of the attempt that is under way, or was the last thing that happened, `attempt` is the number, `allocation` the
    parts, `asked_end` who wanted its end; the times, the exit code and, once it has ended, the reason are those of the
    task. `earlier`: the attempts before. What begins with `former` is read from files of the first format only, and
    brought into that shape at once.
    """

    earlier: list[Attempt] = []
    former_cancel: bool = msgspec.field(default=False, name="cancel_requested")
    former_launch: Former | None = msgspec.field(default=None, name="launch")

    def __post_init__(self) -> None:
        """What an earlier version wrote of the one attempt that it knew is an attempt of one part."""
        if (sent := self.former_launch) is not None:
            self.former_launch = None
            gpus = [gpu for part in self.allocation for gpu in part.gpus]
            self.allocation = [
                Part(
                    sent.node, gpus, sent.launch_id, sent.boot_id, sent.state_id, sent.address, sent.machine, sent.pid,
                    sent.pid_start,
                )
            ]  # fmt: skip
        if self.former_cancel:
            self.former_cancel = False
            self.asked_end = AskedEnd("cancel")

    @property
    def cancel_requested(self) -> bool:
        """Is the present attempt, or was the last one, to end because somebody cancelled it?"""
        return self.asked_end is not None and self.asked_end.why == "cancel"

    @property
    def attempts(self) -> list[Attempt]:
        """The attempts that are kept, the newest last; the present one, too."""
        if not self.allocation:
            return self.earlier
        present = Attempt(
            no=self.attempt,
            parts=self.allocation,
            asked_end=self.asked_end,
            started_at=self.started_at,
            ended_at=self.ended_at,
            exit_code=self.exit_code,
            reason=self.reason,
            reason_key=self.reason_key,
            reason_args=self.reason_args,
        )
        return [*self.earlier, present][-KEPT:]

    def close_attempt(self) -> None:
        """The present attempt is one of the earlier ones, and nothing of it is left but its number."""
        self.earlier = self.attempts
        self.allocation = []
        self.started_at = self.ended_at = self.exit_code = self.asked_end = None
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
    node; `asked_end`: why it was to end, and who wanted that. `warning`: what looks wrong with it while it runs,
    likewise. `unsaved`: its newest change could not be written yet, and is taken back if the master ends before."""

    command: list[str] | str = ""
    cancel_requested: bool = False
    warning: str | None = None
    warning_key: str | None = None
    warning_args: dict[str, Any] | None = None
    unsaved: bool = False


class TaskPage(TaskView, kw_only=True, omit_defaults=False, gc=False):
    """All about one task: as in a list, and its `attempts`, the oldest first; of more than 20 the newest."""

    attempts: list[Attempt] = []


def merge_pieces(state: dict[str, msgspec.Raw], change: Mapping[str, msgspec.Raw]) -> None:
    """Put the pieces of a change into the state. One that says `null` is of something that is gone."""
    for name, piece in change.items():
        if bytes(piece) == b"null":
            state.pop(name, None)
        else:
            state[name] = piece


class Change(msgspec.Struct, omit_defaults=True):
    """What one journal record says, all of it or nothing: whole tasks, tombstones, whole pieces of state, answers.

    `answered` maps a client's request_id to the result that it got, so that a retry gets it again.
    """

    tasks: list[Task] = []
    gone: list[int] = []
    state: dict[str, msgspec.Raw] = {}
    answered: dict[str, msgspec.Raw] = {}

    def __bool__(self) -> bool:
        return bool(self.tasks or self.gone or self.state or self.answered)
