"""The desktop client's requests about tasks, good and bad, field by field."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from master.core.attempts.exits import Exit
from master.core.effects import Start
from master.core.nodes.inventory import NodeState
from master.core.tasks.task import Task, TaskState
from master.desktop import task_rows
from tests.desktop.client import DesktopClient, Frame, form, request
from tests.desktop.place import DesktopPlace, change, in_loop, with_client

pytestmark = pytest.mark.usefixtures("_quick_rounds")

KEYS = {
    "task_id": str, "envs": str, "path": str, "exec": str, "need_gpus": str, "slaver": str, "prev": str,
    "is_urgent": int, "is_reuse_gpu": int, "state": str,
}  # fmt: skip
STATES = {"wait", "pexec", "exec", "accp", "err", "offline_error", "term"}


def task(master: DesktopPlace, task_id: str) -> Task:
    """The task behind an id of 14 digits."""
    return master.core.tasks[int(task_id)]


def check_lists(lists: dict[str, list[dict[str, Any]]]) -> None:
    """All that the client's tables rely on."""
    assert list(lists) == ["wait", "exec", "hist"]
    ids = []
    for entries in lists.values():
        for entry in entries:
            assert {key: type(value) for key, value in entry.items()} == KEYS
            assert entry["state"] in STATES
            assert len(entry["task_id"]) == 14
            assert entry["task_id"].isdigit()
            int(entry["need_gpus"])
            assert entry["is_urgent"] in (0, 1)
            ids.append(entry["task_id"])
    assert len(ids) == len(set(ids))
    assert len(lists["hist"]) <= 100


def test_every_state_of_ours_has_one_that_the_client_knows() -> None:
    assert set(task_rows.STATES) == set(TaskState)
    assert set(task_rows.STATES.values()) == STATES


@pytest.mark.parametrize(
    ("folder", "shown"),
    [("/h", "/"), ("/h/data/x", "/data/x/"), ("/h/..data", "/..data/"), ("/other/x", "/other/x"), ("/hx", "/hx")],
)
def test_a_folder_is_shown_from_home_on_and_means_the_same_again(folder: str, shown: str) -> None:
    assert task_rows.path_text(folder, "/h") == shown
    if folder.startswith("/h/") or folder == "/h":
        assert task_rows.folder_of(shown, "/h") == folder


