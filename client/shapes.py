"""The typed shapes of what the master answers, for annotations. Plain dicts at run time; nothing is checked here."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class After(TypedDict):
    """A predecessor: `on` is `ok`, `fail` or `any`; `array`: it is all of the array whose first task has this id."""

    id: int
    on: str
    array: NotRequired[bool]


class Allocation(TypedDict):
    """The resources of an attempt on one node: GPU indices; `gpu_mib`: MiB of each where others share it,
    None for all."""

    node: str
    gpus: list[int]
    gpu_mib: int | None


class Part(TypedDict):
    """The part of an attempt on one node, with the id of its launch, unless an old system started it.
    `run_as`: the account that it runs as, or ran as, if that is not the agent's, `account`; `login`: the SSH account
    to whose agent it was sent, where that is not the node's own. `gpu_mib`: MiB that it may use of each GPU, unless it
    has them to itself. Of an attempt of several parts, each has its own end: `ended_at`, `exit_code`; `is_free`: what
    it held was given back, while others go on. `clock_offset_s`: by so many seconds the node's clock was ahead of the
    master's (less than 0: behind) when it last told a time of it, which was corrected by that."""

    node: str
    gpus: list[int]
    gpu_mib: NotRequired[int | None]
    ended_at: NotRequired[float | None]
    exit_code: NotRequired[int | None]
    is_free: NotRequired[bool]
    launch_id: NotRequired[str]
    run_as: NotRequired[str]
    account: NotRequired[str]
    login: NotRequired[str]
    clock_offset_s: NotRequired[float | None]


class FirstEnd(TypedDict):
    """Which part of an attempt of several ended first otherwise than well, and so ended the others: its `rank`, where
    it ran, in which state a task of it alone would have ended, its code. `unbegun`: its node could not begin it."""

    rank: int
    node: str
    state: str
    code: int | None
    unbegun: bool


class AskedEnd(TypedDict):
    """Why an attempt was to end before it had done what it was for (`cancel`, `limit`, `node_lost`, `release`,
    `allocation`: that in which it ran was to end; `resize`: it is to go on with other GPUs), and by whom, or an empty
    text."""

    why: str
    by: str


class EarlySignal(TypedDict):
    """A signal to its processes some seconds before the time limit ends a task; `main_only`: only to the command
    itself."""

    name: str
    before_s: float
    main_only: bool


class Resizing(TypedDict):
    """That a task is being ended to go on with so many `gpus`, which had `was`: fewer, for the task `waiter`, or more.
    `at`: since when, in seconds since the epoch."""

    gpus: int
    was: int
    waiter: int | None
    at: float


class PauseAsked(TypedDict):
    """A pause of a task: by which user, and since when, in seconds since the epoch."""

    by: str
    at: float


class Attempt(TypedDict):
    """One try at running a task; `parts`: one for each node. Times are seconds since the epoch, None where it has not
    happened. `asked_end` is None if it ended by itself, or goes on."""

    no: int
    parts: list[Part]
    asked_end: AskedEnd | None
    started_at: float | None
    ended_at: float | None
    exit_code: int | None
    reason: str | None
    reason_key: str | None
    reason_args: dict[str, Any] | None
    last_line: str | None


class Unstarted(TypedDict):
    """A node that could not start a task, and what it said; or, `ran`, on which it did run, and should not again."""

    node: str
    why: str
    ran: NotRequired[bool]


class Message(TypedDict):
    """A message for programs: the `key` of a sentence and its values."""

    key: str
    args: dict[str, Any]


class Note(Message):
    """The same with its sentence in English, `text`."""

    text: str


class ArrayPlace(TypedDict):
    """Which of an array's tasks it is; `id`: that of the array's first task."""

    id: int
    index: int


class Array(TypedDict):
    """The bounds of an array: the most tasks that run at once (`cap`), the failures after which the rest is held
    (`max_fails`); None: no bound; `failed`: the tasks that count as failures."""

    id: int
    count: int
    cap: int | None
    max_fails: int | None
    failed: list[int]


class Snapshot(TypedDict):
    """A copy of the code of a folder (`of`), as it was: its `digest`, how many `files` and `bytes`; `commit`: git's
    then, "" for none, and `changed`: something was not as in it."""

    of: str
    digest: str
    files: int
    bytes: int
    commit: str
    changed: bool


