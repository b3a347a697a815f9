"""The report of a source about GPUs: the shape of a reading, and numbers that can be believed.

It owns names and units. Where a reading comes from is the sources', what becomes of it is `sources`'.
"""

from __future__ import annotations

from typing import Callable, List, NamedTuple, Optional, Tuple

ABSURD = 1e9
Doing = Callable[[str], None]
"""Called with the name of what may hang now, before each step that may."""
Bus = Tuple[int, ...]
"""A place on the PCI bus: domain, bus, device, function."""


class Found(NamedTuple):
    """One GPU as its source tells it; what it does not tell is None. Units as in `wire.agent.Gpu`; `holders`: pid and
    memory in MiB of each compute process."""

    bus: Bus
    uuid: str
    model: str = ""
    utilization: Optional[float] = None
    memory_utilization: Optional[float] = None
    memory_total_mib: Optional[int] = None
    memory_used_mib: Optional[int] = None
    temperature: Optional[float] = None
    power: Optional[float] = None
    ecc_errors: Optional[int] = None
    xid: Optional[int] = None
    mig: bool = False
    holders: Tuple[Tuple[int, Optional[int]], ...] = ()
    fault: str = ""


class Reading(NamedTuple):
    """The report of a source. `fault`: what is wrong with the driver as a whole. `again_s`: when to ask again."""

    found: List[Found]
    fault: str
    again_s: float


class Source:
    """Somebody who can tell of GPUs. `name` as in `wire.agent.Sample`."""

    name = "none"

    def read(self, doing: Doing) -> Reading:
        """A reading; never an exception for what a driver does."""
        raise NotImplementedError


def percent(value: Optional[float]) -> Optional[float]:
    """A share from 0 to 100, or None: drivers tell nonsense at times, and JSON knows no NaN."""
    return value if value is not None and 0 <= value <= 100 else None  # noqa: PLR2004  (percent)


def amount(value: Optional[float]) -> Optional[float]:
    """A quantity that cannot be negative, or None."""
    return value if value is not None and 0 <= value < ABSURD else None


def whole(value: Optional[float]) -> Optional[int]:
    """The same, as a whole number."""
    value = amount(value)
    return None if value is None else round(value)
