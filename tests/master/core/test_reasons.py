"""What there is to say of a task: as a sentence for people, and by key and values for programs."""

from __future__ import annotations

import msgspec

from master.core.attempts.exits import Exit
from master.core.core import Core
from master.core.tasks.task import Task, TaskState, TaskView
from master.views.sight import EVERYTHING
from master.views.tasks import task_view
from tests.master.core.small_core import core_with, submit
from wire.message import Message


def seen(core: Core, task: Task) -> tuple[str | None, str | None, object]:
    view = task_view(core, task, EVERYTHING)
    return view.reason, view.reason_key, view.reason_args


def ended(core: Core, exit_: Exit) -> Task:
    task = submit(core)
    core.plan(0.0)
    assert task.allocation
    core.exited("a", msgspec.structs.replace(exit_, launch_id=task.allocation[0].launch_id), 9.0)
    return task


def test_an_end_is_told_in_a_sentence_and_by_its_key() -> None:
    core = core_with()
    task = ended(core, Exit("", "exited", 9.0, code=127))
    told = str(Message("command_not_found", code=127))
    assert seen(core, task) == (told, "command_not_found", {"code": 127})


def test_a_code_above_128_is_told_with_its_signal_and_nobody_is_said_to_have_sent_it() -> None:
    told = {3: "exit code 3", 128: "exit code 128", 139: "exit code 139 (SIGSEGV)", 255: "exit code 255"}
    told |= {134: "exit code 134 (SIGABRT)", 137: "exit code 137 (SIGKILL)", 143: "exit code 143 (SIGTERM)"}
    told |= {145: "exit code 145", 192: "exit code 192"}  # SIGCHLD ends nothing
    for code, reason in told.items():
        core = core_with()
        assert seen(core, ended(core, Exit("", "exited", 9.0, code=code))) == (reason, "exit_code", {"code": code})
    assert str(Message("killed_from_outside", code=137)) == "exit code 137 (SIGKILL)"  # an earlier version wrote it


def test_what_was_told_of_an_end_is_on_disk_with_the_task() -> None:
    core = core_with()
    task = ended(core, Exit("", "not_started", 9.0, error="/data is full"))
    again = msgspec.json.decode(msgspec.json.encode(task), type=Task)
    assert (again.reason_key, again.reason_args) == ("not_started", {"said": "/data is full"})
    assert again == task


def test_one_that_is_tried_again_says_nothing_of_its_last_end() -> None:
    core = core_with()
    task = ended(core, Exit("", "exited", 9.0, code=1))
    core.retry(task.id)
    assert (task.reason, task.reason_key, task.reason_args) == (None, None, None)


def test_what_an_earlier_version_wrote_down_is_told_as_it_stands() -> None:
    old = b'{"id":5,"state":"failed","reason":"could not be started: the disk was full","command":"true"}'
    held = b'{"id":6,"state":"held","reason":"its folder is not there","command":"true"}'
    core = core_with()
    core.load({number: msgspec.json.decode(line, type=Task) for number, line in ((5, old), (6, held))}, {}, 7)
    assert seen(core, core.tasks[5]) == ("could not be started: the disk was full", None, None)
    told = str(Message("held_because", id=6, why="its folder is not there"))
    assert seen(core, core.tasks[6]) == (told, "held_because", {"id": 6, "why": "its folder is not there"})


def test_a_task_that_waits_says_why_by_key() -> None:
    core = core_with()
    first, second = submit(core, gpus=8), submit(core, gpus=8)
    core.plan(0.0)
    assert first.state is TaskState.STARTING
    text, key, args = seen(core, second)
    assert (text, key) == ("needs 8 GPUs: a: 0 of 8 GPUs free (task 1)", "needs")
    assert msgspec.to_builtins(args) == {
        "request": {"key": "asked", "args": {"what": [{"key": "amount", "args": {"count": 8, "unit": "GPU"}}]}},
        "obstacles": [
            {
                "key": "obstacle_because",
                "args": {
                    "nodes": {"parts": ["a"], "count": 1, "more": 0},
                    "what": {"key": "free", "args": {"free": 0, "has": 8, "unit": "GPU"}},
                    "because": [
                        {"key": "held_by", "args": {"tasks": {"parts": ["1"], "count": 1, "more": 0}}},
                    ],
                },
            }
        ],
    }
    core.hold(second.id)
    assert seen(core, second) == (str(Message("held", id=2)), "held", {"id": 2})


def test_a_view_has_the_keys_also_where_there_is_nothing_to_say() -> None:
    told = msgspec.to_builtins(TaskView(id=1, command="true"))
    assert [told[key] for key in ("reason", "reason_key", "reason_args")] == [None, None, None]
