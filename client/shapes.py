"""The typed shapes of what the master answers, for annotations. Plain dicts at run time; nothing is checked here."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class After(TypedDict):
    """A predecessor: `on` is `ok`, `fail` or `any`."""

    id: int
    on: str


class Allocation(TypedDict):
    """The GPU indices that an attempt holds on one node."""

    node: str
    gpus: list[int]


class Part(Allocation):
    """What an attempt holds on one node, and under which id it was started there, unless an old system did that.
    `run_as`: the account as which it runs, or ran, where that is not the agent's."""

    launch_id: NotRequired[str]
    run_as: NotRequired[str]


class AskedEnd(TypedDict):
    """Why an attempt was to end before it had done what it was for (`cancel`, `limit`, `node_lost`), and by whom, or
    an empty text."""

    why: str
    by: str


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


class Unstarted(TypedDict):
    """A node that could not start a task, and what it said."""

    node: str
    why: str


class Message(TypedDict):
    """What is said, for programs: the `key` of a sentence and its values."""

    key: str
    args: dict[str, Any]


class Task(TypedDict):
    """A task as `queue --json` shows it. Times are seconds since the epoch, None where it has not happened.
    `attempt` is the number of its last attempt, of which `allocation` and `asked_end` tell; `unstarted`: nodes that
    could not start it, and why. `unsaved`: its newest change could not be written yet, and is taken back if the master
    ends before. `reason` is a sentence, `reason_key` and `reason_args` are the same for programs; so for
    `warning`."""

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
    env: str
    setup: str
    variables: dict[str, str]
    gpus: int
    gpu_ids: list[int] | None
    cpus: int | None
    gpu_memory_mib: int | None
    share: bool
    node: str | None
    after: list[After]
    priority: int
    urgent: bool
    time_limit_s: float | None
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


class TaskPage(Task):
    """A task as `show --json` shows it: with its `attempts`, the oldest first; of more than 20 the newest."""

    attempts: list[Attempt]


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


class Node(TypedDict):
    """A node as `nodes --json` shows it. `registry` is `ok`, `leaving` or `changing`; `drained` is why, or None;
    `sick`: why it was set aside by itself (it could start nothing), or None; `mismatch`: which GPUs are not those that
    the registry says, or None."""

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
    load: list[float] | None
    clock_offset_s: float | None
    tasks: list[int]
    hostname: str | None
    python: str | None
    agent_version: str | None


class NodePage(Node):
    """A node as `node show --json` shows it. `drained_at`: seconds since the epoch. `account`: its agent's, None where
    it did not say; `can_run_as`: the agent is root and runs tasks as the accounts of their owners."""

    user_name: str | None
    account: str | None
    can_run_as: bool
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
    },
)
"""A line of the audit log. `at` in seconds since the epoch; `user` is None where nobody knew who it was; `target`: ids,
a name or a path; `result`: `ok` or the code of an error; `left_out`: how many calls have no line of their own."""


class AuditPage(TypedDict):
    """The answer to `audit`: lines, the newest first; `unreadable`: so many were met that are none."""

    entries: list[AuditEntry]
    unreadable: int


class Why(TypedDict):
    """The answer to `why`. `brief`: the reason without what `details` tell; of a task in the history there is none."""

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


class Cancelled(TypedDict):
    """What a cancel did: gone from the queue at once, told to end, or refused (id, as a string: why; in `codes` the
    error's stable name, in `messages` the same for programs)."""

    cancelled: list[int]
    signalled: list[int]
    refused: dict[str, str]
    codes: dict[str, str]
    messages: dict[str, Message]


class Who(TypedDict):
    """Who one is to the master; `user` is None for nobody. `scopes`: what one may do, `via`: how one came in; `until`:
    seconds since the epoch, None: no end. `is_shared`: whether users were ever added."""

    user: str | None
    display: str
    role: str
    scopes: list[str]
    via: str
    groups: list[str]
    until: float | None
    is_shared: bool


class LoggedIn(TypedDict):
    """The answer to a log-in: the `token` that stands for it, told this once, and when it ends (seconds since the
    epoch)."""

    user: str
    role: str
    id: str
    token: str
    until: float


class User(TypedDict):
    """A user, as admins see him. Times in seconds since the epoch; `disabled`: by whom, or None; `is_owner_only`:
    nobody added him, he owned tasks before there were users."""

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


class Disabled(TypedDict):
    """What became of a disabled user's tasks, by id."""

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
    """A group: members, and the mentors who look after their tasks, by name."""

    id: int
    name: str
    members: list[str]
    mentors: list[str]


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
    """The ids of what opens nothing any more."""

    ids: list[str]
