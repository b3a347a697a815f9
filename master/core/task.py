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
starting, a kill only while starting or running.

The table below is the law: `Task.move` refuses everything else, and a test walks every pair.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

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

TRANSITIONS: dict[TaskState, frozenset[TaskState]] = {
    TaskState.WAITING: frozenset({TaskState.HELD, TaskState.STARTING, TaskState.CANCELLED}),
    TaskState.HELD: frozenset({TaskState.WAITING, TaskState.STARTING, TaskState.CANCELLED}),
    TaskState.STARTING: frozenset({TaskState.RUNNING}) | ENDED,
    TaskState.RUNNING: frozenset({TaskState.PAUSED}) | ENDED,
    TaskState.PAUSED: frozenset({TaskState.RUNNING}) | ENDED,
    **dict.fromkeys(ENDED, QUEUED),
}


class IllegalTransitionError(Exception):
    """A defect of ours: some code tried to move a task in a way that the table does not allow."""


class After(msgspec.Struct, frozen=True, omit_defaults=True):
    """A predecessor. `on`: `ok` (it must succeed), `fail` (it must end otherwise) or `any`."""

    id: int
    on: str = "ok"


class Allocation(msgspec.Struct, frozen=True):
    """The GPUs (indices, PCI bus order) that an attempt holds on one node."""

    node: str
    gpus: list[int] = []


class Launch(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where an attempt was sent: enough to know later whether its claim can still be looked up. `address`: where the
    node was then, so that another machine under its name is not taken for it."""

    launch_id: str
    node: str
    boot_id: str
    state_id: str
    address: str = ""


class Task(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """One task, whole: this is what a journal record and a line of the three queues hold. Unset fields are not written.

    Times are seconds since the epoch. `seq` is the journal's number of the last change. `position` is set by `move`:
    it takes the place of the id in the order of the queue. `gpu_ids` asks for exact GPUs. `waits_for` holds what is
    left of `after`: a predecessor that was met is taken out, so that it may be deleted. `forced` puts it before all.
    """

    id: int
    name: str = ""
    owner: str = ""
    project: str = ""
    state: TaskState = TaskState.WAITING
    reason: str | None = None
    command: list[str] | str
    cwd: str = ""
    env: str = ""
    setup: str = ""
    variables: dict[str, str] = {}
    gpus: int = 0
    gpu_ids: list[int] | None = None
    gpu_memory_mib: int | None = None
    share: bool = False
    cpus: int | None = None
    node: str | None = None
    after: list[After] = []
    waits_for: list[After] = []
    priority: int = 0
    urgent: bool = False
    position: float | None = None
    time_limit_s: float | None = None
    attempt: int = 0
    submitted_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    log_path: str = ""
    cancel_requested: bool = False
    forced: bool = False
    allocation: list[Allocation] = []
    launch: Launch | None = None
    seq: int = 0

    def move(self, to: TaskState) -> None:
        """Change the state, or raise IllegalTransitionError."""
        if to not in TRANSITIONS[self.state]:
            raise IllegalTransitionError(f"task {self.id}: {self.state} -> {to}")
        self.state = to


class TaskView(Task, kw_only=True, omit_defaults=False, gc=False):
    """A task as clients see it: every key present. `warning`: what looks wrong with it while it runs."""

    warning: str | None = None


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
