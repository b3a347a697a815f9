"""The verbs `clock.…`: see `master.verbs.table`."""

from __future__ import annotations

from master.verbs import clock
from master.verbs.base import Nothing, Verb

VERBS: dict[str, Verb] = {
    "clock.accept": Verb(Nothing, clock.ClockAccepted, clock.accept, "admin", "admin", "none"),
}
