"""Trying again, beginning at a time, and taking turns, with a real master, agents and shims; also where the master dies
at the worst moment: what was decided holds, and nothing is started twice."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from client.api import Client
from master.core.tasks.records import Change
from master.core.tasks.task import ENDED
from master.durable import failpoint
from master.durable.journal import JOURNAL, read_journal
from tests.system.lab import Lab
from tests.waiting import until
from wire.errors import UnreachableError
from wire.message import Message

if TYPE_CHECKING:
    from client.shapes import TaskPage

QUICK = {"scheduler": {"grace_s": 2.0, "retry_after_s": 0.2}}
LIMIT_S = 12.0
"""In which a second turn has to begin and end, on a machine that may stop for seconds."""
"""Nobody waits ten seconds here to be tried again."""


def until_state(client: Client, number: int, *states: str) -> TaskPage:
    return until(
        f"task {number} is {' or '.join(states)}",
        lambda: task if (task := client.show(number))["state"] in states else None,
    )


class Tries:
    """A command that fails until its try of this number, and tells of each try by its launch id."""

    def __init__(self, folder: Path, good: int) -> None:
        self.told = folder / "tries"
        self.told.touch()
        line = f"echo $MUSTER_LAUNCH_ID $MUSTER_ATTEMPT >>{shlex.quote(str(self.told))}; echo try $MUSTER_ATTEMPT"
        self.command = f"{line}; [ $MUSTER_ATTEMPT -ge {good} ]"

    def launches(self) -> list[str]:
        """The launch ids, in the order in which they were started."""
        return [line.split()[0] for line in self.told.read_text(encoding="utf-8").splitlines()]


def client_of(lab: Lab) -> Client:
    """A connection to a master that was just started, and is to die."""

    def there() -> Client | None:
        with suppress(UnreachableError):
            return lab.client()
        return None

    return until("the master answers", there)


def script(lab: Lab, options: str, line: str) -> str:
    """A script that asks for these itself."""
    path = lab.folder / "job.sh"
    path.write_text(f"#!/bin/bash\n#MUSTER {options}\n{line}\n", encoding="utf-8")
    return str(path)


def states_written(lab: Lab, number: int) -> list[str]:
    """The states through which a task went, as the journal has them."""
    path = lab.task_info / JOURNAL
    base = int(json.loads((lab.task_info / "state.json").read_text(encoding="utf-8"))["seq"])
    changes = [
        msgspec.json.decode(record.body, type=Change) for record in read_journal(path.read_bytes(), path, base).records
    ]
    return [task.state.value for change in changes for task in change.tasks if task.id == number]


def test_a_task_that_fails_twice_is_tried_again_and_run_wait_and_successors_see_its_last_end(lab: Lab) -> None:
    lab.write_conf(**QUICK)
    lab.start()
    tries = Tries(lab.folder, 3)
    told = lab.muster("run", "--script", script(lab, "--max-retries 3", tries.command))
    assert (told.returncode, [line for line in told.stdout.splitlines() if line.startswith("try")]) == (
        0,
        ["try 1", "try 2", "try 3"],
    )
    with lab.client() as client:
        task = client.show(1)
        assert (task["state"], task["attempt"], task["retries"]) == ("succeeded", 3, 2)
        assert [attempt["exit_code"] for attempt in task["attempts"]] == [1, 1, 0]
        never = client.submit("exit 7", max_retries=1)
        after = client.submit("true", after=[{"id": never, "on": "fail"}])
        assert [one["state"] for one in client.wait([never, after]).values()] == ["failed", "succeeded"]
        assert client.show(never)["retries"] == 1
    written = states_written(lab, never)
    assert [state for state in written if state in ENDED] == ["failed"], written
    assert len(set(tries.launches())) == 3


@pytest.mark.parametrize("name", failpoint.TURNS)
def test_a_master_that_dies_in_a_turn_keeps_to_what_it_decided(lab: Lab, name: str) -> None:
    lab.write_conf(**QUICK)
    lab.start(name)
    tries = Tries(lab.folder, 2)

    def submit(client: Client) -> tuple[int, int]:
        again = client.submit(tries.command, max_retries=1, request_id="again")
        return again, client.submit("sleep 300", max_retries=5, request_id="ends")

    is_cancelled = False
    with suppress(UnreachableError), client_of(lab) as client:  # some answers come, and then the end of the master
        client.session.patience = 0.0
        _, ends = submit(client)
        if name.startswith("cancel"):
            until_state(client, ends, "running")
            client.cancel([ends])
            is_cancelled = True
    lab.await_failpoint()
    lab.start()
    with lab.client() as client:
        again, ends = submit(client)
        told = until_state(client, again, "succeeded", "failed")
        assert (told["state"], told["retries"], told["attempt"]) == ("succeeded", 1, 2)
        if is_cancelled or name in ("cancel.after_sync", "cancel.after_send"):
            until_state(client, ends, "cancelled")  # it was written down, and nobody has to ask again
        else:
            client.cancel([ends])
        told = until_state(client, ends, "cancelled")
        assert (told["retries"], told["attempt"]) in ((0, 1), (0, 0))
    assert len(tries.launches()) == len(set(tries.launches())) == 2


def test_a_task_that_begins_at_a_time_begins_then_also_if_the_master_was_away_before(lab: Lab) -> None:
    lab.start()
    told = lab.muster("submit", "--script", script(lab, "--begin now+4s", "true"))
    assert told.returncode == 0, told.stderr
    with lab.client() as client:
        task = client.show(1)
        begin_at = task["begin_at"] or 0.0
        assert task["submitted_at"] < begin_at == task["not_before"] == task["eligible_at"]
        assert client.why(1)["reason_key"] == "begins_at"
    lab.kill_master()
    lab.start()
    with lab.client() as client:
        task = until_state(client, 1, "succeeded")
        assert (task["started_at"] or 0.0) >= begin_at
        assert (task["not_before"], task["eligible_at"]) == (None, begin_at)
        far = client.submit("true", begin_at=time.time() + 86400)
        assert client.show(far)["state"] == "waiting"
        client.start(far)
        until_state(client, far, "succeeded")


def test_two_tasks_with_one_slot_take_turns_at_their_limits(make_system_lab: Callable[..., Lab]) -> None:
    lab = make_system_lab(nodes=1, slots=1)
    lab.start()
    turns = lab.folder / "turns"
    # Each turn leaves a line, and the second one of each is the last: what it did before it finds there.
    command = f'echo $MUSTER_TASK_ID >>{turns}; [ $(grep -c "^$MUSTER_TASK_ID$" {turns}) -ge 2 ] || sleep 300'
    with lab.client() as client:
        numbers = client.submit_batch([command] * 2, time_limit_s=LIMIT_S, on_timeout="requeue")
        ended = client.wait(numbers, 10 * LIMIT_S)
        assert {task["state"] for task in ended.values()} == {"succeeded"}
        assert [client.show(number)["attempt"] for number in numbers] == [2, 2]
        asked = client.show(numbers[0])["attempts"][0]["asked_end"]
        assert asked is not None
        assert asked["why"] == "limit"
    assert [int(line) for line in turns.read_text(encoding="utf-8").split()] == numbers * 2


def test_the_labs_own_limit_ends_what_asked_for_none_and_refuses_more(lab: Lab) -> None:
    lab.write_conf(scheduler={"grace_s": 2.0, "time_limit": 0.5, "time_limit_max": 60})
    lab.start()
    with lab.client() as client:
        number = client.submit("sleep 300")
        assert client.show(number)["time_limit_s"] == 0.5
        until_state(client, number, "timed_out")
    told = lab.muster("submit", "--script", script(lab, "--time-limit 2m", "true"))
    assert told.returncode == 1
    assert str(Message("limit_too_long", asked=120, most=60)) in told.stderr


def test_what_is_lost_with_its_shim_is_tried_again_once_nothing_of_it_lives(lab: Lab) -> None:
    lab.write_conf(**QUICK)
    lab.start()
    pids = lab.folder / "pids"
    # It outlives its shim by a moment. A second one at a time would find the first: whatever of it lives has the lock.
    command = f"exec 9>{pids}.lock; flock -n 9 || exit 99; echo $$ >>{pids}; [ $(wc -l <{pids}) -ge 2 ] || sleep 2"
    with lab.client() as client:
        until("the node is online", lambda: client.node("node0")["state"] == "online")
        armed = lab.arm_agent("node0", "shim.after_start")
        number = client.submit(command, max_retries=1, retry_on=["lost"])
        until("the shim was killed", lambda: not armed.exists())
        until_state(client, number, "succeeded", "failed", "lost")
        task = client.show(number)
    assert (task["state"], task["retries"], task["exit_code"]) == ("succeeded", 1, 0)
    assert "unknown" in (task["attempts"][0]["reason"] or "")
