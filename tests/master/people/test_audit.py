"""The audit log: what stands in it, that a flood neither fills nor empties it, and that a full disk ends nobody."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from master.people import audit as audit_module
from master.people import audit_file
from master.people.audit import LISTED, LISTED_OF_ALL, TOLD_APART, AuditEntry, AuditLog, Wanted
from master.people.audit_busy import OWN_LINES
from master.people.tokens import make
from tests.master.in_process import run
from tests.waiting import settled

ANN = ("ann", "10.0.0.1", "local")
BOB = ("bob", "10.0.0.2", "local")


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def telling(folder: Path, story: Callable[[AuditLog, Clock], Awaitable[None]]) -> None:
    """Run a story with an audit log, and close that."""

    async def whole() -> None:
        clock = Clock()
        audit = AuditLog(folder, clock)
        await story(audit, clock)
        audit.close()

    run(whole())


def written(folder: Path) -> list[dict[str, Any]]:
    text = (folder / audit_file.NAME).read_text(encoding="utf-8")
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def told(folder: Path) -> list[tuple[str | None, str, str, str]]:
    return [(line["user"], line["verb"], line["target"], line["result"]) for line in written(folder)]


def test_a_line_says_when_who_from_where_what_about_what_and_with_what_result(tmp_path: Path) -> None:
    async def story(audit: AuditLog, _clock: Clock) -> None:
        audit.record(*ANN, "node.drain", "gpu01")
        audit.record(*BOB, "task.start", 7, result="forbidden")

    telling(tmp_path / "audit", story)
    assert written(tmp_path / "audit") == [
        {
            "at": 1000.0, "user": "ann", "from": "10.0.0.1", "via": "local", "verb": "node.drain", "target": "gpu01",
            "result": "ok",
        },
        {
            "at": 1000.0, "user": "bob", "from": "10.0.0.2", "via": "local", "verb": "task.start", "target": "7",
            "result": "forbidden",
        },
    ]  # fmt: skip


def test_lines_are_written_soon_without_waiting_for_the_end(tmp_path: Path) -> None:
    async def story(audit: AuditLog, _clock: Clock) -> None:
        audit.record(*ANN, "task.submit", 1)
        assert not (tmp_path / audit_file.NAME).exists()
        await settled((tmp_path / audit_file.NAME).exists)
        assert len(written(tmp_path)) == 1

    telling(tmp_path, story)


def test_what_was_set_is_written_before_anybody_is_told_so_that_no_kill_takes_it(tmp_path: Path) -> None:
    async def story(audit: AuditLog, _clock: Clock) -> None:
        audit.record(*ANN, "task.submit", 1)
        audit.record(*ANN, "setting.set", "scheduler.max_running = 1")
        assert [line["verb"] for line in written(tmp_path)] == ["task.submit", "setting.set"]

    telling(tmp_path, story)


def test_many_lines_at_once_do_not_wait_for_the_timer(tmp_path: Path) -> None:
    async def story(audit: AuditLog, _clock: Clock) -> None:
        for number in range(OWN_LINES):
            audit.record(*ANN, "file.delete", f"data/{number}/{'x' * 100}")
        assert written(tmp_path)

    telling(tmp_path, story)
    assert len(written(tmp_path)) == OWN_LINES


def test_calls_of_one_caller_that_follow_at_once_are_one_line_with_their_ids(tmp_path: Path) -> None:
    async def story(audit: AuditLog, _clock: Clock) -> None:
        for number in (*range(100, 5001), 7, 8, 6000):
            audit.record(*ANN, "task.hold", number)
        audit.record(*BOB, "task.hold", 9)
        audit.record(*ANN, "task.hold", 10)
        audit.record(*ANN, "task.release", 10)
        audit.record(*ANN, "task.release", 11, result="conflict")

    telling(tmp_path, story)
    assert told(tmp_path) == [
        ("ann", "task.hold", "100-5000, 7-8, 6000", "ok"),
        ("bob", "task.hold", "9", "ok"),
        ("ann", "task.hold", "10", "ok"),
        ("ann", "task.release", "10", "ok"),
        ("ann", "task.release", "11", "conflict"),
    ]


def test_ids_that_have_nothing_to_do_with_each_other_do_not_pile_up(tmp_path: Path) -> None:
    async def story(audit: AuditLog, _clock: Clock) -> None:
        for number in range(0, 10_000, 2):
            audit.record(*ANN, "task.hold", number)
        assert written(tmp_path)

    telling(tmp_path, story)


def test_what_others_typed_forges_no_line_and_is_no_longer_than_it_may_be(tmp_path: Path) -> None:
    async def story(audit: AuditLog, _clock: Clock) -> None:
        audit.record(*ANN, "file.delete", 'data/a\n{"at":1}\x1b[2J\u202e\ud800' + "x" * 5000)

    telling(tmp_path, story)
    [line] = written(tmp_path)
    assert line["target"].isprintable()
    assert line["target"].startswith('data/a\\n{"at":1}\\x1b[2J\\u202e\\ud800x')
    assert len(line["target"]) == audit_module.TARGET


def test_a_token_that_somebody_takes_for_a_name_is_written_without_its_secret(tmp_path: Path) -> None:
    made = make("7f3a")

    async def story(audit: AuditLog, _clock: Clock) -> None:
        audit.record(*ANN, "file.write", f"data/{'x' * 150}/{made.text}")

    telling(tmp_path, story)
    [line] = written(tmp_path)
    assert "mst_7f3a" in line["target"]
    assert made.text.split("_", 2)[2][:8] not in line["target"]


def test_only_the_masters_account_may_read_it(tmp_path: Path) -> None:
    async def story(audit: AuditLog, _clock: Clock) -> None:
        audit.record(*ANN, "task.submit", 1)

    before = os.umask(0)
    try:
        telling(tmp_path / "audit", story)
    finally:
        os.umask(before)
    assert (tmp_path / "audit").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "audit" / audit_file.NAME).stat().st_mode & 0o777 == 0o600


def test_files_are_rotated_and_the_oldest_goes(tmp_path: Path) -> None:
    file = audit_file.AuditFile(tmp_path, size=100)
    for number in range(30):
        file.write(b"%050d\n" % number)
    file.close()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {audit_file.NAME, *(f"{audit_file.NAME}.{number}" for number in range(1, audit_file.FILES))}
    numbers = [int(line) for lines in audit_file.lines_backwards(tmp_path) for line in lines]
    assert numbers == list(range(29, 29 - len(numbers), -1))
    assert len(numbers) == audit_file.FILES


def test_a_file_that_somebody_took_away_is_made_anew(tmp_path: Path) -> None:
    async def story(audit: AuditLog, _clock: Clock) -> None:
        audit.record(*ANN, "task.hold", 1)
        audit.flush()
        (tmp_path / audit_file.NAME).unlink()
        audit.record(*ANN, "task.hold", 2)

    telling(tmp_path, story)
    assert told(tmp_path) == [("ann", "task.hold", "2", "ok")]


def test_what_a_power_cut_left_of_a_line_spoils_no_other(tmp_path: Path) -> None:
    (tmp_path / audit_file.NAME).write_bytes(b'{"at":1,"user":"to')

    async def story(audit: AuditLog, _clock: Clock) -> None:
        audit.record(*ANN, "task.hold", 1)
        found = await audit.read(Wanted(), 10)
        assert [entry.target for entry in found.entries] == ["1"]
        assert found.unreadable == 1

    telling(tmp_path, story)


# -- a flood of refusals ------------------------------------------------------------------------------------------


def test_a_flood_of_refusals_from_one_address_has_few_lines_and_is_counted(tmp_path: Path) -> None:
    async def story(audit: AuditLog, _clock: Clock) -> None:
        for number in range(1000):
            audit.record(None, "10.0.0.9", "unknown", "task.start", f"{number}", result="unauthenticated")
            audit.record(*ANN, "node.drain", f"node{number}")
        audit.record(*BOB, "task.start", 7, result="forbidden")

    telling(tmp_path, story)
    lines = written(tmp_path)
    refused = [line for line in lines if line["result"] == "unauthenticated"]
    assert len(refused) == LISTED
    assert len([line for line in lines if line["user"] == "ann"]) == 1000  # what was done is told, all of it
    assert len([line for line in lines if line["user"] == "bob"]) == 1  # and others are not silenced
    [rest] = [line for line in lines if line["result"] == "refused"]
    assert (rest["from"], rest["left_out"]) == ("10.0.0.9", 1000 - LISTED)


def test_a_flood_from_many_addresses_is_held_to_so_many_lines_altogether(tmp_path: Path) -> None:
    async def story(audit: AuditLog, _clock: Clock) -> None:
        for number in range(2000):
            audit.record(None, f"10.0.{number // 200}.{number % 200}", "unknown", "task.start", "1", result="forbidden")

    telling(tmp_path, story)
    lines = written(tmp_path)
    summed = [line for line in lines if line["result"] == "refused"]
    assert len(lines) - len(summed) == LISTED_OF_ALL
    assert len(summed) == TOLD_APART + 1
    assert sum(line["left_out"] for line in summed) == 2000 - LISTED_OF_ALL


def test_a_machine_with_a_whole_network_of_addresses_is_one(tmp_path: Path) -> None:
    async def story(audit: AuditLog, _clock: Clock) -> None:
        for number in range(100):
            audit.record(None, f"2001:db8::{number:x}", "unknown", "task.start", "1", result="forbidden")

    telling(tmp_path, story)
    assert len([line for line in written(tmp_path) if line["result"] == "forbidden"]) == LISTED


def test_how_many_were_left_out_is_told_when_the_time_is_over_and_then_lines_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_module, "WINDOW_S", 0.0)

    async def story(audit: AuditLog, _clock: Clock) -> None:
        def refuse() -> None:
            for number in range(LISTED + 5):
                audit.record(None, "10.0.0.9", "unknown", "task.start", f"{number}", result="forbidden")

        def is_told() -> bool:
            return (tmp_path / audit_file.NAME).exists() and written(tmp_path)[-1].get("left_out") == 5

        refuse()
        await settled(is_told)
        refuse()

    telling(tmp_path, story)
    assert len([line for line in written(tmp_path) if line["result"] == "forbidden"]) == 2 * LISTED


# -- a disk that takes nothing ------------------------------------------------------------------------------------


def test_a_full_disk_is_told_once_and_the_gap_is_told_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real, room = os.write, [0]

    def write(fd: int, data: bytes) -> int:
        """A disk on which some bytes are left, and then none."""
        if room[0] == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = real(fd, data[: room[0]])
        room[0] -= done
        return done

    async def story(audit: AuditLog, _clock: Clock) -> None:
        monkeypatch.setattr(os, "write", write)
        for number in range(3):
            room[0] = 10 * number  # the last ones end in the midst of a line
            audit.record(*ANN, "task.hold", number + 1)
            audit.flush()
        room[0] = 1 << 20
        audit.record(*ANN, "task.hold", 9)
        audit.flush()
        audit.record(*ANN, "task.hold", 10)
        audit.flush()

    with caplog.at_level(logging.INFO, "muster.audit"):
        telling(tmp_path, story)
    assert [record.getMessage().partition(";")[0].split(": ")[-1] for record in caplog.records] == [
        "No space left on device"
    ]
    assert [line.get("left_out", line["target"]) for line in written(tmp_path)] == [3, "9", "10"]


def test_a_folder_that_cannot_be_made_stops_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "audit").write_text("a file")

    async def story(audit: AuditLog, _clock: Clock) -> None:
        for number in (1, 2):
            audit.record(*ANN, "task.hold", number)
            audit.flush()

    telling(tmp_path / "audit", story)
    assert len(caplog.records) == 1


def test_it_follows_no_link_to_where_it_would_write_into_something_else(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / audit_file.NAME).symlink_to(tmp_path / "precious")

    async def story(audit: AuditLog, _clock: Clock) -> None:
        audit.record(*ANN, "task.hold", 1)

    telling(tmp_path, story)
    assert (tmp_path / "precious").read_text() == "mine"


# -- reading ------------------------------------------------------------------------------------------------------


def test_it_is_read_newest_first_with_what_has_just_happened(tmp_path: Path) -> None:
    async def story(audit: AuditLog, clock: Clock) -> None:
        for number in range(1, 4):
            clock.now = 1000.0 + number
            audit.record(*ANN, f"task.{'abc'[number - 1]}", number)
        found = await audit.read(Wanted(), 2)
        assert [(entry.at, entry.target) for entry in found.entries] == [(1003.0, "3"), (1002.0, "2")]

    telling(tmp_path, story)


@pytest.mark.parametrize(
    ("wanted", "targets"),
    [
        (Wanted(), ["4", "3", "2", "1"]),
        (Wanted(since=1003.0), ["4", "3"]),
        (Wanted(user="bob"), ["3"]),
        (Wanted(verb="task.hold"), ["4", "1"]),
        (Wanted(verb="task"), ["4", "3", "1"]),
        (Wanted(verb="tas"), []),
        (Wanted(user="ann", verb="node"), ["2"]),
    ],
)
def test_one_asks_for_a_time_a_user_a_verb_or_a_noun(tmp_path: Path, wanted: Wanted, targets: list[str]) -> None:
    async def story(audit: AuditLog, clock: Clock) -> None:
        calls = [(ANN, "task.hold"), (ANN, "node.drain"), (BOB, "task.release"), (ANN, "task.hold")]
        for number, (who, verb) in enumerate(calls, 1):
            clock.now = 1000.0 + number
            audit.record(*who, verb, number)
        found = await audit.read(wanted, 100)
        assert [entry.target for entry in found.entries] == targets

    telling(tmp_path, story)


def test_lines_that_lie_across_blocks_and_files_are_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_file, "BLOCK", 37)
    file = audit_file.AuditFile(tmp_path, size=500)
    wanted = [b"%d %s" % (number, b"x" * (number % 90)) for number in range(50)]
    for line in wanted:
        file.write(line + b"\n")
    file.close()
    assert len(list(tmp_path.iterdir())) == 3
    assert [line for lines in audit_file.lines_backwards(tmp_path) for line in lines] == wanted[::-1]


def test_files_that_are_rotated_while_they_are_read_are_told_once(tmp_path: Path) -> None:
    file = audit_file.AuditFile(tmp_path, size=60)
    for number in range(6):
        file.write(b"%050d\n" % number)
    found: list[int] = []
    for lines in audit_file.lines_backwards(tmp_path):
        found += map(int, lines)
        file.write(b"%050d\n" % (100 + len(found)))
    file.close()
    assert found == [5, 4, 3, 2, 1, 0]


def test_a_log_that_is_not_there_yet_has_no_lines(tmp_path: Path) -> None:
    async def story(audit: AuditLog, _clock: Clock) -> None:
        assert (await audit.read(Wanted(), 10)).entries == []

    telling(tmp_path / "none", story)


def test_the_loop_goes_on_while_much_is_read(tmp_path: Path) -> None:
    entry = json.dumps({"at": 1, "user": "a", "from": "", "via": "", "verb": "v", "target": "t", "result": "ok"})
    (tmp_path / audit_file.NAME).write_text(f"{entry}\n" * 100_000)

    async def story(audit: AuditLog, _clock: Clock) -> None:
        reading = asyncio.ensure_future(audit.read(Wanted(user="nobody"), 10))
        turns = 0
        while not reading.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns > 100
        assert await reading == audit_module.Found([], 0)

    telling(tmp_path, story)


def test_the_keys_of_a_line_are_those_that_are_documented() -> None:
    assert AuditEntry.__struct_encode_fields__[:7] == ("at", "user", "from", "via", "verb", "target", "result")
