"""Which settings there are that can change while the master runs: of each its unit, bounds, default and meaning.

Pure. The two structs are the table: the keys of conf.json, the values that `muster set` takes, shows and completes, and
the table in the docs follow from it. `master.core.tuning` owns the present values.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, inspect

from wire.agent import HEARTBEAT_S, SAMPLE_S
from wire.errors import BadRequestError, NotFoundError
from wire.message import Message

LONGEST_S = 1e9
"""Some thirty years: nobody means a longer time."""
SHORTEST_S = 0.1
MOST = 10**15

Unit = Literal["seconds", "bytes", "share", "days", "number", "word"]
"""The unit of a value: how it is typed, and shown."""
Value = float | str | None
"""A number, whole or not, a word, or none."""


def _is(
    unit: Unit, meaning: str, least: float = 0, most: float | None = None, *, zero: Literal["", "none"] = ""
) -> Meta:
    """A number of this unit between the two. `zero`: how 0 is meant where it is no number."""
    most = {"seconds": LONGEST_S, "share": 0.99}.get(unit, MOST) if most is None else most
    return Meta(ge=least, le=most, description=meaning, extra={"unit": unit, "zero": zero})


class Scheduling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The section `scheduler`: policy. None: there is no such bound."""

    reserve_after: Annotated[
        float,
        _is("seconds", "after waiting so long for room a task gets a reservation that later tasks do not pass"),
    ] = 21_600.0
    reservations: Annotated[int, _is("number", "so many tasks have a reservation at a time", most=1000)] = 4
    retry_after_s: Annotated[
        float, _is("seconds", "how long a task that is to be tried again waits the first time; doubled each time")
    ] = 10.0
    resize_after: Annotated[
        float, _is("seconds", "an elastic task runs at least so long before it is given another number of GPUs")
    ] = 600.0
    time_limit: Annotated[
        float, _is("seconds", "the time limit of tasks that are submitted without one", zero="none")
    ] = 0.0
    time_limit_max: Annotated[
        float,
        _is(
            "seconds", "the longest time limit that a task may have; whatever starts has this one at most", zero="none"
        ),
    ] = 0.0
    keep_gpu_memory: Annotated[
        float, _is("share", "the share of each GPU's memory that is kept free where tasks share a GPU")
    ] = 0.0
    keep_memory: Annotated[float, _is("share", "the share of each node's memory that is kept free of tasks")] = 0.0
    max_running: (
        Annotated[int, _is("number", "at most so many tasks run at a time, of all people together", least=1)] | None
    ) = None
    max_tasks_per_gpu: (
        Annotated[int, _is("number", "at most so many tasks share one GPU, whatever memory it has left", least=1)]
        | None
    ) = None
    end_outgrown_after_s: Annotated[
        float,
        _is(
            "seconds",
            "a task that has used more of a shared GPU than it asked for (--gpu-mem) for so long is ended; "
            "with none its owner is only told",
            zero="none",
        ),
    ] = 0.0
    stray_tasks: Annotated[
        Literal["tell", "end"],
        Meta(
            description="what is done with a task that computes on a GPU which it was not given: its owner gets a "
            "warning, or it is ended",
            extra={"unit": "word"},
        ),
    ] = "tell"
    urgent: Annotated[
        Literal["mentors", "all"],
        Meta(
            description="who may put tasks before those of others once there are users: mentors (and admins), or all",
            extra={"unit": "word"},
        ),
    ] = "mentors"
    user_priority_max: Annotated[
        int,
        _is(
            "number",
            "the highest priority that users give their own tasks without a mentor",
        ),
    ] = 0
    grace_s: Annotated[float, _is("seconds", "between TERM and KILL when a task is ended", most=86_400)] = 10.0
    log_bytes: Annotated[
        int, _is("bytes", "how large the log of a task that starts from now on may become", zero="none")
    ] = 0
    idle_after_s: Annotated[
        float, _is("seconds", "after doing nothing for so long a running task is marked as idle", zero="none")
    ] = 1800.0
    idle_action: Annotated[
        Literal["tell", "hold_next", "end"],
        Meta(
            description="what is done about a task that is marked as idle: its owner gets a warning, the owner's next "
            "tasks with GPUs wait as well, or the task is ended",
            extra={"unit": "word"},
        ),
    ] = "tell"
    sample_s: Annotated[
        float, _is("seconds", "so often each node tells its CPU, memory and GPU use", least=0.5, most=20)
    ] = SAMPLE_S
    heartbeat_s: Annotated[
        float,
        _is(
            "seconds",
            "so often master and agents hear from each other; after three times this without a word the node is "
            "unreachable",
            least=0.5,
            most=HEARTBEAT_S,
        ),
    ] = HEARTBEAT_S
    keep_history: Annotated[
        int, _is("number", "so many ended tasks are kept at hand; older ones move to the monthly files")
    ] = 10_000
    keep_history_bytes: Annotated[
        int, _is("bytes", "so many bytes may the large ones (over 4 KiB) of those come to; older ones move, too")
    ] = 256 << 20
    report_stale_s: Annotated[
        float,
        _is(
            "seconds",
            "a node that dials in is unreachable after so long without a word from its agent",
            least=SHORTEST_S,
        ),
    ] = 180.0


