"""The lab's command for tasks that ended: whatever kills the master, no ended task stays unknown to it."""

from __future__ import annotations

import json
import random
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from client.api import Client
from master.durable.failpoint import COMPACTION
from tests.faults import in_words
from tests.soak import seed_of
from tests.system.lab import Lab
from tests.waiting import until

HEAR = """#!/bin/sh
cd {folder} || exit
[ -e broken ] && exit 1
exec cat >> heard
"""
REFUSE = """#!/bin/sh
cd {folder} || exit
cat > event
grep -q '"nobody"' event && {{ echo >> refused; exit 65; }}
cat event >> heard
"""
ENDED = {"succeeded", "failed", "cancelled", "timed_out", "lost"}

AT_A_CUT = [name for name in COMPACTION if name != "compaction.archived"]
"""Where a master is killed while the journal is cut under its consumers."""


def hooked(lab: Lab, *events: str) -> None:
    command = lab.folder / "hear"
    command.write_text(HEAR.format(folder=lab.folder), encoding="utf-8")
    command.chmod(0o755)
    lab.write_conf(hooks={event: [str(command)] for event in events})


def heard(lab: Lab) -> list[dict[str, Any]]:
    """The lines of the command; the last one may be half written."""
    path = lab.folder / "heard"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]] if path.exists() else []


def ended(client: Client) -> dict[int, str]:
    return {task["id"]: task["state"] for task in client.tasks(ended=True) if task["state"] in ENDED}


def test_a_command_hears_of_each_start_and_each_end_with_how_it_ended(lab: Lab) -> None:
    hooked(lab, "task_started", "task_ended")
    lab.start()
    with lab.client() as client:
        well = client.submit("true", name="well", gpus=0)
        ill = client.submit("exit 3", gpus=0)
        held = client.submit("true", gpus=0, hold=True)
        client.cancel([held])
        client.wait([well, ill], 60)
    told = until("all was told", lambda: heard(lab) if len(heard(lab)) >= 5 else None)
    started = {event["task"]["id"] for event in told if event["event"] == "task_started"}
    ends = {event["task"]["id"]: event["task"] for event in told if event["event"] == "task_ended"}
    assert started == {well, ill}
    assert {number: task["state"] for number, task in ends.items()} == {
        well: "succeeded", ill: "failed", held: "cancelled"
    }  # fmt: skip
    assert ends[well]["name"] == "well"
    assert ends[ill]["exit_code"] == 3
    assert ends[ill]["nodes"]
    assert not {"command", "variables"} & ends[well].keys()
    assert len({event["id"] for event in told}) == 5


def test_what_a_broken_command_could_not_hear_it_hears_later_also_from_the_next_master(lab: Lab) -> None:
    hooked(lab, "task_ended")
    (lab.folder / "broken").touch()
    lab.start()
    with lab.client() as client:
        first = client.submit("true", gpus=0)
        client.wait([first], 60)
        until(
            "the fault is told", lambda: "hooks.task_ended" in lab.server_log() and "ended with 1" in lab.server_log()
        )
        assert "hooks    hooks.task_ended has failed since " in lab.muster("status").stdout
        lab.kill_master()
    lab.start()
    with lab.client() as client:
        second = client.submit("true", gpus=0)
        client.wait([second], 60)
    assert heard(lab) == []
    (lab.folder / "broken").unlink()
    lab.stop_master()
    lab.start()
    until("both are told", lambda: [event["task"]["id"] for event in heard(lab)][-2:] == [first, second])
    until("it fails no more", lambda: "hooks.task_ended" not in lab.muster("status").stdout)


def test_what_a_command_refuses_for_good_comes_no_more_and_the_next_is_heard(lab: Lab) -> None:
    hooked(lab, "task_ended")
    (lab.folder / "hear").write_text(REFUSE.format(folder=lab.folder), encoding="utf-8")
    lab.start()
    with lab.client() as client:
        refused = client.submit("true", name="nobody", gpus=0)
        client.wait([refused], 60)
        until("it is told", lambda: "was refused for good" in lab.server_log())
        told = lab.muster("status").stdout
        assert in_words(told, "hook_refuses", hook="hooks.task_ended", count=1)
        well = client.submit("true", gpus=0)
        client.wait([well], 60)
    until("the next one is heard", lambda: [event["task"]["id"] for event in heard(lab)] == [well])
    until("it refuses no more", lambda: "hooks.task_ended" not in lab.muster("status").stdout)
    assert (lab.folder / "refused").read_text(encoding="utf-8").count("\n") == 1


@pytest.mark.timeout(300)
def test_a_master_killed_at_any_instant_loses_no_end_and_repeats_one_under_its_id(lab: Lab) -> None:
    chance = random.Random(seed_of("CHAOS_SEED", 23))
    hooked(lab, "task_ended")
    for _ in range(6):
        lab.start()
        with lab.client() as client:
            client.submit_batch(["true"] * 8, gpus=0)
        time.sleep(chance.uniform(0.0, 1.2))  # the instant of the kill
        lab.kill_master()
        lab.start(chance.choice(AT_A_CUT))
        lab.await_failpoint()
    lab.start()
    with lab.client() as client:
        until("all have ended", lambda: len(ended(client)) == 48)
        states = ended(client)
    until("each is told", lambda: {event["task"]["id"] for event in heard(lab)} >= states.keys())
    names = defaultdict(set)
    for event in heard(lab):
        assert event["event"] == "task_ended"  # no gap
        assert event["task"]["state"] == states[event["task"]["id"]]
        names[event["task"]["id"]].add(event["id"])
    assert {number: len(found) for number, found in names.items()} == dict.fromkeys(states, 1)
    assert Path(lab.task_info, "outbox", "hooks.task_ended").stat().st_size < 512
