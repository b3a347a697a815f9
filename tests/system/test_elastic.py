"""Elastic tasks with a real master, agents and processes: one that grows when its neighbour ends and gives way when
somebody waits; also where the master or the agent is killed while it is being resized."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from client.api import Client
from tests.faults import reason_of
from tests.system.lab import Lab
from tests.waiting import until
from wire.message import Message

if TYPE_CHECKING:
    from client.shapes import TaskPage

CARDS = 4


class Training:
    """A program that tells of each attempt, and writes checkpoints. If it `heeds` TERM it ends with 0 then, as many do;
    else only KILL ends it."""

    def __init__(self, folder: Path, *, heeds: bool = True) -> None:
        self.folder = folder / "training"
        (self.folder / "out").mkdir(parents=True)
        told, done = (shlex.quote(str(self.folder / name)) for name in ("told", "done"))
        trap = "exit 0" if heeds else ":"
        self.command = (
            f"trap {shlex.quote(trap)} TERM; "
            f"echo $MUSTER_ATTEMPT $CUDA_VISIBLE_DEVICES ${{MUSTER_RESUME:-0}} >>{told}; "
            f"echo attempt $MUSTER_ATTEMPT; "
            f"until [ -e {done} ]; do echo step >out/$MUSTER_ATTEMPT.pt; read -t 0.05 <> <(:) || :; done"
        )

    @property
    def wish(self) -> dict[str, Any]:
        return {"gpus": 1, "gpus_max": 4, "elastic": True, "checkpoint": "out/*.pt", "cwd": str(self.folder)}

    def told(self) -> list[str]:
        """Of each attempt its number, its GPUs, and whether it went on from an earlier one."""
        path = self.folder / "told"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def finish(self) -> None:
        (self.folder / "done").touch()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path / "lab", nodes=1, gpus=CARDS)
    lab.write_conf(scheduler={"grace_s": 1.0, "resize_after": 0.5, "retry_after_s": 0.2})
    try:
        lab.start()
        yield lab
    finally:
        left = lab.close()
    assert left == []


def restarted_with(lab: Lab, grace_s: float) -> None:
    """For so long a task that does not heed its end is shown as being resized."""
    lab.stop_master()
    lab.write_conf(scheduler={"grace_s": grace_s, "resize_after": 0.5, "retry_after_s": 0.2})
    lab.start()


def has(client: Client, task: int, count: int) -> TaskPage:
    """Wait until it runs on so many GPUs."""

    def page() -> TaskPage | None:
        found = client.show(task)
        held = [gpu for part in found["allocation"] for gpu in part["gpus"]]
        return found if found["state"] == "running" and len(held) == count else None

    return until(f"task {task} runs on {count} GPUs", page, seen=lambda: client.why(task))


def ended(client: Client, *tasks: int) -> list[str]:
    return [client.wait(list(tasks), 60)[task]["state"] for task in tasks]


@pytest.mark.parametrize("heeds", [True, False])
def test_a_day_of_one_that_gives_way_and_grows(small: Lab, heeds: bool) -> None:  # noqa: FBT001  (pytest names it)
    training = Training(small.folder, heeds=heeds)
    with small.client() as client:
        # It is alone, and has all GPUs; then somebody waits for two, and gets them.
        task = client.submit(training.command, **training.wish)
        has(client, task, 4)
        door = small.folder / "door"
        waiter = client.submit(f"until [ -e {shlex.quote(str(door))} ]; do sleep 0.05; done", gpus=2)
        has(client, waiter, 2)
        page = has(client, task, 2)
        assert (page["attempt"], page["retries"], page["resizes"]) == (2, 0, 1)
        assert reason_of(page["attempts"][0]) == Message("was_resized", was=4, gpus=2)
        assert page["attempts"][0]["asked_end"] == {"why": "resize", "by": ""}

        # He ends, nobody waits, and it grows again.
        door.touch()
        has(client, task, 4)
        training.finish()
        assert ended(client, task, waiter) == ["succeeded", "succeeded"]
        until("all is told", lambda: len(training.told()) == 3)
        assert [line.split()[0] for line in training.told()] == ["1", "2", "3"]
        assert [line.split()[2] for line in training.told()] == ["0", "1", "1"]
        assert [len(line.split()[1].split(",")) for line in training.told()] == [4, 2, 4]
        log = Path(client.show(task)["log_path"]).read_text(encoding="utf-8")
        assert [line for line in log.splitlines() if line.startswith("attempt")] == [
            "attempt 1", "attempt 2", "attempt 3",
        ]  # fmt: skip


def test_without_a_checkpoint_it_keeps_its_gpus_and_show_says_why(small: Lab) -> None:
    door = small.folder / "door"
    command = f"until [ -e {shlex.quote(str(door))} ]; do sleep 0.05; done"
    wish = {"gpus": 1, "gpus_max": 4, "elastic": True, "checkpoint": "nothing/*.pt"}
    with small.client() as client:
        task = client.submit(command, **wish)
        has(client, task, 4)
        waiter = client.submit("true", gpus=2)
        until("it is told", lambda: "nothing/*.pt" in (client.show(task)["warning"] or ""))
        assert (client.show(task)["attempt"], client.show(waiter)["state"]) == (1, "waiting")
        assert "nothing/*.pt" in small.muster("show", str(task)).stdout
        door.touch()
        assert ended(client, task, waiter) == ["succeeded", "succeeded"]


def test_a_master_that_is_killed_while_a_task_is_being_resized_lets_it_go_on_as_was_decided(small: Lab) -> None:
    restarted_with(small, 10.0)
    training = Training(small.folder, heeds=False)
    with small.client() as client:
        task = client.submit(training.command, **training.wish)
        has(client, task, 4)
        waiter = client.submit("sleep 1000", gpus=3)
        until("it is being resized", lambda: client.show(task)["resizing"])
        assert "gives up 3 GPUs" in (client.why(waiter)["reason"] or "")
    small.kill_master()
    until("nothing of it lives", lambda: not small.attempts_alive())
    small.start()
    with small.client() as client:
        page = has(client, task, 1)
        assert (page["attempt"], page["resizes"]) == (2, 1)
        has(client, waiter, 3)
        client.cancel([waiter])
        training.finish()
        assert ended(client, waiter) == ["cancelled"]
        assert ended(client, task) == ["succeeded"]
    assert len(training.told()) in (2, 3), "it may have grown again"


def test_an_agent_that_is_killed_while_a_task_is_being_resized_changes_nothing(small: Lab) -> None:
    restarted_with(small, 10.0)
    training = Training(small.folder, heeds=False)
    with small.client() as client:
        task = client.submit(training.command, **training.wish)
        has(client, task, 4)
        waiter = client.submit("sleep 1000", gpus=3)
        until("it is being resized", lambda: client.show(task)["resizing"])
        small.kill_agent("node0")
        has(client, waiter, 3)
        assert has(client, task, 1)["resizes"] == 1
        client.cancel([waiter, task])
        training.finish()
        assert ended(client, waiter, task) == ["cancelled", "cancelled"]


def test_what_is_cancelled_while_it_is_being_resized_does_not_begin_again(small: Lab) -> None:
    restarted_with(small, 30.0)
    training = Training(small.folder, heeds=False)
    with small.client() as client:
        task = client.submit(training.command, **training.wish)
        has(client, task, 4)
        waiter = client.submit("true", gpus=2)
        until("it is being resized", lambda: client.show(task)["resizing"])
        client.cancel([task])
        training.finish()
        assert ended(client, task, waiter) == ["cancelled", "succeeded"]
        assert client.show(task)["attempt"] == 1
