"""The messages of agents, typed: a line of the wire becomes one of these or is refused, before anything in it is
believed.

A node is a machine that people log in to; whatever speaks for it must not be able to put into the journal what the next
start cannot read. Texts are short, numbers are numbers. `wire.agent` says what the shapes mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from master.core.attempts.exits import Exit, Seen
from master.core.nodes.gpu_watch import GpuReport
from master.core.nodes.inventory import Facts

K = TypeVar("K")

SAMPLE_BYTES = 512 * 1024
"""A sample may be so long: some hundred GPUs, or some thousand interfaces."""
INVENTORY_BYTES = 4 * 1024 * 1024
SPARE_ATTEMPTS = 4096
"""An inventory may name so many attempts beyond twice those that we know of: each is a process on that machine."""

BRIEF = 1000
"""Characters that are kept of what an agent says in words: they go into the journal, the log and everybody's lists."""

LAST_LINE = 300
"""Characters of a line of a log."""

Name = Annotated[str, Meta(max_length=256)]
Told = Annotated[str, Meta(max_length=64 * 1024)]
Count = Annotated[int, Meta(ge=0, le=1 << 40)]
Number = Annotated[float, Meta(ge=-1e15, le=1e15)]
Code = Annotated[int, Meta(ge=-(1 << 31), le=1 << 31)]


class UnbelievableError(Exception):
    """An agent says more than any machine has to say; the message tells what."""


def brief(text: str) -> str:
    """The text, or its beginning and how much more there was."""
    return text if len(text) <= BRIEF else f"{text[:BRIEF]}… ({len(text) - BRIEF} characters more)"


def kept_path(path: str) -> str:
    """The path, or "" for one that is longer than is kept: with a part missing it would be the path of another file."""
    return path if len(path) <= BRIEF else ""


def one_line(text: str) -> str:
    """The line of a log, no longer and no more than one, whatever an agent says."""
    return "".join(char if char.isprintable() else "?" for char in text[:LAST_LINE])


class Said(msgspec.Struct):
    """Any message: `op` says which."""

    op: Name


class Welcome(msgspec.Struct):
    """See `wire.agent.Welcome`."""

    boot_id: Name
    state_id: Name
    cpus: Annotated[int, Meta(ge=1, le=1 << 20)]
    memory_mib: Count
    hostname: Name = ""
    python: Name = ""
    version: Name = ""
    machine: Name = ""
    now: Number = 0.0
    login_fault: Told = ""
    protocol: Count = 1
    uid: Count | None = None
    account: Name = ""
    can_run_as: bool = False
    tmp_disk_mib: Count | None = None
    keeps_pace: bool = False

    def __post_init__(self) -> None:
        self.login_fault = brief(self.login_fault)

    def facts(self) -> Facts:
        """The part that planning and people need."""
        return Facts(
            boot_id=self.boot_id,
            state_id=self.state_id,
            cpus=self.cpus,
            memory_mib=self.memory_mib,
            tmp_disk_mib=self.tmp_disk_mib,
            hostname=self.hostname,
            python=self.python,
            version=self.version,
            login_fault=self.login_fault,
            protocol=self.protocol,
            machine=self.machine,
            uid=self.uid,
            account=self.account,
            can_run_as=self.can_run_as,
        )


class Refused(msgspec.Struct):
    """See `wire.agent.Refused`."""

    code: Name
    message: Told
    folder: Told = ""

    def __post_init__(self) -> None:
        self.message, self.folder = brief(self.message), brief(self.folder)


class Started(msgspec.Struct):
    """See `wire.agent.Started`."""

    launch_id: Name
    at: Number
    pid: Count = 0
    pid_start: Count | None = None
    log_bytes: Count = 0
    log_limit: Count = 0
    paused: bool = False
    run_as: Name = ""
    log_path: Told = ""


class Ended(msgspec.Struct):
    """See `wire.agent.Exit`."""

    launch_id: Name
    cause: Name
    at: Number | None = None
    code: Code | None = None
    error: Told | None = None
    started_at: Number | None = None
    fault: Name | None = None
    run_as: Name = ""
    log_path: Told = ""
    reached: Count | None = None
    ran_out: Name = ""
    last_line: Told = ""

    def exit(self) -> Exit:
        """As the core takes it."""
        at, error, fault = self.at or 0.0, brief(self.error or ""), self.fault or ""
        return Exit(
            self.launch_id,
            self.cause,
            at,
            self.code,
            error=error,
            started_at=self.started_at,
            fault=fault,
            run_as=self.run_as,
            log_path=self.log_path,
            reached=self.reached,
            ran_out=self.ran_out,
            last_line=one_line(self.last_line),
        )


Pids = Annotated[tuple[Annotated[int, Meta(ge=1, le=1 << 31)], ...], Meta(max_length=64)]


class Unproven(msgspec.Struct):
    """See `wire.agent.Unproven`."""

    launch_id: Name
    pids: Pids