class Task(TypedDict):
    """A task as `queue --json` shows it. Times are seconds since the epoch, None where it has not happened. `begin_at`:
    asked for; `not_before`: until then nothing of it starts; `eligible_at`: since when (or from when on) only room
    keeps it, None: since it was submitted; `retries`: so many of `max_retries` are used up. `attempt` is the number of
    its last attempt, of which `allocation` and `asked_end` tell; `unstarted`: nodes that could not start it, and why.
    `array`: its place among those that were submitted as one; `sweep`: the values that were put into its command.
    `token`: what it gets a token of its owner's for, `submit` or nothing. `pause_asked`: who wants it to stand still,
    whether it does by now or not. `is_allocation`: it runs nothing, but holds GPUs for others; `within`: the allocation
    whose GPUs it uses. `elastic`: it may get more GPUs or fewer while it runs, from `checkpoint` on; `resizes`: how
    often that happened, `ran_s`: seconds that it ran before the last time. `by_admin`: it counts as an admin's, for
    admins with the scope `admin` said all that it runs. `last_line`: of one that ended badly, the line of its log that
    says most of that, for callers who may read the log. `unsaved`: its newest change could not be written yet, and is
    taken back if the master ends before. `reason` is a sentence, `reason_key` and `reason_args` are the same for
    programs; so for `warning`."""

    id: int
    name: str
    owner: str
    project: str
    state: str
    reason: str | None
    reason_key: str | None
    reason_args: dict[str, Any] | None
    warning: str | None
    warning_key: str | None
    warning_args: dict[str, Any] | None
    unsaved: bool
    command: list[str] | str
    cwd: str
    snapshot: Snapshot | None
    env: str
    setup: str
    variables: dict[str, str]
    gpus: int
    gpu_ids: list[int] | None
    gpus_max: int | None
    cpus: int | None
    gpu_memory_mib: int | None
    gpu_models: list[str]
    share: bool
    min_free_util: float
    memory_mib: int | None
    tmp_disk_mib: int | None
    licences: dict[str, int]
    nodes: int
    node_list: list[str]
    gpus_on: dict[str, list[int]]
    exclude: list[str]
    first_end: FirstEnd | None
    learned_gpu_mib: int | None
    gpu_peak_mib: int | None
    node: str | None
    after: list[After]
    priority: int
    urgent: bool
    time_limit_s: float | None
    begin_at: float | None
    on_timeout: str
    max_retries: int
    retry_on: list[str]
    not_before: float | None
    eligible_at: float | None
    retries: int
    signal: EarlySignal | None
    token: str
    within: int | None
    attempt: int
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    exit_code: int | None
    log_path: str
    cancel_requested: bool
    allocation: list[Part]
    unstarted: list[Unstarted]
    asked_end: AskedEnd | None
    pause_asked: PauseAsked | None
    last_line: str | None
    array: ArrayPlace | None
    sweep: dict[str, str]
    is_allocation: bool
    elastic: bool
    checkpoint: str
    resizing: Resizing | None
    resizes: int
    ran_s: float
    by_admin: bool


class Place(TypedDict):
    """GPUs of one node."""

    node: str
    gpus: list[int]


class Allocated(TypedDict):
    """An allocation that is not over; `id`: of the task that holds it. `held`: which GPUs it has, `free`: those that no
    task within uses; `tasks`: ids of those that run, `waiting` of those that are to. `since` and `ends_at`: seconds
    since the epoch, None: not yet, or never. `is_ending`: it takes no more tasks."""

    id: int
    name: str
    owner: str
    project: str
    state: str
    gpus: int
    nodes: int
    held: list[Place]
    free: list[Place]
    tasks: list[int]
    waiting: list[int]
    since: float | None
    ends_at: float | None
    is_ending: bool
    reason: str | None
    reason_key: str | None
    reason_args: dict[str, Any] | None


class Expected(TypedDict):
    """How long a task is expected to run, in seconds: half of its like took no more than `low`, four of five no more
    than `high`. `source`: which those are (`command`, `gpus`, `owner`, `all`); `runs`: how many were looked at."""

    low: float
    high: float
    source: str
    runs: int


class TaskPage(Task):
    """A task as `show --json` shows it: with its `attempts`, the oldest first; of more than 31 the first and the
    newest 30. `expected_s`: how long it is expected to run, None where nothing is known, or where it has ended.
    `gpu_use`: what one that runs uses of its GPUs; `held_by`: the first of the `holders`, the tasks that have what one
    that waits lacks."""

    attempts: list[Attempt]
    expected_s: Expected | None
    gpu_use: list[GpuUse]
    held_by: list[HeldBy]
    holders: int


