"""The hour in a minute; and that its audit finds what it looks for."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.hour import audit, run
from tests.hour.plan import KINDS, draw
from tests.hour.report import text
from tests.hour.seen import Card, CardSeen, Ended, Look, Promise, Reserved, Run, Seen, Shown
from tests.runner.verdict import nothing_found
from tests.soak import seed_of

A0, A1 = Card("a", 0), Card("a", 1)
SHORT_S = 25.0


@pytest.mark.storm
@pytest.mark.timeout(290)
def test_a_lab_in_which_gpus_are_shared_breaks_no_promise(tmp_path: Path) -> None:
    seed = seed_of("MUSTER_HOUR", 29)

    seen = run.run(tmp_path / "lab", draw(SHORT_S, seed, hosts=1, cards=3))
    nothing_found([said for found in audit.problems(seen).values() for said in found], f"MUSTER_HOUR={seed}")
    assert {task.kind for task in seen.tasks.values()} == {kind.name for kind in KINDS}
    assert len(seen.killed) == 1
    assert "overshoots" in text(seen)


def test_a_seed_gives_the_same_plan_and_another_length_the_same_load() -> None:
    assert draw(60.0, 1) == draw(60.0, 1) != draw(60.0, 2)
    hour, tenth = draw(3600.0, 1), draw(360.0, 1)
    assert len(tenth.wishes) == pytest.approx(len(hour.wishes) / 10 / tenth.pace, rel=0.2)
    assert all(wish.at < 3600.0 for wish in hour.wishes)


# -- the audit -------------------------------------------------------------------------------------------------


def card(held: dict[int, int | None], used: dict[int, int] | None = None, condition: str = "ok") -> CardSeen:
    return CardSeen(dict(used or {}), 0, held, condition)


def task(at: float, end: float, where: list[Card], mib: int | None = 8000, **changes: object) -> Ended:
    runs = [Run(at, end, where, mib)]
    made = Ended("bert", "li", "succeeded", None, at - 1.0, mib, mib is not None, len(where) or 1, None, runs)
    return msgspec.structs.replace(made, **changes)


def seen(looks: list[Look], tasks: dict[int, Ended], promises: tuple[Promise, ...] = ()) -> Seen:
    expected: dict[int, float | None] = {number: one.runs[0].ended_at for number, one in tasks.items() if one.runs}
    return Seen(looks, tasks, list(promises), expected, [], 2.0)


def looks(count: int, cards: list[CardSeen], tasks: dict[int, Shown] | None = None, **reserved: Reserved) -> list[Look]:
    """One a second, from 100 on, in which nothing changes."""
    return [Look(100.0 + at, dict(tasks or {}), {"a": cards}, reserved) for at in range(count)]


RUNS, WAITS = Shown("running", None, None, None), Shown("waiting", None, "needs", None)


def test_the_audit_is_content_with_three_that_share_a_card() -> None:
    three = {number: task(100.0, 160.0, [A0]) for number in (1, 2, 3)}
    shown = looks(60, [card({1: 8000, 2: 8000, 3: 8000}, {1: 7000}), card({})], dict.fromkeys(three, RUNS))
    assert [said for found in audit.problems(seen(shown, three)).values() for said in found] == []


def test_the_audit_sees_a_card_that_was_given_out_twice() -> None:
    four = {number: task(100.0 + number, 160.0, [A0]) for number in (1, 2, 3, 4)}
    assert audit.over_committed(seen([], four)) == ["GPU 0 of a: 32000 MiB are granted at 104.0"]
    beside_whole = {1: task(100.0, 160.0, [A0], None), 2: task(110.0, 150.0, [A0])}
    assert audit.over_committed(seen([], beside_whole)) == ["GPU 0 of a: one of 2 has it as a whole at 110.0"]
    shown = looks(1, [card({1: 20_000, 2: 8000})], {1: RUNS, 2: RUNS})
    assert audit.over_committed(seen(shown, {})) == ["GPU 0 of a: 28000 MiB are granted at 100.0"]


def test_the_audit_sees_who_was_alone_and_could_have_shared() -> None:
    two = {1: task(50.0, 160.0, [A0]), 2: task(105.0, 160.0, [A1])}
    shown = looks(20, [card({1: 8000}), card({})], {1: RUNS})
    assert audit.alone(seen(shown, two)) == ["task 2 (bert) began alone on GPU 1 of a, and GPU 0 of a had room"]
    for full in (card({1: 17_000}), card({1: 8000}, {1: 17_000}), card({1: None}), card({1: 8000}, None, "clearing")):
        assert audit.alone(seen(looks(20, [full, card({})], {1: RUNS}), two)) == []
    assert audit.alone(seen(looks(20, [card({1: 8000}), card({})], {1: RUNS}, a=Reserved(9, [0], 200.0)), two)) == []


def test_the_audit_sees_who_waited_beside_a_card_that_was_open() -> None:
    waits = {1: task(50.0, 160.0, [A0]), 2: task(150.0, 160.0, [A0], submitted_at=99.0)}
    shown = looks(45, [card({1: 8000})], {1: RUNS, 2: WAITS})
    assert audit.idle(seen(shown, waits)) == ["task 2 (bert) waited 44 s beside GPU 0 of a"]
    assert audit.idle(seen(looks(45, [card({1: 17_000})], {1: RUNS, 2: WAITS}), waits)) == []
    whole = {2: task(150.0, 160.0, [A0], None, submitted_at=99.0)}
    assert audit.idle(seen(looks(45, [card({})], {2: WAITS}), whole)) == ["task 2 (bert) waited 44 s beside GPU 0 of a"]
    assert audit.idle(seen(looks(45, [card({})], {2: WAITS}, a=Reserved(9, [0], None)), whole)) == []


def test_the_audit_sees_who_was_started_beside_an_overshoot_and_whose_owner_was_not_told() -> None:
    told = Shown("running", "share_outgrown", None, None)
    both = {1: task(50.0, 160.0, [A0]), 2: task(110.0, 160.0, [A0])}
    over = [card({1: 8000}, {1: 12_000})]
    found = audit.closed(seen(looks(20, over, {1: told}), both))
    assert found == ["task 1 overshot on GPU 0 of a, and task 2 was started there"]
    found = audit.closed(seen(looks(40, over, {1: RUNS}), {1: both[1]}))
    assert found == ["task 1 overshot on GPU 0 of a for 39 s, and its owner was not told"]


def test_the_audit_sees_a_reserved_task_that_was_late_and_who_passed_it() -> None:
    promise = Promise(3, 100.0, 120.0, [A0], {1: 118.0})
    large = task(140.0, 160.0, [A0], None, submitted_at=90.0)
    kept = looks(40, [card({1: None}), card({})], {1: RUNS, 3: WAITS}, a=Reserved(3, [0], 120.0))
    late = {1: task(50.0, 118.0, [A0], None), 3: large}
    assert audit.late_starts(seen(kept, late, (promise,))) == [
        "task 3 (bert) started 20.0 s after the time that was told"
    ]
    overran = {1: task(50.0, 139.0, [A0], None), 3: large}
    assert audit.late_starts(seen(kept, overran, (promise,))) == [], "a holder ran longer than expected"
    first = late | {2: task(150.0, 160.0, [A0], None, goes_first=True)}
    given = [*kept, *(msgspec.structs.replace(look, reserved={"a": Reserved(2, [0], 120.0)}) for look in kept)]
    assert audit.late_starts(seen(given, first, (promise,))) == [], "it gave way to one that goes before it"
    passing = {2: task(110.0, 139.0, [A0], None), 3: large}
    assert audit.passed(seen(kept, passing, (promise,))) == [
        "task 2 (bert) passed task 3, and was to end after its start"
    ]


def test_the_audit_sees_a_reservation_that_a_killed_master_forgot() -> None:
    one = seen(looks(5, [card({})], {3: WAITS}, a=Reserved(3, [0], 120.0)), {3: task(130.0, 140.0, [A0], None)})
    one.looks += [msgspec.structs.replace(look, at=look.at + 10.0, reserved={}) for look in one.looks]
    one.killed = [(105.0, 109.0)]
    assert audit.forgotten(one) == ["the reservation of task 3 was lost with the master"]
    one.looks[-5:] = [
        msgspec.structs.replace(look, cards={"a": [card({}, condition="busy")]}) for look in one.looks[-5:]
    ]
    assert audit.forgotten(one) == [], "somebody computes on the card who was not given it"


def test_the_audit_asks_why_a_task_ran_out_of_memory() -> None:
    failed = {1: task(100.0, 120.0, [A0], state="failed", reason="oom")}
    shown = looks(20, [card({1: 8000}, {1: 7000})], {1: RUNS})
    assert audit.ends(seen(shown, failed)) == ["task 1 (bert) failed, and nobody overshot beside it: oom"]
    beside = failed | {2: task(90.0, 130.0, [A0])}
    shown = looks(20, [card({1: 8000, 2: 8000}, {1: 7000, 2: 15_000})], {1: RUNS, 2: RUNS})
    assert audit.ends(seen(shown, beside)) == []
    assert audit.ends(seen([], {1: task(1.0, 2.0, [A0], state="lost", reason="x")})) == [
        "task 1 (bert) is lost after 1 attempts: x"
    ]


def test_the_audit_sees_who_waits_in_silence_and_that_nobody_looked() -> None:
    silent = looks(45, [card({1: None})], {2: Shown("waiting", None, None, None)})
    waits = {2: task(150.0, 160.0, [A0], submitted_at=99.0)}
    assert audit.silent(seen(silent, waits)) == ["task 2 waits for 45 s and is not told why"]
    assert audit.not_looked(seen([silent[0], silent[40]], waits)) == ["nobody looked for 40 s"]
