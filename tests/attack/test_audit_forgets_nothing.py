"""A user who makes changes without end does not push older lines out of the audit log."""

from __future__ import annotations

from pathlib import Path

from master.people.audit import AuditLog
from master.people.audit_busy import JOINED, MINUTE_S, MOST_TOLD, OWN_LINES, PER_MINUTE, BusyUsers, Who
from master.verbs.table import VERBS
from tests.master.people.test_audit import ANN, BOB, Clock, telling, told, written


def test_a_flood_of_changes_has_few_lines_and_tells_how_many_there_were(tmp_path: Path) -> None:
    async def story(audit: AuditLog, _clock: Clock) -> None:
        audit.record(*BOB, "task.cancel", 7)
        for number in range(1, 5001):
            audit.record(*ANN, "task.hold", number)
            audit.record(*ANN, "task.edit", number)
        audit.record(*ANN, "file.delete", "data/ann/x")
        audit.record(*BOB, "task.hold", 8)

    telling(tmp_path / "audit", story)
    lines = written(tmp_path / "audit")
    assert len(lines) < 2 * OWN_LINES
    joined = {line["verb"]: line for line in lines if line.get("left_out")}
    assert sorted(joined) == ["file.delete", "task.hold"]  # the edits that followed each other are one line
    first = OWN_LINES // 2
    hold = joined["task.hold"]
    assert (hold["user"], hold["result"], hold["left_out"]) == ("ann", "ok", 5000 - first)
    assert hold["target"].startswith(f"{first + 1}, {first + 2}")
    assert hold["target"].endswith("…")
    assert joined["file.delete"]["target"] == "data/ann/x"
    assert ("bob", "task.cancel", "7", "ok") in told(tmp_path / "audit")
    assert ("bob", "task.hold", "8", "ok") in told(tmp_path / "audit")


def test_what_changes_users_and_nodes_has_a_line_in_whatever_flood(tmp_path: Path) -> None:
    verbs = ("user.add", "user.remove", "node.drain", "conf.write", "setting.set", "group.edit", "clock.accept")

    async def story(audit: AuditLog, _clock: Clock) -> None:
        for number in range(2000):
            audit.record(*ANN, "task.hold" if number % 2 else "task.edit", number)
        for verb in verbs:
            audit.record(*ANN, verb, "it")

    telling(tmp_path / "audit", story)
    assert {(verb, target) for _, verb, target, _ in told(tmp_path / "audit")} >= {(verb, "it") for verb in verbs}


def test_whatever_verb_a_user_may_call_without_end_leaves_few_lines() -> None:
    for_all = {name for name in VERBS if VERBS[name].is_audited and VERBS[name].role != "admin"}
    assert for_all >= {"task.hold", "token.revoke", "token.new", "auth.logout", "user.password"}
    assert {name for name in for_all if not name.startswith(JOINED)} == set()
    flooding = Who("ann", "10.0.0.1", "local", "token.revoke", "ok", 0)
    busy = BusyUsers()
    assert [busy.joins(flooding, "") for _ in range(10_000)].count(False) == OWN_LINES


def test_a_load_of_submits_is_one_line_as_before(tmp_path: Path) -> None:
    async def story(audit: AuditLog, _clock: Clock) -> None:
        for number in range(1, 10_001):
            audit.record(*ANN, "task.submit", number)

    telling(tmp_path / "audit", story)
    assert [line["target"] for line in written(tmp_path / "audit")] == ["1-10000"]


def test_the_share_grows_again_with_time() -> None:
    busy, who = BusyUsers(), Who("ann", "10.0.0.1", "local", "task.hold", "ok", 0)
    other = who._replace(user="bob")
    busy.end(1000.0)
    assert not any(busy.joins(who, number) for number in range(OWN_LINES))
    assert busy.joins(who, 1)
    assert not busy.joins(other, 1)
    joined = busy.end(1000.0 + MINUTE_S)
    assert [(one, told.count, told.target) for one, told in joined.items()] == [(who, 1, "1")]
    assert [busy.joins(who, number) for number in range(PER_MINUTE + 2)].count(False) == PER_MINUTE
    assert next(iter(busy.end(1000.0 + 100 * MINUTE_S).values())).target == f"{PER_MINUTE}, {PER_MINUTE + 1}"
    assert not any(busy.joins(who, number) for number in range(MOST_TOLD))