class GpuUse(TypedDict):
    """One GPU of a task that runs. Memory in MiB, `utilization` in percent; None where nothing is known. `used_mib` is
    the task's own, `memory_used_mib` and `utilization` are the GPU's, which others may share."""

    node: str
    gpu: int
    used_mib: int | None
    memory_used_mib: int | None
    memory_mib: int | None
    utilization: float | None


class HeldBy(TypedDict):
    """A task that has what another one waits for."""

    id: int
    owner: str
    name: str


class Foreign(TypedDict):
    """A process on a GPU that is none of our tasks'. Memory in MiB, None where nobody knows."""

    pid: int
    user: str
    memory_mib: int | None


class Gpu(TypedDict):
    """One GPU of a node. Memory in MiB, `utilization` in percent; None where nothing is known. `health` is `ok` or why
    it gets no tasks; `condition` is that in one word: `ok busy clearing aside broken unknown`."""

    index: int
    model: str | None
    memory_mib: int | None
    memory_used_mib: int | None
    utilization: float | None
    condition: str
    health: str
    health_message: Message | None
    held_by: list[int]
    foreign: list[Foreign]


class NodeReservation(TypedDict):
    """Resources that are reserved on a node for a waiting `task`: `gpus`, and others. `expected_at`: when
    it is expected to start, in seconds since the epoch, None where nobody knows."""

    task: int
    gpus: list[int]
    expected_at: float | None


class Node(TypedDict):
    """A node as `nodes --json` shows it. `registry` is `ok`, `leaving` or `changing`; `drained` is why, or None;
    `sick`: why it was set aside by itself (it could start nothing), or None; `mismatch`: which GPUs are not those that
    the registry says, or None; `reservation`: what is kept there for a task that waits, or None; `own_account`: whose
    tasks run there as the master's own account, see docs/people.md; None if tasks have another account."""

    name: str
    driver: str | None
    address: str
    state: str
    schedulable: bool
    reason: str | None
    reason_messages: list[Message]
    drained: str | None
    sick: str | None
    registry: str
    gpus: list[Gpu]
    mismatch: str | None
    cpus: int | None
    cpus_held: int
    slots: int | None
    slots_held: int
    memory_mib: int | None
    tmp_disk_mib: int | None
    tmp_disk_held_mib: int
    load: list[float] | None
    clock_offset_s: float | None
    tasks: list[int]
    hostname: str | None
    python: str | None
    agent_version: str | None
    reservation: NodeReservation | None
    own_account: str | None


class NodeAccount(TypedDict):
    """Over which account of a node (`user_name`) the tasks of a `user` run. `state`: of the way to its agent, None
    while there is none, because the user has no task there; `reason`: what is wrong with it, or None."""

    user: str
    user_name: str
    state: str | None
    reason: str | None
    reason_messages: list[Message]


class NodePage(Node):
    """A node as `node show --json` shows it. `drained_at`: seconds since the epoch. `account`: its agent's, None where
    it did not say; `can_run_as`: the agent is root and runs tasks as the accounts of their owners; `accounts`: over
    which SSH accounts tasks run there, None where all run as the agent's."""

    user_name: str | None
    account: str | None
    can_run_as: bool
    accounts: list[NodeAccount] | None
    port: int | None
    labels: dict[str, str]
    drained_by: str | None
    drained_at: float | None


class NodeAdded(TypedDict):
    """The answer to `node add`. `needs_trust`: its host key is not known yet."""

    node: Node
    needs_trust: bool


class NodeEdited(TypedDict):
    """The answer to `node edit`. `deferred`: it takes effect when the `tasks` of the node have ended."""

    node: Node
    deferred: bool
    tasks: list[int]


class NodeRemoved(TypedDict):
    """The answer to `node rm`. `leaving`: it goes when its `tasks` have ended."""

    name: str
    leaving: bool
    tasks: list[int]


class UnknownAttempt(TypedDict):
    """An attempt on a `node` whose records the lab lost, so that no task knows it. `task`: the id of the task whose it
    was, as its launch id says; `account`: as which it runs, "" for the agent's own; `gpus`: None where nobody knows
    which it has. `started_at` and `since`, when the master first heard of it: seconds since the epoch. `ended_by`:
    who had it ended; `dismissed_by`: who said that it is to hold nothing."""

    node: str
    launch_id: str
    task: int | None
    name: str
    account: str
    gpus: list[int] | None
    pid: int | None
    started_at: float | None
    since: float
    log_path: str | None
    ended_by: str | None
    dismissed_by: str | None


