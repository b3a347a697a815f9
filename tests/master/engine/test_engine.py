"""The engine: nothing leaves before it is durable, and a disk that refuses stops growth, not the truth."""

from __future__ import annotations

import asyncio
import errno
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from master.core.attempts.exits import Exit
from master.core.effects import Ack, Kill, NodeEffect, Start
from master.core.outcome import Move
from master.core.tasks.task import Task, TaskState
from master.durable import compacting
from master.durable.store import RESERVE, Store
from master.engine import engine as engine_module
from master.engine import plan_pace
from master.engine.engine import EXIT_DEFECT, EXIT_SYNC_FAILED
from master.verbs import turns
from master.verbs.task_rows import WholeRows
from tests.master.executor import played
from tests.master.in_process import InProcess, MoodyDisk, run
from tests.waiting import settled
from wire.errors import MusterError, StoreUnavailableError

ROOT = Path(__file__).parents[3]
REFUSALS = (errno.ENOSPC, errno.EROFS, errno.EDQUOT)


@pytest.fixture(autouse=True)
def _tries_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "RETRY_S", 0.01)


def submit(master: InProcess, command: str = "true", **wants: object) -> Task:
    draft = Task(id=0, command=command, **wants)  # type: ignore[arg-type]
    return master.engine.client_change(lambda: master.core.submit([draft], 1.0))[0]


def start_one(master: InProcess) -> str:
    """One task that is on its way; its launch id."""
    master.online()
    submit(master, gpus=1)
    return "1.1.1"