class Attempt(msgspec.Struct):
    """See `wire.agent.Attempt`."""

    launch_id: Name
    state: Name
    cause: Name | None = None
    at: Number | None = None
    code: Code | None = None
    error: Told | None = None
    pid: Count | None = None
    pid_start: Count | None = None
    log_bytes: Count = 0
    log_limit: Count = 0
    paused: bool = False
    started_at: Number | None = None
    fault: Name | None = None
    run_as: Name = ""
    log_path: Told = ""
    reached: Count | None = None
    ran_out: Name = ""
    last_line: Told = ""
    doubt: bool = False
    unproven: Pids = ()
    gpus: Told | None = None
    name: Told = ""
    log: Told = ""

    def seen(self) -> Seen:
        """As the core takes it."""
        if self.state == "ended":
            ended = Ended(
                self.launch_id,
                self.cause or "unknown",
                self.at,
                self.code,
                self.error,
                started_at=self.started_at,
                fault=self.fault,
                run_as=self.run_as,
                log_path=self.log_path,
                reached=self.reached,
                ran_out=self.ran_out,
                last_line=self.last_line,
            )
            return Seen(self.launch_id, exit=ended.exit())
        started_at = self.started_at if self.state == "running" else None
        return Seen(
            self.launch_id,
            started_at,
            pid=self.pid or 0,
            pid_start=self.pid_start,
            log_bytes=self.log_bytes,
            log_limit=self.log_limit,
            paused=self.paused,
            run_as=self.run_as,
            log_path=self.log_path,
            doubt=self.doubt,
            unproven=self.unproven,
            gpus=self.gpus,
            name=one_line(self.name),
            log=kept_path(self.log),
        )


class Inventory(msgspec.Struct):
    """See `wire.agent.Inventory`."""

    attempts: list[Attempt]


class Probed(msgspec.Struct):
    """See `wire.agent.Probed`."""

    probe_id: Name
    output: str
    code: Code | None = None
    truncated: bool = False
    error: Told = ""


class Interface(msgspec.Struct):
    """See `wire.agent.Network`."""

    name: Name
    received_ps: Number
    sent_ps: Number
    bandwidth: Number | None = None


class Disk(msgspec.Struct):
    """See `wire.agent.Disk`."""

    path: Told
    total_mib: Count
    free_mib: Count


class Sample(msgspec.Struct):
    """See `wire.agent.Sample`. Fields without a type here are not passed on."""

    at: Number
    cpu_percent: Number = 0.0
    cpu_percents: list[Number] = []
    load: list[Number] | None = None
    memory_total_mib: Count = 0
    memory_available_mib: Count = 0
    memory: dict[Name, Number] = {}
    network: list[Interface] = []
    disks: list[Disk] = []
    gpus: list[GpuReport] = []
    gpu_source: Name = "none"
    gpu_fault: Told = ""

    def __post_init__(self) -> None:
        self.gpu_fault = brief(self.gpu_fault)


class EncodedSample:
    """A sample on its way to whoever listens. It is one text: a thousand nodes send five hundred a second, mostly to
    nobody, and what is kept of each as objects is looked through at each garbage collection. It is not the text that
    came: in that may stand, under keys that nobody knows, what no reader of ours can read."""

    __slots__ = ("_text", "gpu_fault")

    def __init__(self, sample: Sample) -> None:
        self._text = msgspec.json.encode(sample)
        self.gpu_fault = sample.gpu_fault

    def told(self) -> dict[str, Any]:
        """Return the sample as the agent sent it, for passing on."""
        told: dict[str, Any] = as_anything(self._text)
        return told


def check_due(what: str, *, due: bool) -> None:
    """Raises UnbelievableError for a `welcome` or an `inventory` that nobody waits for: each is heard once."""
    if not due:
        raise UnbelievableError(f"its {what} comes when none is due")


def check_inventory(line: bytes) -> None:
    """Raises UnbelievableError for one that would hold everybody up while it is read."""
    if len(line) > INVENTORY_BYTES:
        raise UnbelievableError(f"its inventory has {len(line)} bytes")


def check_attempts(told: int, known: int) -> None:
    """Raises UnbelievableError; `known`: attempts that we started there and do not know to have ended."""
    if told > SPARE_ATTEMPTS + 2 * known:
        raise UnbelievableError(f"its inventory has {told} attempts, and we know of {known}")


def decoder(kind: type[K]) -> Callable[[bytes], K]:
    """Decodes lines to `kind`; keys that it does not know are for newer masters. It is made when the first line comes:
    to work out the types takes as long as to load several files, and who starts a master waits for that."""
    made: list[Callable[[bytes], K]] = []

    def decode(line: bytes) -> K:
        if not made:
            made.append(msgspec.json.Decoder(kind).decode)
        return made[0](line)

    return decode


op_of = decoder(Said)
as_welcome = decoder(Welcome)
as_refused = decoder(Refused)
as_started = decoder(Started)
as_ended = decoder(Ended)
as_unproven = decoder(Unproven)
as_inventory = decoder(Inventory)
as_probed = decoder(Probed)
as_sample = decoder(Sample)
as_anything = msgspec.json.Decoder().decode
