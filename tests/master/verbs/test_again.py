"""When a task begins, how long it may run, and how often it is tried again, as it is asked for over the wire."""

from __future__ import annotations

import time
from pathlib import Path

from master.core.attempts.exits import Exit
from tests.master.core.small_core import launch_of
from tests.master.in_process import InProcess, run
from tests.waiting import settled
from wire.message import Message, ids


def test_a_task_waits_for_its_time_and_whoever_asks_is_told_until_when(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            master.online()
            peer = await master.peer()
            at = time.time() + 7200
            preview = await peer.call("task.submit", command="true", begin_at=at, dry_run=True)
            assert (preview["placement"], preview["reason_key"], preview["possible"]) == (None, "begins_at", True)
            await peer.call("task.submit", command="true", begin_at=at)
            task = await peer.call("task.show", id=1)
            assert (task["state"], task["begin_at"], task["not_before"], task["eligible_at"]) == ("waiting", at, at, at)
            why = await peer.call("task.why", id=1)
            assert (why["reason_key"], why["reason_args"], why["details"]) == ("begins_at", {"at": at}, [])
            (row,) = (await peer.call("task.list"))["tasks"]
            assert row["reason_key"] == "begins_at"
            await peer.call("task.edit", id=1, changes={"begin_at": None})
            await settled(lambda: master.core.tasks[1].state == "starting", "it starts at once")

    run(story())


def test_why_names_who_has_what_lacks_and_when_the_first_of_them_ends(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            master.online()
            peer = await master.peer()
            await peer.call("task.submit", command="true", gpus=8)
            await settled(lambda: master.core.tasks[1].state == "starting", "it starts")
            await peer.call("task.submit", command="true", gpus=1)
            unknown = Message("ends_unknown", tasks=ids([1]))
            assert str(unknown) in (await peer.call("task.why", id=2))["details"]
            await peer.call("task.cancel", ids=[2])
            master.engine.event(
                lambda: master.core.exited(
                    "a", Exit(launch_of(master.core.tasks[1]), "exited", time.time(), 1), time.time()
                )
            )
            begun = time.time()
            await peer.call("task.submit", command="true", gpus=8, time_limit_s=3600)
            await settled(lambda: master.core.tasks[3].state == "starting", "it starts")
            await peer.call("task.submit", command="true", gpus=1)
            why = await peer.call("task.why", id=4)
            (end,) = [one for one in why["detail_messages"] if one["key"] == "expected_to_end"]
            assert end["args"]["id"] == 3
            assert begun <= end["args"]["at"] - 3600 <= time.time()

    run(story())


def test_what_is_tried_again_is_told_with_its_last_attempt_and_a_repeated_submit_is_still_one(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            master.online()
            peer = await master.peer()
            wish = {"command": "false", "max_retries": 2, "retry_on": ["fail", "lost"], "request_id": "one"}
            assert await peer.call("task.submit", **wish) == await peer.call("task.submit", **wish) == {"id": 1}
            assert (await peer.refusal("task.submit", **{**wish, "max_retries": 3}))[0] == "conflict"
            await settled(lambda: master.core.tasks[1].state == "starting", "it starts")
            exit_ = Exit(launch_of(master.core.tasks[1]), "exited", time.time(), 9)
            master.engine.event(lambda: master.core.exited("a", exit_, time.time()))
            task = await peer.call("task.show", id=1)
            assert (task["state"], task["retries"], task["exit_code"]) == ("waiting", 1, None)
            assert [(one["no"], one["exit_code"]) for one in task["attempts"]] == [(1, 9)]
            assert (task["reason_key"], task["reason_args"]["why"]) == ("tried_again_at", "exit code 9")
            assert (await peer.call("task.cancel", ids=[1]))["cancelled"] == [1]

    run(story())


def test_the_labs_limits_hold_for_what_says_none_and_for_edits(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            await peer.call("task.submit", command="true", hold=True)
            for name, value in (("scheduler.time_limit", 60), ("scheduler.time_limit_max", 600)):
                master.engine.event(lambda name=name, value=value: master.core.tuning.set(name, value, "ada", 1.0))  # type: ignore[misc]
            await peer.call("task.submit", command="true", hold=True, on_timeout="requeue")
            shown = [(await peer.call("task.show", id=number))["time_limit_s"] for number in (1, 2)]
            assert shown == [None, 60], "what waited already is as it was"
            for verb, params in (("task.submit", {"command": "true"}), ("task.edit", {"id": 1})):
                asked = {"time_limit_s": 601}
                code, message = await peer.refusal(
                    verb, **params, **(asked if "id" not in params else {"changes": asked})
                )
                assert (code, "600 are allowed" in message) == ("bad_request", True)
            edited = await peer.call("task.edit", id=1, changes={"time_limit_s": 600, "on_timeout": "requeue"})
            assert (edited["time_limit_s"], edited["on_timeout"]) == (600, "requeue")
            edited = await peer.call("task.edit", id=1, changes={"time_limit_s": None})
            assert edited["time_limit_s"] == 60
            edited = await peer.call("task.edit", id=1, changes={"on_timeout": "fail"})
            assert edited["on_timeout"] == "fail"

    run(story())
