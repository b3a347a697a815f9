"""Many clients and a storm of kills, in small; `make soak` is the same at full size."""

from __future__ import annotations

from pathlib import Path

from tests.runner.verdict import nothing_found
from tests.soak import seed_of
from tests.system import chaos


def test_nothing_is_lost_doubled_or_booked_twice_in_a_storm_of_kills(tmp_path: Path) -> None:
    seed = seed_of("CHAOS_SEED", 20)
    losses = ("removes_all", "empties_records")
    report = chaos.run(tmp_path, chaos.Plan(tasks=300, kills=3, agent_kills=1, lost_records=losses, seed=seed))
    nothing_found(report.problems, f"CHAOS_SEED={seed}")
    assert report.strikes == {"master": 3, "agent": 1, "lost records": 2}
    assert sum(report.states.values()) == report.filed > 300
    assert report.looks > 50
    for kind in ("gangs", "shares", "tasks of arrays", "GPUs of project narrow", "tasks in a later attempt"):
        assert report.most[kind], f"nobody has seen any {kind}"