def test_the_box_for_sharing_gpus_makes_a_task_that_shares_them(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        assert client.add("python a.py", need_gpus="1", is_reuse_gpu=1) == ""
        (row,) = client.tasks()["wait"]
        assert (row["is_reuse_gpu"], task(master, "1").share) == (1, True)
        assert client.ask("change_task", {**row, "exec": "python b.py"}, "task_ctrl") == ""
        assert (task(master, "1").command, task(master, "1").share) == ("python b.py", True)
        assert client.ask("change_task", {**row, "exec": "python b.py", "is_reuse_gpu": 0}, "task_ctrl") == ""
        assert not task(master, "1").share
        assert client.add("python a.py", need_gpus="0", is_reuse_gpu=1) == "", "there is nothing to share"
        assert not task(master, "2").share
        assert client.ask("resub_task", row["task_id"])["info"] == ""
        assert not task(master, "3").share

    with_client(tmp_path, story)


def test_a_task_is_filed_as_the_dialog_says(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        assert client.add("python a.py --name '字 \"x\"' $HOME _<END_SEND>_ end", path="/data/p/", need_gpus="2") == ""
        first = task(master, "1")
        assert first.command == "python a.py --name '字 \"x\"' $HOME _<END_SEND>_ end"
        assert first.owner == "desktop"
        assert first.cwd == str(tmp_path / "data/p")
        assert (first.gpus, first.env, first.node, first.after, first.urgent) == (2, "", None, [], False)
        assert first.log_path == str(tmp_path / "logs/1.log")
        prev = "00000000000001"
        assert client.add("b", envs="base", slaver="a", prev=prev, is_urgent=1, need_gpus="0") == ""
        second = task(master, "2")
        assert [(after.id, after.on) for after in second.after] == [(1, "any")]
        assert (second.env, second.node, second.urgent, second.gpus) == ("base", "a", True, 0)
        lists = client.tasks()
        check_lists(lists)
        assert lists["exec"] == lists["hist"] == []
        shown = {entry["task_id"]: entry for entry in lists["wait"]}
        assert shown["00000000000001"] == form(
            first.command, task_id="00000000000001", path="/data/p/", need_gpus="2", state="wait"
        )
        assert shown["00000000000002"] == form(
            "b", task_id="00000000000002", envs="base", slaver="a", prev=prev, is_urgent=1, state="wait"
        )

    with_client(tmp_path, story)


@pytest.mark.parametrize(
    ("info", "told"),
    [
        (form(""), "命令为空"),
        (form("a\0b"), "NUL"),
        (form("x", need_gpus="many"), "GPU 数量 'many'"),
        (form("x", need_gpus="-1"), "GPU 数量 '-1'"),
        (form("x", need_gpus=True), "need_gpus"),
        (form("x", need_gpus="5000"), "4096"),
        (form("x", slaver="nowhere"), "nowhere"),
        (form("x", prev="00000000000077"), "77"),
        (form("x", prev="../x"), "../x"),
        (form("x", path="/../../etc"), "主目录"),
        (form("x", envs="base; rm -rf ~"), "不是环境名"),
        (form("x", path=3), "path"),
        ({"task_id": ""}, "exec"),
        ([], "无法读取"),
        ("", "无法读取"),
        (None, "无法读取"),
        (5, "无法读取"),
    ],
)
def test_a_bad_task_is_refused_with_a_text_that_names_what_is_wrong(tmp_path: Path, info: Any, told: str) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        text = client.ask("add_task", info, "task_ctrl")
        assert told in text
        assert "\n" not in text
        text = client.ask("change_task", info, "task_ctrl")
        assert isinstance(text, str)
        assert text != ""
        assert master.core.tasks == {}
        assert client.add("true") == ""

    with_client(tmp_path, story)


def test_missing_keys_mean_nothing_special(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        assert client.ask("add_task", {"exec": "x", "more": 1}) == ""
        assert client.ask("add_task", form("y", need_gpus=1, slaver=None, prev=None, path="data//p/.")) == ""
        assert task(master, "1").cwd == str(tmp_path)
        assert (task(master, "2").gpus, task(master, "2").cwd) == (1, str(tmp_path / "data/p"))

    with_client(tmp_path, story)


def test_a_waiting_task_is_changed_in_its_place(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        client.add("one")
        client.add("two")
        entry = client.tasks()["wait"][0]
        assert client.ask("change_task", {**entry, "exec": "changed", "need_gpus": "3", "state": ""}, "task_ctrl") == ""
        changed = task(master, "1")
        assert (changed.command, changed.gpus, changed.state) == ("changed", 3, TaskState.WAITING)
        assert list(master.core.tasks) == [1, 2]

    with_client(tmp_path, story)


def test_a_change_touches_only_what_the_user_changed(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        words = ["python", "a b.py", "$HOME"]
        change(master, lambda: master.submit(words, gpus=2, gpu_ids=[0, 1], priority=5, variables={"A": "1"}))
        entry = client.tasks()["wait"][0]
        assert entry["exec"] == "python 'a b.py' '$HOME'"
        assert client.ask("change_task", {**entry, "state": ""}) == ""
        assert client.ask("change_task", {**entry, "envs": "base", "state": ""}) == ""
        changed = task(master, "1")
        assert changed.command == words
        assert (changed.env, changed.gpu_ids, changed.priority, changed.variables) == ("base", [0, 1], 5, {"A": "1"})
        assert changed.owner == "ann"

    with_client(tmp_path, story)


def test_a_command_too_long_for_the_table_is_not_cut_by_a_change(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        assert client.add("x" * 5000) == ""
        entry = client.tasks()["wait"][0]
        assert len(entry["exec"]) == 2000
        assert client.ask("change_task", {**entry, "need_gpus": "1"}) == ""
        assert task(master, "1").command == "x" * 5000
        assert "命令过长" in client.ask("change_task", {**entry, "exec": "y"})

    with_client(tmp_path, story)


def ended(master: DesktopPlace, task_id: int, code: int = 0) -> None:
    """The node tells that a running task has ended."""

    def end() -> None:
        (part,) = master.core.tasks[task_id].allocation
        exit_ = Exit(part.launch_id, "exited", at=5.0, code=code, started_at=2.0)
        master.engine.event(lambda: master.core.exited("a", exit_, 5.0))

    in_loop(master, end)


def started(master: DesktopPlace) -> None:
    """Everything that fits runs."""

    def begin() -> None:
        master.online()
        master.core.plan(0.0)
        for one in master.core.active():
            if one.allocation:
                master.core.started("a", one.allocation[0].launch_id, 2.0, 2.0)
        master.engine.event(lambda: None)

    change(master, begin)


def box(frame: Frame) -> str:
    """The text of the box that a refusal of del_task or resub_task is told by."""
    assert frame.mode == "ret_change_task"
    assert isinstance(frame.info, str)
    assert frame.info != ""
    return frame.info


def test_a_life_in_the_tables(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        for number in range(3):
            assert client.add(f"echo {number}", need_gpus="1") == ""
        started(master)
        lists = client.tasks()
        check_lists(lists)
        assert [entry["state"] for entry in lists["exec"]] == ["exec"] * 3
        assert {entry["slaver"] for entry in lists["exec"]} == {"a"}
        one, two, three = (entry["task_id"] for entry in lists["exec"])

        assert "运行中" in client.ask("change_task", {**lists["exec"][0], "state": ""})
        assert "运行中" in box(client.reply("del_task", one))
        assert client.ask("stop_task", two) == {"task_id": two, "info": "success"}
        assert task(master, two).cancel_requested
        ended(master, int(one))
        ended(master, int(three), code=3)
        lists = client.watch("both ends are told", lambda tables: tables if len(tables["hist"]) == 2 else None)
        check_lists(lists)
        assert [(entry["task_id"], entry["state"]) for entry in lists["hist"]] == [(one, "accp"), (three, "err")]
        assert client.ask("stop_task", one) == {"task_id": one, "info": "failed"}

        in_loop(master, lambda: master.engine.event(lambda: master.core.node_state("a", NodeState.UNREACHABLE, "off")))
        assert client.ask("resub_task", three) == {"task_id": "00000000000004", "info": ""}
        again = task(master, "4")
        assert (again.command, again.gpus, again.owner) == ("echo 2", 1, "desktop")
        entry = next(entry for entry in lists["hist"] if entry["task_id"] == one)
        assert client.ask("change_task", {**entry, "exec": "echo new", "state": ""}) == ""
        assert (task(master, one).state, task(master, one).command) == (TaskState.WAITING, "echo new")
        entry = next(entry for entry in lists["hist"] if entry["task_id"] == three)
        assert client.ask("change_task", {**entry, "state": ""}) == ""
        assert task(master, three).state is TaskState.WAITING
        assert client.ask("del_task", three) == {"task_id": three, "info": ""}
        assert int(three) not in master.core.tasks
        assert client.ask("stop_task", one) == {"task_id": one, "info": "success"}
        client.watch("its end is told", lambda tables: [entry["state"] for entry in tables["hist"]][:1] == ["term"])

    with_client(tmp_path, story)


def test_a_chain_that_is_deleted_task_by_task_does_not_start_meanwhile(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        assert client.add("all GPUs", need_gpus="8") == ""
        started(master)
        for number in range(1, 6):
            prev = {"prev": f"{number:014d}"} if number > 1 else {}
            assert client.add("echo", need_gpus="8" if number == 1 else "0", **prev) == ""
        for task_id in range(2, 7):
            client.send("del_task", f"{task_id:014d}")
            assert in_loop(master, lambda: len(master.core.active())) == 1
        told = [client.data.next() for _ in range(5)]
        assert [(one.mode, one.info["task_id"]) for one in told] == [
            ("ret_del_task", f"{task_id:014d}") for task_id in range(2, 7)
        ]
        assert list(master.core.tasks) == [1]
        assert {effect.task.id for effect in master.effects if isinstance(effect, Start)} == {1}
        assert client.add("and on it goes") == ""

    with_client(tmp_path, story)


@pytest.mark.parametrize("info", ["00000000000077", "77", "../x", "", None, [], {}, -1, True, "9" * 400, "１"])
def test_a_task_that_there_is_not(tmp_path: Path, info: Any) -> None:
    def story(client: DesktopClient, _master: DesktopPlace) -> None:
        box(client.reply("del_task", info))
        box(client.reply("resub_task", info))
        reply = client.ask("stop_task", info)
        assert reply["info"] == "failed"
        assert isinstance(reply["task_id"], str)

    with_client(tmp_path, story)


def test_the_history_shows_the_newest_hundred_and_the_queue_the_next_thousand(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        def fill() -> None:
            for number in range(1300):
                master.submit(f"echo {number}")
            for number in range(1, 151):
                master.engine.client_change(partial(master.core.cancel, number, 10.0 + number))

        change(master, fill)
        lists = client.tasks()
        check_lists(lists)
        assert [int(entry["task_id"]) for entry in lists["hist"]] == list(range(51, 151))
        assert [int(entry["task_id"]) for entry in lists["wait"]] == list(range(151, 1151))
        change(master, lambda: master.engine.client_change(lambda: master.core.remove(150, 1.0)))
        lists = client.tasks()
        assert [int(entry["task_id"]) for entry in lists["hist"]] == list(range(50, 150))

    with_client(tmp_path, story)


def test_requests_in_one_segment_are_all_answered_each_in_a_receive_of_its_own(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        data = b"".join(request("add_task", form(f"echo {number}")) for number in range(5))
        client.data.send(data + b"garbage_<END_SEND>_" + request("get_root", ""))
        assert [client.data.next().mode for _ in range(6)] == ["ret_add_task"] * 5 + ["ret_root"]
        assert [one.command for one in master.core.tasks.values()] == [f"echo {number}" for number in range(5)]

    with_client(tmp_path, story)
