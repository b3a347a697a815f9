"""What agents say, typed: a line of the wire becomes one of these or is refused, before anything of it is believed.

A node is a machine that people log in to; whatever speaks for it must not be able to put into the journal what the next
start cannot read. Texts are short, numbers are numbers. What the shapes mean stands in `wire.agent`.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from master.core.attempt import Exit, Seen
from master.core.gpu_watch import GpuReport
from master.core.inventory import Facts

Name = Annotated[str, Meta(max_length=256)]
Told = Annotated[str, Meta(max_length=64 * 1024)]
Count = Annotated[int, Meta(ge=0, le=1 << 40)]
Number = Annotated[float, Meta(ge=-1e15, le=1e15)]
Code = Annotated[int, Meta(ge=-(1 << 31), le=1 << 31)]


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
    now: Number = 0.0

    def facts(self) -> Facts:
        """The part that planning and people need."""
        return Facts(
            boot_id=self.boot_id,
            state_id=self.state_id,
            cpus=self.cpus,
            memory_mib=self.memory_mib,
            hostname=self.hostname,
            python=self.python,
            version=self.version,
        )


class Refused(msgspec.Struct):
    """See `wire.agent.Refused`."""

    code: Name
    message: Told


class Started(msgspec.Struct):
    """See `wire.agent.Started`."""

    launch_id: Name
    at: Number


class Ended(msgspec.Struct):
    """See `wire.agent.Exit`."""

    launch_id: Name
    cause: Name
    at: Number | None = None
    code: Code | None = None
    error: Told | None = None
    started_at: Number | None = None

    def exit(self) -> Exit:
        """As the core takes it."""
        return Exit(self.launch_id, self.cause, self.at or 0.0, self.code, self.error or "", self.started_at)


class Attempt(msgspec.Struct):
    """See `wire.agent.Attempt`."""

    launch_id: Name
    state: Name
    cause: Name | None = None
    at: Number | None = None
    code: Code | None = None
    error: Told | None = None
    started_at: Number | None = None

    def seen(self) -> Seen:
        """As the core takes it."""
        if self.state == "ended":
            ended = Ended(self.launch_id, self.cause or "unknown", self.at, self.code, self.error, self.started_at)
            return Seen(self.launch_id, exit=ended.exit())
        return Seen(self.launch_id, self.started_at if self.state == "running" else None)


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
    """See `wire.agent.Sample`. Whoever passes a sample on passes on what was sent; this checks it and is looked at."""

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


class Passed:
    """A sample on its way to whoever listens. It stays the line that came: a thousand nodes send five hundred a second,
    mostly to nobody, and what is kept of each as objects is looked through at each garbage collection."""

    __slots__ = ("_line", "gpu_fault")

    def __init__(self, line: bytes, gpu_fault: str = "") -> None:
        self._line = line
        self.gpu_fault = gpu_fault

    def told(self) -> dict[str, Any]:
        """What was said, for passing on."""
        told: dict[str, Any] = as_anything(self._line)
        del told["op"]
        return told


def decoder(kind: type[Any]) -> msgspec.json.Decoder[Any]:
    """A decoder of lines to `kind`; keys that it does not know are for newer masters."""
    return msgspec.json.Decoder(kind)


op_of = decoder(Said).decode
as_welcome = decoder(Welcome).decode
as_refused = decoder(Refused).decode
as_started = decoder(Started).decode
as_ended = decoder(Ended).decode
as_inventory = decoder(Inventory).decode
as_probed = decoder(Probed).decode
as_sample = decoder(Sample).decode
as_anything = msgspec.json.Decoder().decode