class Key(TypedDict):
    """A host key, as `ssh-keygen -l` shows it."""

    type: str
    fingerprint: str


class Trust(TypedDict):
    """The answer to `node trust`: what the machine shows, the fingerprint we knew, whether that key is pinned now."""

    name: str
    offered: Key
    known: str | None
    pinned: bool


class AgentsDone(TypedDict):
    """The answer to `agents`: the nodes for which it was done, and for the others why not."""

    done: list[str]
    refused: dict[str, str]


AuditEntry = TypedDict(
    "AuditEntry",
    {
        "at": float,
        "user": "str | None",
        "from": str,
        "via": str,
        "verb": str,
        "target": str,
        "result": str,
        "left_out": NotRequired[int],
        "task": NotRequired[int],
    },
)
"""A line of the audit log. `at` in seconds since the epoch; `user` is None where nobody knew who it was; `target`: ids,
a name or a path; `result`: `ok` or the code of an error; `left_out`: how many calls have no line of their own; `task`:
the task that called, with its token."""


class AuditPage(TypedDict):
    """The answer to `audit`: lines, the newest first; `unreadable`: so many were met that are none."""

    entries: list[AuditEntry]
    unreadable: int


class ClockAccepted(TypedDict):
    """The answer to `accept_clock`. `now`: what the clock shows; `was`: the latest time that was seen before (seconds
    since the epoch); `ended`: how many log-ins, tokens and links had ended by that time, and stay so; `users`: the
    names of those who had, and come back; `tasks`: the ids of theirs that wait again."""

    was: float
    now: float
    ended: int
    users: list[str]
    tasks: list[int]


class Why(TypedDict):
    """The answer to `why`. `brief`: the reason without what `details` tell; of a task in the history there is none.
    `would_start`: what would let a task start that waits for room, each way by itself; a master of before has none."""

    id: int
    state: str
    reason: str | None
    reason_key: str | None
    reason_args: dict[str, Any] | None
    brief: NotRequired[str | None]
    warning: str | None
    warning_key: str | None
    warning_args: dict[str, Any] | None
    blocked_by: list[int]
    details: list[str]
    detail_messages: list[Message]
    would_start: NotRequired[list[str]]
    would_start_messages: NotRequired[list[Message]]


class Difference(TypedDict):
    """A `field` in which two tasks differ: the value of one (`here`), and of the other (`there`); None without one."""

    field: str
    here: Any
    there: Any


class Diff(TypedDict):
    """In which `fields` the tasks `id` and `other` differ; `hidden`: what was not compared, for one may not see it."""

    id: int
    other: int
    fields: list[Difference]
    hidden: list[str]


class Cancelled(TypedDict):
    """The result of a cancel: removed from the queue at once, being ended, or refused (id, as a string: why; in `codes`
    the error's stable name, in `messages` the same for programs); in `names` the names of the first 200 that were ended
    and have one."""

    cancelled: list[int]
    signalled: list[int]
    refused: dict[str, str]
    codes: dict[str, str]
    messages: dict[str, Message]
    names: NotRequired[dict[str, str]]


class Removed(TypedDict):
    """The ids of tasks that were deleted, and in `names` the names of the first 200 that have one (id, as a string:
    name)."""

    removed: list[int]
    names: NotRequired[dict[str, str]]


class Who(TypedDict):
    """The caller; `user` is None without a log-in. `scopes`: permissions, `via`: the kind of log-in; `until`: seconds
    since the epoch, None: no end. `is_shared`: whether users were ever added. `quotas`: the bounds of the caller's
    tasks, and their use. `barred`: why a known user cannot log in; `user` is None then. `share`: of the
    caller's tasks in the queue; None without a user."""

    user: str | None
    display: str
    role: str
    scopes: list[str]
    via: str
    groups: list[str]
    until: float | None
    is_shared: bool
    quotas: list[Account]
    barred: str | None
    share: Share | None


class LoggedIn(TypedDict):
    """The answer to a log-in: the `token` that stands for it, told this once, and when it ends (seconds since the
    epoch)."""

    user: str
    role: str
    id: str
    token: str
    until: float


