"""In what two tasks differ: what is told, what is no difference, and what who may not see it is not told."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from client.text.differences import difference_lines
from master.core.nodes.inventory import Facts
from master.core.tasks.task import ArrayPlace, Task, TaskState
from master.verbs import diff
from master.verbs.base import Context
from tests.calls import instructions_of
from tests.master.in_process import InProcess, Peer, run
from tests.master.verbs.test_privacy import VIEWER, Lab, tell

FACTS = Facts(boot_id="boot", state_id="state", cpus=8, memory_mib=1000)


async def differing(peer: Peer, *ids: int) -> dict[str, tuple[Any, Any]]:
    """The fields in which two tasks differ, with what each has."""
    params = dict(zip(("id", "other"), ids, strict=False))
    return {one["field"]: (one["here"], one["there"]) for one in (await peer.call("task.diff", **params))["fields"]}


def test_two_tasks_of_the_same_wish_do_not_differ_whatever_their_ids_and_logs(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            wish: dict[str, Any] = {"command": ["a", "b"], "variables": {"A": "1"}, "env": "torch", "hold": True}
            for _ in range(2):
                await peer.call("task.submit", **wish)
            assert await peer.call("task.diff", id=1, other=2) == {"id": 1, "other": 2, "fields": [], "hidden": []}
            assert await differing(peer, 1, 1) == {}
            assert list(difference_lines(await peer.call("task.diff", id=1, other=2))) == [
                "tasks 1 and 2 do not differ"
            ]

    run(story())


def test_what_was_asked_for_comes_before_what_became_of_it_and_variables_are_told_one_by_one(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            await peer.call("task.submit", command=["t", "--lr", "0.1"], variables={"A": "1", "B": "2"}, hold=True)
            await peer.call("task.submit", command=["t", "--lr", "1"], variables={"A": "1", "C": "3"}, gpus=2, log="x")
            master.engine.event(lambda: master.core.cancel(1, 5.0, by="ann"))
            found = await differing(peer, 1, 2)
            assert list(found)[:2] == ["command", "gpus"]
            assert found["command"] == (["t", "--lr", "0.1"], ["t", "--lr", "1"])
            assert found["variables.B"] == ("2", None)
            assert found["variables.C"] == (None, "3")
            assert "variables.A" not in found
            assert found["log_path"] == (f"{tmp_path}/logs", f"{tmp_path}/x")
            assert found["state"] == ("cancelled", "waiting")
            assert list(found).index("state") > list(found).index("log_path")
            lines = list(difference_lines(await peer.call("task.diff", id=1, other=2)))
            assert lines[:3] == ["command:", "  1 t --lr 0.1", "  2 t --lr 1"]
            assert lines[lines.index("variables C:") :][1:3] == ["  1 -", "  2 3"]

    run(story())


def test_of_long_texts_the_lines_that_differ_are_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            script = "#!/bin/bash\n" + "".join(f"step {number}\n" for number in range(50))
            await peer.call("task.submit", command=script, hold=True)
            await peer.call("task.submit", command=script.replace("step 7\n", "step seven\n"), hold=True)
            lines = list(difference_lines(await peer.call("task.diff", id=1, other=2)))
            assert lines == ["command:", "  - step 7", "  + step seven"]

    run(story())


def test_a_task_of_an_array_is_told_beside_its_nearest_sibling_that_succeeded(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            await peer.call("task.submit", command="alone", hold=True)
            await peer.call("task.submit_array", command=["t", "{lr}"], sweep={"lr": ["1", "2", "3", "4"]}, hold=True)
            assert (await peer.call("task.diff", id=4))["other"] == 3
            master.core.tasks[2].state = TaskState.SUCCEEDED
            answer = await peer.call("task.diff", id=4)
            assert answer["other"] == 2
            found = await differing(peer, 4)
            assert found["sweep.lr"] == ("3", "1")
            assert "array" not in found
            master.core.tasks[2].state = TaskState.HELD
            code, text = await peer.refusal("task.diff", id=1)
            assert code == "bad_request"
            assert "muster diff 1 ID" in text
            assert (await peer.refusal("task.diff", id=1, other=99))[0] == "not_found"
            assert (await peer.refusal("task.diff", id=99))[0] == "not_found"

    run(story())


def test_scripts_of_which_every_line_differs_keep_nobody_waiting() -> None:
    def script(word: str) -> str:
        return "".join(f"{word} {number} {word * 20}\n" for number in range(2000))

    fields = [{"field": "command", "here": script("a"), "there": script("b")}]
    told: Any = {"id": 1, "other": 2, "fields": fields, "hidden": []}
    lines: list[str] = []
    assert instructions_of(lambda: lines.extend(difference_lines(told))) < 1000 * 2000, "not each with each"
    assert len(lines) == 1 + 2 * 2000
    assert lines[1].startswith("  - a 0")
    assert lines[-1].startswith("  + b 1999")


@VIEWER
@pytest.mark.parametrize("privacy", ["open", "own"])
def test_nobody_learns_from_a_difference_what_he_may_not_see(tmp_path: Path, privacy: str, viewer: str) -> None:
    async def story(here: Lab) -> None:
        await (await here.of("bob")).call("task.submit", command="true", variables={"MINE": "bobs"}, hold=True)
        peer = await here.of(viewer)
        for pair in ((2, 3), (2, 4), (5, 3), (3, 5)):
            if viewer == "bob" and privacy == "own":
                assert (await peer.refusal("task.diff", id=pair[0], other=pair[1]))[0] == "forbidden"
                continue
            if viewer in ("ann", "mia") and privacy == "own" and max(pair) > 3:
                assert (await peer.refusal("task.diff", id=pair[0], other=pair[1]))[0] == "forbidden"
                continue
            answer = await peer.call("task.diff", id=pair[0], other=pair[1])
            text = str(answer)
            assert "confidential" not in text  # either both have it, or he may not see it of one
            whole = viewer == "ann" and max(pair) <= 3
            assert ("variables" in answer["hidden"]) == (not whole)
            if not whole:
                assert "TOKEN" not in text
                assert "bobs" not in text

    tell(tmp_path, story, privacy)


def test_of_a_long_array_only_those_near_the_task_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    far = Task(id=90, command="x", array=ArrayPlace(1, 89), state=TaskState.SUCCEEDED)
    near = Task(id=48, command="x", array=ArrayPlace(1, 47), state=TaskState.FAILED)
    here = Task(id=50, command="x", array=ArrayPlace(1, 49))

    class Tasks(dict[int, Task]):
        def get(self, number: int, _default: object = None) -> Task | None:  # type: ignore[override]
            looked.append(number)
            return super().get(number)

    core = SimpleNamespace(tasks=Tasks({one.id: one for one in (far, near, here)}))
    monkeypatch.setattr(diff, "NEAR", 30)
    assert diff._sibling(cast("Context", SimpleNamespace(core=core)), here) is near
    assert len(looked) == 2 * 30
    monkeypatch.setattr(diff, "NEAR", 40)
    assert diff._sibling(cast("Context", SimpleNamespace(core=core)), here) is far
