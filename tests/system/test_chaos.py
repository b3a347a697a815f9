"""Many clients and a storm of kills, in small; `make soak` is the same at full size."""

from __future__ import annotations

import os
import random
from pathlib import Path

from tests.system import chaos


def test_nothing_is_lost_doubled_or_booked_twice_in_a_storm_of_kills(tmp_path: Path) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or random.randrange(1 << 32))
    print(f"CHAOS_SEED={seed} repeats this run")  # noqa: T201  (pytest shows it when the test fails)
    report = chaos.run(tmp_path, chaos.Plan(tasks=300, kills=6, agent_kills=2, seed=seed))
    assert report.problems == [], f"CHAOS_SEED={seed}"
    assert report.strikes == {"master": 6, "agent": 2}
    assert sum(report.states.values()) == report.filed > 300
    assert report.looks > 50
    for kind in ("gangs", "shares", "tasks of arrays", "GPUs of project narrow", "tasks in a later attempt"):
        assert report.most[kind], f"nobody has seen any {kind}"