class User(TypedDict):
    """A user, as admins see them, with quotas and their use. Times in seconds since the epoch; `disabled`: by whom, or
    None; `is_owner_only`: nobody added this user, who owned tasks before there were users."""

    id: int
    name: str
    display: str
    role: str
    mail: str
    language: str
    groups: list[str]
    mentors: list[str]
    added_at: float
    added_by: str
    expires_at: float | None
    disabled: str | None
    has_password: bool
    is_owner_only: bool
    log_ins: int
    tokens: int
    quota: Quota
    use: Use


class Disabled(TypedDict):
    """The results for a disabled user's tasks, by id."""

    held: list[int]
    running: list[int]
    cancelled: list[int]


class Link(TypedDict):
    """A `link` with which the user chooses a password once, and until when (seconds since the epoch)."""

    name: str
    link: str
    until: float


class Claimed(TypedDict):
    """How many tasks have another owner now."""

    count: int


class Group(TypedDict):
    """A group: members, and the mentors who look after their tasks, by name; what the members' tasks may have at a
    time, and what is in use."""

    id: int
    name: str
    members: list[str]
    mentors: list[str]
    quota: Quota
    use: Use


Token = TypedDict(
    "Token",
    {
        "id": str,
        "user": str,
        "kind": str,
        "label": str,
        "scopes": "list[str] | None",
        "made_at": float,
        "made_by": str,
        "from": str,
        "expires_at": "float | None",
        "used_on": "float | None",
        "is_this": bool,
    },
)
"""A token, or a log-in (`kind` is `session`), without its secret. Times in seconds since the epoch; `scopes` is None
where it is not confined."""


class TokenMade(TypedDict):
    """A new token, told this once."""

    id: str
    token: str
    user: str
    scopes: list[str] | None
    expires_at: float | None


class Revoked(TypedDict):
    """The ids of the revoked tokens and log-ins."""

    ids: list[str]


class SettingRange(TypedDict):
    """The allowed values of a setting: a number between `least` and `most`, or one of `words`; and whether it may be
    None."""

    least: int | float | None
    most: int | float | None
    words: list[str]
    none: bool


class Setting(TypedDict):
    """A setting: the `value` that holds, the `default` that holds where nothing was set (`in_conf`: conf.json's), and
    who set it, and when (seconds since the epoch); None where nobody did. `unit`: `seconds`, `bytes`, `share`,
    `number` or `word`."""

    name: str
    value: int | float | str | None
    default: int | float | str | None
    range: SettingRange
    unit: str
    meaning: str
    in_conf: bool
    by: str | None
    at: float | None


class FileText(TypedDict):
    """conf.json (`name` is `conf`) or the registry: where it lies, its text with marks for secrets, its version, and
    the keys that cannot be changed from afar."""

    name: str
    path: str
    text: str
    version: str
    fixed: list[str]


class FileWritten(TypedDict):
    """A change: lines as `diff -u` has them, the keys or nodes that differ, whether it holds `now` or from the
    next `start`, the version of the file now, and where the one before lies; None where nothing was written.
    `at_start`: the keys of conf.json that hold from the next start, while the others hold now."""

    name: str
    diff: list[str]
    changed: list[str]
    counts: str
    version: str
    kept: str | None
    at_start: list[str]


class KeptFile(TypedDict):
    """An earlier version: its name, when it was replaced (seconds since the epoch), its size in bytes."""

    name: str
    at: float
    size: int


class Quota(TypedDict):
    """The limits of tasks at one time: GPUs in use, those of them in named allocations, GPUs of one task, tasks that
    run. None: no bound."""

    max_total_gpus: int | None
    max_manual_gpus: int | None
    max_gpus_per_task: int | None
    max_running: int | None


class Use(TypedDict):
    """The resources in use: GPUs, those of them that named allocations hold (`manual`), and tasks that run."""

    gpus: int
    running: int
    manual: int


class Account(TypedDict):
    """A quota that somebody's tasks count for: whose it is (`kind`: `user`, `group`, `project`, or `cluster` for all
    people together), and what is in use."""

    kind: str
    name: str
    quota: Quota
    use: Use


class Share(TypedDict):
    """The share of a user's tasks in the queue: how many wait, and how many may; the bytes of the large ones, over
    4 KiB, that have not ended, and how many they may come to."""

    waiting: int
    most_waiting: int
    bytes: int
    most_bytes: int


class UserShare(Share):
    """The share of the tasks of one `user` in the queue."""

    user: str


class Project(TypedDict):
    """A project: the group that it belongs to (None: to none), its quota, what is in use, and how many of its tasks are
    not over."""

    name: str
    group: str | None
    quota: Quota
    use: Use
    tasks: int