def test_an_answer_leaves_only_after_the_sync(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            told: list[MusterError | None] = []
            seen_at_sync: list[int] = []
            master.disk.on_sync = lambda: seen_at_sync.append(len(told))
            submit(master)
            master.engine.reply(told.append)
            assert told == []
            await settled(lambda: told)
            assert seen_at_sync == [0]
            assert told == [None]

    run(story())


def test_a_read_waits_for_the_sync_of_what_it_has_seen_and_else_not_at_all(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            order: list[str] = []
            master.disk.on_sync = lambda: order.append("sync")
            master.engine.reply(lambda _: order.append("read of nothing new"))
            submit(master)
            master.engine.reply(lambda _: order.append("submit"))
            master.engine.reply(lambda _: order.append("read"))
            await settled(lambda: "read" in order)
            assert order == ["read of nothing new", "sync", "submit", "read"]

    run(story())


def test_what_came_in_during_one_turn_is_synced_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            told: list[MusterError | None] = []
            before = master.disk.syncs
            for _ in range(100):
                submit(master)
                master.engine.reply(told.append)
            await settled(lambda: len(told) == 100)
            assert master.disk.syncs == before + 1

    run(story())


def test_what_is_heard_alone_is_durable_and_answered_in_the_same_turn(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            await settled(lambda: master.engine.is_saved)
            engine, told, seen_at_sync = master.engine, list[MusterError | None](), list[int]()
            master.disk.on_sync = lambda: seen_at_sync.append(len(told))
            engine.is_alone = lambda: True
            assert engine.hold()
            assert not engine.hold(), "whoever began it ends it"
            for _ in range(2):
                submit(master)
                engine.reply(told.append)
            assert (told, seen_at_sync) == ([], [])
            engine.let_go()
            assert (told, seen_at_sync) == ([None, None], [0])
            assert engine.hold()
            engine.let_go()
            assert seen_at_sync == [0], "of nothing nothing is synced"

    run(story())


def test_who_is_heard_when_all_is_over_commits_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            await settled(lambda: master.engine.is_saved)
        master.engine.is_alone = lambda: True
        assert master.engine.hold()
        master.engine.event(master.core.woken)
        master.engine.let_go()
        assert master.core.plan_needed

    run(story())


def test_who_is_heard_alone_and_changes_nothing_commits_nothing_that_others_wait_to_have_planned(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            await settled(lambda: master.engine.is_saved)
            master.engine.is_alone = lambda: True
            master.core.woken()
            assert master.engine.hold()
            master.engine.let_go()
            assert master.core.plan_needed

    run(story())


def test_who_was_not_heard_alone_is_synced_with_the_others(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            await settled(lambda: master.engine.is_saved)
            assert not master.engine.hold()
            submit(master)
            master.engine.is_alone = lambda: True
            assert not master.engine.hold(), "something waits for the next turn already"
            assert not master.engine.is_saved
            await settled(lambda: master.engine.is_saved)

    run(story())


def test_what_was_heard_alone_and_cannot_be_written_is_told_and_tried_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            await settled(lambda: master.engine.is_saved)
            engine, told = master.engine, list[MusterError | None]()
            engine.is_alone = lambda: True
            assert engine.hold()
            submit(master)
            engine.reply(told.append)
            master.disk.refuse = errno.ENOSPC
            engine.let_go()
            assert [type(error) for error in told] == [StoreUnavailableError]
            assert engine.stalled
            assert not engine.hold()
            master.disk.refuse = None
            await settled(lambda: engine.is_saved)

    run(story())


def test_what_changed_during_one_turn_is_one_record_and_says_so_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            await settled(lambda: master.engine.is_saved)
            before = master.engine.store.journal.seq
            tasks = [submit(master), submit(master)]
            master.engine.client_change(lambda: master.core.hold(1))
            assert [task.seq for task in tasks] == [before + 1, before + 1], "who asks now is told of that record"
            await settled(lambda: master.engine.is_saved)
            assert master.engine.store.journal.seq == before + 1
            master.engine.client_change(lambda: master.core.release(1))
            assert [task.seq for task in tasks] == [before + 2, before + 1]

    run(story())


def test_while_the_journal_is_compacted_it_is_given_each_change_before_a_file_may_hold_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            store, held_back, compact = master.engine.store, [], master.engine.store.compact

            def steps(*args: Any, **kwargs: Any) -> Iterator[Callable[[], None] | None]:
                for step in compact(*args, **kwargs):
                    held_back.append(master.core.has_outcome())
                    asyncio.get_running_loop().call_soon(submit, master)
                    yield step

            monkeypatch.setattr(store, "compact", steps)
            monkeypatch.setattr(store, "should_compact", lambda: not held_back)
            submit(master)
            await settled(lambda: held_back and not master.engine.compacting.is_running and master.engine.is_saved)
            assert len(held_back) > 5
            assert not any(held_back)

    run(story())


def test_a_launch_and_an_acknowledgement_leave_only_after_their_sync(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            seen: list[list[type]] = []
            master.disk.on_sync = lambda: seen.append([type(effect) for effect in master.effects])
            launch_id = start_one(master)
            await settled(lambda: master.effects)
            master.engine.event(lambda: master.core.exited("a", Exit(launch_id, "exited", 2.0, 0), 2.0))
            await settled(lambda: len(master.effects) == 2)
            assert [type(effect) for effect in master.effects] == [Start, Ack]
            assert seen[-2:] == [[], [Start]]

    run(story())


def test_observers_hear_of_what_is_durable(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            heard: list[list[int]] = []

            class Listener:
                def published(self, moves: Sequence[Move], _nodes: set[str]) -> None:
                    heard.append([task.id for task, _, _ in moves])

            master.engine.observers.append(Listener())
            master.engine.let_out.append(lambda: heard.append([0]))
            master.disk.on_sync = lambda: heard.append([-1])
            submit(master)
            await settled(lambda: len(heard) == 3)
            assert heard == [[-1], [1], [0]]

    run(story())


def test_what_effects_send_leaves_together_and_before_the_news_of_them(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            engine, heard = master.engine, list[str]()

            class Listener:
                def published(self, _moves: Sequence[Move], _nodes: set[str]) -> None:
                    heard.append("news")

            def perform(_effects: list[NodeEffect]) -> None:
                engine.send_soon(lambda: heard.append("sent"))
                heard.append("performed")

            engine.executor_of = played(perform)
            engine.observers.append(Listener())
            master.disk.on_sync = lambda: heard.append("synced")
            start_one(master)
            await settled(lambda: "news" in heard)
            assert heard == ["synced", "performed", "sent", "news"]
            engine.send_soon(lambda: heard.append("later"))
            assert heard[-1] == "news"
            await settled(lambda: heard[-1] == "later")

    run(story())


@pytest.mark.parametrize("number", REFUSALS)
def test_a_disk_that_refuses_is_told_and_recovers_by_itself(tmp_path: Path, number: int) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            await settled(lambda: master.engine._commit_at is None)
            peer = await master.peer()
            master.disk.refuse = number
            code, message = await peer.refusal("task.submit", command="true", request_id="first")
            assert code == "store_unavailable"
            assert "request_id" in message
            # It may yet become durable, so it must not be told as done, and not be made twice.
            assert (await peer.refusal("task.submit", command="true", request_id="first"))[0] == "store_unavailable"
            assert (await peer.refusal("task.submit", command="true"))[0] == "store_unavailable"
            assert (await peer.refusal("task.cancel", ids=[1]))[0] == "store_unavailable"
            assert (await peer.call("server.info"))["store_fault"] is not None
            assert (await peer.call("task.list"))["total"] == 1
            master.disk.refuse = None
            await settled(lambda: not master.engine.stalled)
            assert await peer.call("task.submit", command="true", request_id="first") == {"id": 1}
            assert await peer.call("task.submit", command="true") == {"id": 2}
            assert (await peer.call("server.info"))["store_fault"] is None
        store = Store(tmp_path / "task_info", MoodyDisk())
        assert sorted(store.open().tasks) == [1, 2]
        store.close()

    run(story())


def test_who_only_looks_just_when_the_disk_refuses_is_shown_what_is_not_saved(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            await settled(lambda: master.engine._commit_at is None)
            peer = await master.peer()
            master.disk.refuse = errno.ENOSPC
            changed = peer.ask("task.submit", command="true")
            looks = [peer.ask("task.show", id=1), peer.ask("task.list"), peer.ask("server.info")]
            assert (await peer.answer(changed))["error"]["data"]["code"] == "store_unavailable"
            shown, listed, told = [(await peer.answer(number))["result"] for number in looks]
            assert shown["unsaved"] is True
            assert [task["unsaved"] for task in listed["tasks"]] == [True]
            assert told["unsaved"] == [1]

    run(story())


def test_a_list_that_was_begun_before_the_disk_refused_tells_what_is_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "SHARE_S", 0.0)  # one slice in each turn of the loop
    made: list[int] = []
    add = WholeRows.add

    def noted(rows: WholeRows, tasks: Sequence[Task]) -> None:
        add(rows, tasks)
        made.append(len(tasks))

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            await peer.call("task.submit_batch", commands=["true"] * 3000, hold=True)
            await settled(lambda: master.engine._commit_at is None)
            monkeypatch.setattr(WholeRows, "add", noted)
            commit, loop = master.engine._commit, asyncio.get_running_loop()

            def after_some_rows() -> None:
                loop.call_soon(commit if made else after_some_rows)

            monkeypatch.setattr(master.engine, "_commit", after_some_rows)
            master.disk.refuse = errno.ENOSPC
            changed = peer.ask("task.edit", id=1, changes={"name": "other"})
            listed = peer.ask("task.list")
            assert "error" in await peer.answer(changed)
            monkeypatch.setattr(master.engine, "_commit", commit)
            assert made[0] < 3000
            tasks = (await peer.answer(listed))["result"]["tasks"]
            assert [task["id"] for task in tasks if task["unsaved"]] == [1]

    run(story())


def test_the_first_answer_after_the_disk_was_full_waits_for_its_sync_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "RETRY_S", 3600.0)

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            told: list[object] = []
            master.disk.refuse = errno.EROFS
            submit(master)
            master.engine.reply(told.append)
            await settled(lambda: told)
            master.disk.refuse = None
            synced_before_answer: list[bool] = []
            master.disk.on_sync = lambda: synced_before_answer.append(len(told) == 1)
            submit(master)
            master.engine.reply(told.append)
            assert len(told) == 1
            await settled(lambda: len(told) == 2)
            assert synced_before_answer == [True]
            assert told[1] is None

    run(story())


def test_exits_are_recorded_on_a_full_disk_while_submits_are_refused(tmp_path: Path) -> None:
    class NearlyFull(MoodyDisk):
        """Full but for what the reserve gives back."""

        def write(self, fd: int, data: bytes) -> int:
            if self.refuse is not None and RESERVE in self.names(tmp_path / "task_info"):
                self._check()
            return super(MoodyDisk, self).write(fd, data)

    async def story() -> None:
        disk = NearlyFull()
        async with InProcess(tmp_path, disk) as master:
            launch_id = start_one(master)
            submit(master, gpus=8)
            await settled(lambda: master.effects)
            disk.fill()
            master.engine.event(lambda: master.core.started("a", launch_id, 2.0, 2.0))
            master.engine.event(lambda: master.core.exited("a", Exit(launch_id, "exited", 3.0, 7), 3.0))
            await settled(lambda: any(isinstance(effect, Ack) for effect in master.effects))
            await settled(lambda: master.core.tasks[2].allocation)  # perhaps with the next round of planning only
            peer = await master.peer()
            code, message = await peer.refusal("task.submit", command="true")
            assert (code, "full" in message or "No space" in message) == ("store_unavailable", True)
            # What fills the disk may be a task: it can be ended.
            assert (await peer.call("task.cancel", ids=[2]))["signalled"] == [2]
            assert any(isinstance(effect, Kill) for effect in master.effects)
        store = Store(tmp_path / "task_info", MoodyDisk())
        tasks = store.open().tasks
        store.close()
        assert (tasks[1].state, tasks[1].exit_code) == (TaskState.FAILED, 7)
        assert tasks[2].cancel_requested

    run(story())


def test_nothing_is_acknowledged_to_an_agent_while_the_disk_refuses(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            launch_id = start_one(master)
            await settled(lambda: master.effects)
            master.disk.refuse = errno.EROFS
            master.engine.event(lambda: master.core.exited("a", Exit(launch_id, "exited", 2.0, 0), 2.0))
            await settled(lambda: master.engine.stalled)
            assert [type(effect) for effect in master.effects] == [Start]
            master.disk.refuse = None
            await settled(lambda: len(master.effects) == 2)
            assert isinstance(master.effects[1], Ack)

    run(story())


def test_a_refused_compaction_does_not_keep_the_master_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            monkeypatch.setattr(master.engine.store, "should_compact", lambda: True)
            monkeypatch.setattr(master.disk, "create", _refuse)
            submit(master)
            await settled(lambda: master.engine.compacting.not_before > 0)
        assert master.core.tasks.keys() == {1}

    run(story())


def test_a_defect_in_a_compaction_is_told_once_put_off_and_shown_and_the_queue_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[Path] = []

    def broken(path: Path) -> int:
        tries.append(path)
        raise ValueError("year 31690708 is out of range")

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            monkeypatch.setattr(master.engine.store, "should_compact", lambda: True)
            monkeypatch.setattr(master.disk, "create", broken)
            for _ in range(20):
                await peer.call("task.submit", command="true")
            await settled(lambda: master.engine.compacting.fault is not None)
            for _ in range(20):
                await peer.call("task.submit", command="true")
            assert len(tries) == 1
            assert "year 31690708" in (await peer.call("server.info"))["compaction_fault"]
            told = [record for record in caplog.records if record.exc_info]
            assert len(told) == 1
            monkeypatch.undo()
            monkeypatch.setattr(master.engine.store, "should_compact", lambda: True)
            master.engine.compacting.not_before = 0.0
            await peer.call("task.submit", command="true")
            await settled(lambda: master.engine.compacting.fault is None)

    run(story())


def _refuse(_path: Path) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_what_happens_behind_its_end_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection's end is told by the loop, perhaps after the store was closed."""
    ended: list[int] = []
    monkeypatch.setattr("master.engine.engine.os._exit", ended.append)

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            master.online()
            await master.engine.close()
            submit(master)
            for _ in range(3):
                await asyncio.sleep(0)
        assert ended == []

    run(story())


def test_planning_takes_at_most_a_fifth_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(plan_pace, "time", SimpleNamespace(monotonic=lambda: clock[0], time=lambda: clock[0]))

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            rounds: list[float] = []

            really_plan = master.core.plan

            def plan(now: float) -> int:
                really_plan(now)
                rounds.append(clock[0])
                clock[0] += 0.01
                return 0

            monkeypatch.setattr(master.core, "plan", plan)
            told: list[object] = []

            async def one_more() -> None:
                before = len(told)
                submit(master)
                master.engine.reply(told.append)
                await settled(lambda: len(told) > before)

            delays: list[float] = []
            loop = asyncio.get_running_loop()
            call_later = loop.call_later

            def noted(delay: float, what: Callable[..., object], *args: object) -> asyncio.TimerHandle:
                if what == master.engine._pace._due:
                    delays.append(delay)
                return call_later(delay, what, *args)

            monkeypatch.setattr(loop, "call_later", noted)
            for _ in range(5):
                await one_more()
            assert rounds == [100.0]
            assert delays != []
            assert delays == pytest.approx([0.04] * len(delays))
            clock[0] = 100.06
            await settled(lambda: len(rounds) == 2)

    run(story())


@pytest.mark.real
@pytest.mark.parametrize(
    ("defect", "status"),
    [
        ("master.disk.sync_fails = True", EXIT_SYNC_FAILED),
        ("master.engine.store.commit = lambda: 1 / 0", EXIT_DEFECT),
    ],
)
def test_a_failing_sync_or_a_defect_ends_the_process_before_anything_is_answered(
    tmp_path: Path, defect: str, status: int
) -> None:
    program = f"""
import pathlib
from tests.master.in_process import InProcess, run
async def story():
    async with InProcess(pathlib.Path({str(tmp_path)!r})) as master:
        peer = await master.peer()
        print(await peer.call("task.submit", command="true"), flush=True)
        {defect}
        print(await peer.call("task.submit", command="true"), flush=True)
run(story())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (status, "{'id': 1}\n")
    store = Store(tmp_path / "task_info", MoodyDisk())
    assert 1 in store.open().tasks
    store.close()


def test_what_moves_to_the_history_does_so_a_part_in_each_turn_and_without_what_is_tried_again_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacting, "ARCHIVED_AT_ONCE", 2)
    parts: list[list[int]] = []

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            ids = (await peer.call("task.submit_batch", commands=["true"] * 7, hold=True))["first"], 7
            await peer.call("task.cancel", ids=list(range(ids[0], ids[0] + 7)))
            archive = master.engine.store.archive

            def seen(tasks: list[Task]) -> None:
                parts.append([task.id for task in tasks])
                archive(tasks)
                if len(parts) == 1:  # somebody has a turn before the next part
                    again = partial(master.core.retry, 7)
                    asyncio.get_running_loop().call_soon(lambda: master.engine.client_change(again))

            monkeypatch.setattr(master.engine.store, "archive", seen)
            monkeypatch.setattr(
                master.core, "oldest_ended", lambda _keep: [master.core.tasks[one] for one in range(1, 8)]
            )
            monkeypatch.setattr(master.engine.store, "should_compact", lambda: not parts)
            await peer.call("task.submit", command="true", hold=True)
            await settled(lambda: master.core.tasks.keys() == {7, 8})
            assert parts == [[1, 2], [3, 4], [5, 6]]
            assert (await peer.call("task.archived"))["total"] == 6

    run(story())