class Caps(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The section `limits`: caps against mistakes and floods; rates are per minute and user."""

    waiting_tasks: Annotated[int, _is("number", "so many tasks may wait, of all people together", least=1)] = 200_000
    task_bytes: Annotated[
        int,
        _is(
            "bytes",
            "so many bytes may the commands, variables and lists of all large tasks (over 4 KiB) come to that have "
            "not ended",
            least=1 << 20,
        ),
    ] = 1 << 30
    user_share: Annotated[
        float,
        _is(
            "share",
            "once there are users, the tasks of one may take so much of what those of others leave of "
            "limits.waiting_tasks and limits.task_bytes",
            least=0.01,
            most=1,
        ),
    ] = 0.5
    frame_bytes: Annotated[
        int, _is("bytes", "how large a request may be, which has at most 500,000 values", least=4096)
    ] = 16 << 20
    frame_bytes_unidentified: Annotated[
        int, _is("bytes", "how large a request of a peer may be that has not logged in", least=1024)
    ] = 64 << 10
    outbox_bytes: Annotated[
        int, _is("bytes", "how much unread data may wait for a subscriber that reads slowly", least=64 << 10)
    ] = 4 << 20
    handshake_s: Annotated[
        float, _is("seconds", "how long a peer has to log in before its connection is closed", least=SHORTEST_S)
    ] = 10.0
    connections: Annotated[int, _is("number", "so many connections of all kinds but agents at a time", least=1)] = 4096
    connections_unidentified: Annotated[
        int,
        _is(
            "number",
            "so many connections of one address that have not said who they are; the oldest of more is closed",
            least=1,
        ),
    ] = 64
    connections_per_address: Annotated[
        int, _is("number", "so many connections of desktop clients, which have three each, at one address", least=1)
    ] = 128
    connections_per_user: Annotated[
        int, _is("number", "so many connections of one user from all addresses, the user's tasks included", least=1)
    ] = 512
    held_bytes: Annotated[
        int,
        _is(
            "bytes",
            "how much may be buffered for one user, or one address before the log-in; four times as much for all",
            least=1 << 20,
        ),
    ] = 64 << 20
    upload_bytes: Annotated[int, _is("bytes", "how large an uploaded file may be")] = 16 << 30
    failed_logins_per_minute: Annotated[
        int, _is("number", "so many wrong passwords of one name from one address, then that address waits", least=1)
    ] = 5
    auth_requests_per_minute: Annotated[int, _is("number", "so many auth.* requests of one user", least=1)] = 60
    env_requests_per_minute: Annotated[int, _is("number", "so many env.* requests of one user", least=1)] = 60


class Settings(msgspec.Struct, frozen=True):
    """All of them, as they hold at some moment."""

    scheduler: Scheduling = Scheduling()
    limits: Caps = Caps()


class Row(msgspec.Struct, frozen=True):
    """A setting: `name` as people type it (`SECTION.FIELD`), the bounds of its value where that is a number, the words
    that it may be else, whether it may be none, and in a sentence what it means. `is_whole`: it counts something.
    `is_none_at_zero`: 0 means none."""

    name: str
    section: str
    field: str
    kind: Any
    default: float | str | None
    unit: Unit
    meaning: str
    least: float | None
    most: float | None
    words: tuple[str, ...]
    may_be_none: bool
    is_none_at_zero: bool
    is_whole: bool

    @property
    def allowed(self) -> Message:
        """Return the allowed values, in words."""
        if self.least is None or self.most is None:
            return Message("one_of_words", words=self.words)
        what = Message("whole_number") if self.unit == "number" else Message("number_of", unit=self.unit)
        none = Message("or_none") if self.may_be_none else ""
        is_size, is_endless = self.unit == "bytes", self.most in (LONGEST_S, MOST)
        if is_size and is_endless:
            return Message("size_at_least", what=what, least=self.least, none=none)
        if is_endless:
            return Message("at_least", what=what, least=self.least, none=none)
        if is_size:
            return Message("size_between", what=what, least=self.least, most=self.most, none=none)
        return Message("between", what=what, least=self.least, most=self.most, none=none)


def _row(section: str, field: msgspec.structs.FieldInfo) -> Row:
    found = inspect.type_info(field.type)
    may_be_none = isinstance(found, inspect.UnionType)
    if isinstance(found, inspect.UnionType):
        (found,) = (one for one in found.types if not isinstance(one, inspect.NoneType))
    # Where a type has a description or more, msgspec puts it around the type; the bounds are the type's own.
    said: dict[str, Any] = {}
    if isinstance(found, inspect.Metadata):
        said = {**(found.extra_json_schema or {}), **(found.extra or {})}
        found = found.type
    is_number = isinstance(found, inspect.IntType | inspect.FloatType)
    return Row(
        name=f"{section}.{field.name}",
        section=section,
        field=field.name,
        kind=field.type,
        default=field.default,
        unit=said["unit"],
        meaning=said["description"],
        least=getattr(found, "ge", None) if is_number else None,
        most=getattr(found, "le", None) if is_number else None,
        words=tuple(map(str, found.values)) if isinstance(found, inspect.LiteralType) else (),
        may_be_none=may_be_none or said.get("zero") == "none",
        is_none_at_zero=said.get("zero") == "none",
        is_whole=isinstance(found, inspect.IntType),
    )


SECTIONS = Settings.__struct_fields__
"""The objects of conf.json whose keys are all settings."""
ROWS: dict[str, Row] = {
    row.name: row
    for section, kind in (("scheduler", Scheduling), ("limits", Caps))
    for row in (_row(section, field) for field in msgspec.structs.fields(kind))
}
"""All settings by name."""


def find(name: str) -> Row:
    """The setting of this name. Raises NotFoundError."""
    row = ROWS.get(name)
    if row is None:
        raise NotFoundError(Message("no_setting", name=name))
    return row


def checked(row: Row, value: object) -> Value:
    """The value as the setting has it. Raises BadRequestError with what is allowed."""
    if value is None and row.is_none_at_zero:
        return 0
    try:
        taken: Value = msgspec.convert(value, row.kind)
    except msgspec.ValidationError:
        raise BadRequestError(Message("bad_setting", name=row.name, allowed=row.allowed)) from None
    return taken
