"""People who do everything at once: see `many_hands`. `make soak` does it for longer, with more of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runner.verdict import nothing_found
from tests.soak import seed_of
from tests.system import many_hands

SEED = seed_of("MUSTER_HANDS", 11)


def test_whatever_people_do_at_once_nothing_is_held_twice_and_all_ends(tmp_path: Path) -> None:
    problems, done = many_hands.run(tmp_path / "lab", SEED, 12.0)
    nothing_found(problems, f"MUSTER_HANDS={SEED}")
    assert done >= many_hands.ENOUGH, done


@pytest.mark.soak
def test_for_minutes(tmp_path: Path) -> None:
    problems, _ = many_hands.run(tmp_path / "lab", SEED, 150.0, hands=8, kills=12)
    nothing_found(problems, f"MUSTER_HANDS={SEED}")
