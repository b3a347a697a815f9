"""Tasks that were moved to the monthly files, under a real master: all that people do with a task works on them."""

from __future__ import annotations

import json

from tests.system.lab import Lab
from tests.waiting import until
from wire.message import Message

KEPT = 3


def with_history(lab: Lab) -> list[int]:
    """Run more tasks than are kept, and have the journal compacted; the ids of those that ran."""
    lab.write_conf(scheduler={"grace_s": 2.0, "keep_history": KEPT})
    lab.start()
    with lab.client() as client:
        ids = client.submit_batch([f"echo this is {number}; exit {number % 2}" for number in range(8)])
        client.wait(ids)
        inode = (lab.task_info / "journal.jsonl").stat().st_ino
        for _ in range(9):
            client.submit(["true", *["x" * 120_000] * 8], hold=True)
    until("the journal is cut", lambda: (lab.task_info / "journal.jsonl").stat().st_ino != inode)
    return ids


def archived(lab: Lab) -> list[int]:
    found: dict[int, None] = {}
    for path in sorted((lab.task_info / "history").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            told = json.loads(line)
            found.update({told["id"]: None} if "id" in told else {})
            for gone in told.get("gone", ()):
                found.pop(gone, None)
    return list(found)


def said(lab: Lab, *words: str) -> str:
    done = lab.muster(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_beyond_keep_history_a_task_is_shown_listed_found_logged_explained_waited_for_and_tried_again(
    lab: Lab,
) -> None:
    ids = with_history(lab)
    old = archived(lab)
    assert len(old) == len(ids) - KEPT
    # The even ones succeeded; they end in any order.
    first, second = (next(number for number in old if (number - ids[0]) % 2 == odd) for odd in (0, 1))
    assert json.loads(said(lab, "show", str(first), "--json"))["state"] == "succeeded"
    assert said(lab, "logs", str(first)).startswith(f"this is {first - ids[0]}\n")
    assert "failed" in said(lab, "why", str(second))
    assert lab.muster("wait", str(second)).returncode == 1
    everything = json.loads(said(lab, "queue", "--all", "--json"))
    assert sorted(task["id"] for task in everything if task["state"] in ("succeeded", "failed")) == ids
    listed = json.loads(said(lab, "queue", "--all", "--search", f"this is {second - ids[0]}", "--json"))
    assert [task["id"] for task in listed] == [second]
    ended = Message("has_ended", id=second, state="failed")
    assert str(ended) in lab.muster("cancel", str(second)).stderr
    told = Message("cannot_hold", id=second, state="failed")
    assert str(told) in lab.muster("hold", str(second)).stderr
    # Tried again it is one task, in the queue; a kill changes nothing.
    said(lab, "retry", str(second))
    lab.kill_master()
    lab.start()
    with lab.client() as client:
        again = client.wait([second])[second]
        assert (again["attempt"], again["state"]) == (2, "failed")
        tasks, total = client.list_tasks(ended=True, active=False)
        assert sorted(task["id"] for task in tasks) == ids
        assert total == len(ids)
        page, total = client.list_tasks(ended=True, active=False, limit=KEPT + 2, offset=1)
        assert ([task["id"] for task in page], total) == ([task["id"] for task in tasks[1 : KEPT + 3]], len(ids))
    said(lab, "rm", str(first))
    gone = str(Message("no_task", id=first))
    assert gone in lab.muster("show", str(first)).stderr
    lab.kill_master()
    lab.start()
    assert gone in lab.muster("show", str(first)).stderr
    assert lab.muster("rm", str(first)).returncode == 1


def test_damaged_lines_of_the_history_are_told_where_it_is_listed(lab: Lab) -> None:
    ids = with_history(lab)
    (path,) = (lab.task_info / "history").glob("*.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"?" + lines[1][1:] + b"".join(lines[2:]))
    done = lab.muster("queue", "--all", "--limit", "0")
    assert f"history/{path.name}: 1 line cannot be read" in done.stderr
    assert str(ids[0]) in done.stdout
