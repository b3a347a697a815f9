"""What the storm knows to have broken, and what may have cost an attempt its end for that."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Excuses:
    """`reboots`: of each host when it lost power and when it was back (seconds since the epoch); `unshared`: host, from
    when and until when the folder of the logs was gone there; `shims`: launch ids whose shim was killed; `shim_points`:
    host, when a failpoint of a shim was armed there, when that was over: each of these may have cost one attempt."""

    reboots: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    unshared: list[tuple[str, float, float]] = field(default_factory=list)
    shims: set[str] = field(default_factory=set)
    shim_points: list[tuple[str, float, float]] = field(default_factory=list)
