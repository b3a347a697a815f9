"""What the desktop client's log tab shows: a real master's news, followed with `tail` as the client does it."""

from __future__ import annotations

import re
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from master.core.attempts.exits import Exit
from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.tasks.task import Task, TaskState
from master.desktop import news as news_module
from master.desktop import news_file
from master.desktop.news import IN_S, SO_MANY, TOGETHER, News
from master.desktop.task_rows import id_text
from tests.desktop.client import DesktopClient
from tests.master.in_process import FACTS, InProcess, run
from tests.system.lab import PORTS, Lab
from tests.waiting import settled, until


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """One node with two GPUs; no master yet."""
    one = Lab(tmp_path, nodes=1, gpus=2)
    try:
        yield one
    finally:
        left = one.close()
    assert left == []


def desktop(lab: Lab) -> DesktopClient:
    return DesktopClient({name: ("127.0.0.1", lab.keys["socket_info"][name]) for name in PORTS})


@contextmanager
def following(path: str, seen: Path) -> Iterator[None]:
    """What the client shows from here on, written to `seen`."""
    with seen.open("wb") as out, subprocess.Popen(["tail", "-n", "100", "-f", path], stdout=out) as tail:
        try:
            yield
        finally:
            tail.terminate()


@pytest.mark.real
def test_the_log_tab_tells_in_chinese_what_happens_and_to_whom(lab: Lab, tmp_path: Path) -> None:
    lab.start()
    with desktop(lab) as client:
        path = client.ask("get_server_log")
        assert stat.S_IMODE(Path(path).stat().st_mode) == 0o640
        with following(path, tmp_path / "seen"):

            def tells(pattern: str) -> None:
                text = until(pattern, lambda: (tmp_path / "seen").read_text(encoding="utf-8"))
                until(f"{pattern} in {text}", lambda: re.search(pattern, (tmp_path / "seen").read_text("utf-8")))

            tells("服务端已启动（版本 .*）")
            tells("节点 node0 已上线")
            tells("客户端 127.0.0.1 已连接")
            told = tmp_path / "told"  # what starts and ends at one moment is news once
            command = f"echo '字' \x1b[2J; until [ -e {told} ]; do sleep 0.05; done; exit 3"
            assert client.add(command, need_gpus="1") == ""
            tells(r"任务 00000000000001 已添加（用户 desktop，GPU 1 块）：echo '字' \\x1b\[2J; until")
            tells("任务 00000000000001 开始运行：节点 node0，GPU [01]")
            told.touch()
            tells("任务 00000000000001 运行失败（退出码 3）")
            assert lab.muster("retry", "1").returncode == 0
            tells("(?s)任务 00000000000001 重新排队.*任务 00000000000001 运行失败")
            assert client.add("sleep 60") == ""
            tells("任务 00000000000002 开始运行：节点 node0")
            client.ask("stop_task", "00000000000002")
            tells("任务 00000000000002 已中止")
            client.ask("del_task", "00000000000001")
            tells("任务 00000000000001 已删除")
            lab.write_registry([])
            tells("节点 node0 (已移除|已掉线)")
            client.close()
            tells("客户端 127.0.0.1 已断开")
            lab.stop_master()
            tells("服务端已停止")
    text = (tmp_path / "seen").read_text(encoding="utf-8")
    assert "\x1b" not in text
    assert all(re.match(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d \S", line) for line in text.splitlines())


@pytest.mark.real
def test_who_follows_the_news_goes_on_when_they_are_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(news_file, "BYTES", 1000)

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            news = News(master.engine, tmp_path / "news", None)
            news.say("第一条")
            with following(str(tmp_path / "news"), tmp_path / "seen"):
                until("the first", lambda: "第一条" in (tmp_path / "seen").read_text(encoding="utf-8"))
                for number in range(200):
                    news.say(f"第 {number} 条")
                    until("it", lambda: f"第 {number} 条" in (tmp_path / "seen").read_text(encoding="utf-8"))  # noqa: B023
            news.close()

    run(story())
    assert (tmp_path / "news.5").exists()
    assert not (tmp_path / "news.6").exists()
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("news*")} == {0o640}


def lines(path: Path) -> list[str]:
    """What is told, without the times."""
    return [line.split(" ", 2)[2] for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_thousand_tasks_at_once_are_one_line(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            news = News(master.engine, tmp_path / "news", None)
            drafts = [Task(id=0, command="true", owner="ann") for _ in range(1000)]
            master.engine.client_change(lambda: master.core.submit(drafts, 1.0))
            await settled(lambda: (tmp_path / "news").stat().st_size)
            assert lines(tmp_path / "news") == ["任务 1 至 1000 已添加，共 1000 个"]
            news.close()

    run(story())


def test_a_task_with_more_gpus_than_any_node_has_does_not_wait_in_silence(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            master.engine.event(lambda: master.core.set_nodes((NodeSpec(name="a", gpu_models=("GPU",) * 2),)))
            news = News(master.engine, tmp_path / "news", None)
            drafts = [Task(id=0, command="true", owner="ann", gpus=gpus) for gpus in (2, 9)]
            master.engine.client_change(lambda: master.core.submit(drafts, 1.0, waits=True))
            await settled(lambda: (tmp_path / "news").stat().st_size)
            added, next_one, never = lines(tmp_path / "news")
            assert [line.partition("（")[0] for line in (added, next_one)] == [
                f"任务 {id_text(number)} 已添加" for number in (1, 2)
            ]
            assert never.startswith(f"任务 {id_text(2)} 会一直等待")
            assert "节点 a 有 2 块" in never
            news.close()

    run(story())


def test_a_thousand_held_tasks_at_once_are_two_lines_and_a_few_are_told_in_their_order(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            news = News(master.engine, tmp_path / "news", None)
            for count in (1000, 2):
                drafts = [Task(id=0, command="true", owner="ann", state=TaskState.HELD) for _ in range(count)]
                master.engine.client_change(lambda: master.core.submit(drafts, 1.0))  # noqa: B023
                await settled(lambda: master.engine.is_settled)
            await settled(lambda: len(lines(tmp_path / "news")) == 6)
            assert [line.partition("（")[0].partition("，")[0] for line in lines(tmp_path / "news")] == [
                "任务 1 至 1000 已添加",
                "任务 1 至 1000 已暂缓",
                *(f"任务 {id_text(number)} {what}" for number in (1001, 1002) for what in ("已添加", "已暂缓")),
            ]
            news.close()

    run(story())


def test_of_many_tasks_that_come_in_one_by_one_at_a_moment_the_first_are_told_apart_and_the_others_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(news_module, "SOON_S", 3600.0)

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            news = News(master.engine, tmp_path / "news", None)
            for _ in range(30):
                draft = Task(id=0, command="true", owner="ann")
                master.engine.client_change(lambda: master.core.submit([draft], 1.0))  # noqa: B023
                await settled(lambda: master.engine.is_settled)
            news.say("其后")
            first = [f"任务 {id_text(number)} 已添加（用户 ann，不用 GPU）：true" for number in range(1, TOGETHER + 1)]
            assert lines(tmp_path / "news") == [*first, "任务 11 至 30 已添加，共 20 个", "其后"]
            news.close()

    run(story())


def test_what_anybody_can_repeat_is_counted(tmp_path: Path) -> None:
    now = [0.0]

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            news = News(master.engine, tmp_path / "news", None, clock=lambda: now[0])
            for _ in range(500):
                news.came("10.0.0.1")
                news.went("10.0.0.1")
            states = (NodeState.ONLINE, NodeState.UNREACHABLE)
            for state in states * 50:
                master.engine.event(lambda: master.core.node_state("a", state, None, FACTS))  # noqa: B023
                await settled(lambda: master.engine.is_settled)
            await settled(lambda: len([line for line in lines(tmp_path / "news") if "节点" in line]) == SO_MANY)
            assert len([line for line in lines(tmp_path / "news") if "客户端" in line]) == SO_MANY
            now[0] += IN_S
            news.came("10.0.0.2")
            assert lines(tmp_path / "news")[-2:] == ["另有 990 条类似的消息未列出", "客户端 10.0.0.2 已连接"]
            news.close()

    run(story())


def test_why_a_task_could_not_begin_is_told_where_the_desktop_client_looks(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            news = News(master.engine, tmp_path / "news", None)
            master.online()
            drafts = [Task(id=0, command="true", owner="ann", env=env) for env in ("vison", "", "vision", "", "")]
            tasks = master.engine.client_change(lambda: master.core.submit(drafts, 1.0))
            ends = (
                ("exited", 121, ""), ("not_started", None, "no process\x1b"), ("exited", 3, ""),
                ("not_started", None, "the folder /x does not exist on boss: submit from another"),
                ("log_too_large", 143, "99 bytes in /x/5.log, 9 are allowed"),
            )  # fmt: skip
            for task, (cause, code, error) in zip(tasks, ends, strict=True):
                await settled(lambda: task.allocation)  # noqa: B023
                assert task.allocation
                end = Exit(task.allocation[0].launch_id, cause, 2.0, code, error)
                master.engine.event(lambda: master.core.exited("a", end, 2.0))  # noqa: B023
            await settled(lambda: "日志超过上限" in (tmp_path / "news").read_text(encoding="utf-8"))
            told = [line for line in lines(tmp_path / "news") if "运行失败" in line]
            assert told[0].endswith("运行失败（环境 vison 不存在或无法激活，详情见任务日志）")
            assert told[1].endswith("运行失败（无法启动：no process\\x1b）")
            assert told[2].endswith("运行失败（退出码 3）")
            assert told[3].endswith("运行失败（无法启动：节点 boss 上没有文件夹 /x：请选择各节点共享的文件夹）")
            assert "运行失败（日志超过上限，任务已被终止（99 bytes in /x/5.log, 9 are allowed）" in told[4]
            news.close()

    run(story())


def test_a_node_that_starts_nothing_is_told_once_and_so_is_its_return(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            news = News(master.engine, tmp_path / "news", None)
            master.online()
            drafts = [Task(id=0, command="true", owner="ann") for _ in range(3)]
            tasks = master.engine.client_change(lambda: master.core.submit(drafts, 1.0))
            await settled(lambda: all(task.allocation for task in tasks))
            for task in tasks:
                assert task.allocation
                launch_id = task.allocation[0].launch_id
                refused = Exit(launch_id, "not_started", 2.0, None, "Read-only file system", None, "node")
                master.engine.event(lambda: master.core.exited("a", refused, 2.0))  # noqa: B023
            await settled(lambda: "无法启动任务" in (tmp_path / "news").read_text(encoding="utf-8"))
            master.engine.event(lambda: master.core.resume("a"))
            await settled(lambda: "已恢复" in (tmp_path / "news").read_text(encoding="utf-8"))
            told = [line for line in lines(tmp_path / "news") if "无法启动" in line or "已恢复" in line]
            assert len(told) == 2
            assert "Read-only file system" in told[0]
            news.close()

    run(story())


def test_a_pause_and_its_end_are_news(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            news, core, engine = News(master.engine, tmp_path / "news", None), master.core, master.engine
            engine.client_change(lambda: core.submit([Task(id=0, command="true", owner="ann")], 1.0))
            master.online()
            await settled(lambda: core.tasks[1].allocation)
            launch = core.tasks[1].allocation[0].launch_id
            engine.event(lambda: core.started("a", launch, 2e9, 2e9))
            await settled(lambda: "开始运行" in (tmp_path / "news").read_text(encoding="utf-8"))
            for stands, word in ((True, "已暂停，仍占用其 GPU"), (False, "已继续运行")):
                engine.event(lambda stands=stands: core.stands("a", launch, stands=stands))  # type: ignore[misc]
                await settled(lambda word=word: word in (tmp_path / "news").read_text(encoding="utf-8"))  # type: ignore[misc]
            news.close()

    run(story())
