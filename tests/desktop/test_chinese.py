"""The boxes of the desktop client speak its language: what is asked wrongly, over a real socket."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from master.core.attempts.exhaustion import RAN_OUT, CardUse, ran_out
from master.core.nodes.inventory import NodeSpec
from master.desktop.chinese import HEADS, LONGEST, OTHERWISE, in_chinese, words_in_chinese
from tests.desktop.client import DesktopClient, form
from tests.desktop.place import DesktopPlace, in_loop, with_client
from tests.master.core.small_core import core_with, submit
from wire.agent import RAN_OUT as FINDINGS
from wire.errors import BadRequestError, ConflictError, ForbiddenError, ImpossibleError, MusterError
from wire.message import Message

MAKE = {"mode": "mkdir", "root": "/data/"}
CHINESE = re.compile("[\u4e00-\u9fff]")


@pytest.mark.master
@pytest.mark.parametrize(
    ("mode", "info", "text"),
    [
        ("add_task", form(""), "命令为空：请填写要运行的命令"),
        ("add_task", form("x", slaver="aa"), "节点 aa 不存在，是否为 a？（现有节点：a）"),
        ("add_task", form("x", slaver="nowhere"), "节点 nowhere 不存在（现有节点：a）"),
        ("add_task", form("x", prev="00000000000077"), "前置任务 77 不存在"),
        ("change_task", {**form("x"), "task_id": "00000000000077"}, "任务 77 不存在"),
        ("change_task", {**form("x"), "task_id": "x"}, "'x' 不是任务编号：请等待列表刷新后再试"),
        ("rm_file", "/data", "data 是可见文件夹本身，不能移动或删除"),
        ("rm_file", "/data/full", "文件夹不为空，没有删除：/data/full（Directory not empty）"),
        ("rm_file", "", "没有选中文件或文件夹；主目录本身不能删除"),
        ("rm_file", "/data/..", "没有选中文件或文件夹；主目录本身不能删除"),
        ("rm_file", "/data/nowhere", "文件或文件夹不存在：data/nowhere"),
        ("rm_file", "/etc/passwd", "etc/passwd 不在可见文件夹中（data, envs）"),
        ("file_operate", MAKE | {"name": "full"}, "data/full 已存在：请换一个名字，或先删除它"),
        ("file_operate", MAKE | {"name": ".."}, "'..' 不是有效的名称：不能为空，也不能含有 /"),
        ("save_file", {"path": "/data/full", "content": ""}, "data/full 是文件夹"),
        ("test_env", "a;b", "'a;b' 不是环境名，也不是绝对路径"),
        ("test_env", "plain", "没有在线的节点，无法查询环境"),
    ],
)  # fmt: skip
def test_what_people_do_wrong_is_told_in_chinese(tmp_path: Path, mode: str, info: Any, text: str) -> None:
    def story(client: DesktopClient, _master: DesktopPlace) -> None:
        (tmp_path / "data/full/sub").mkdir(parents=True)
        assert client.ask(mode, info) == text

    with_client(tmp_path, story)


@pytest.mark.master
def test_who_has_taken_their_share_of_the_queue_or_of_its_bytes_is_told_so_in_chinese(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        core = master.core

        def set_limit(name: str, value: int) -> None:
            in_loop(master, lambda: core.tuning.set(name, value, "root", 1.0))

        assert client.ask("add_task", form("sleep 1")) == ""
        set_limit("limits.waiting_tasks", 1)
        assert client.ask("add_task", form("sleep 1")) == "已有 1 个任务在等待，达到上限：请稍后再试"
        in_loop(master, lambda: core.people.add("ann", core.owners()))
        set_limit("limits.waiting_tasks", 3)
        refused = "desktop 已有 1 个任务在等待，再加 1 个会超过上限 1：请等一些任务开始，或停止一些，或联系管理员"
        assert client.ask("add_task", form("sleep 1")) == refused
        set_limit("limits.waiting_tasks", 30)
        set_limit("limits.task_bytes", 1 << 20)
        for _ in range(5):
            assert client.ask("add_task", form("x" * 100_000)) == ""
        assert client.ask("add_task", form("x" * 100_000)).startswith("desktop 未结束的大任务共占 ")
        in_loop(master, lambda: core.tuning.set("limits.user_share", 1, "root", 1.0))
        for _ in range(5):
            assert client.ask("add_task", form("x" * 100_000)) == ""
        assert client.ask("add_task", form("x" * 100_000)).startswith("未结束的大任务共占 ")
        assert client.ask("add_task", form("sleep 1")) == ""

    with_client(tmp_path, story)


@pytest.mark.parametrize("code", sorted(HEADS))
def test_what_nobody_put_into_chinese_keeps_its_words_behind_a_chinese_head(code: str) -> None:
    error = MusterError("some words")
    error.code = code  # type: ignore[misc]
    assert in_chinese(error) == f"{HEADS[code]}：some words"
    assert CHINESE.search(HEADS[code])
    assert in_chinese(MusterError("more")) == f"{OTHERWISE}：more"


def test_states_and_reasons_inside_are_put_into_chinese_too() -> None:
    why = "it is, or holds, the folder of the log of task 7, which is paused"
    told = in_chinese(ConflictError(f"data/x can be neither deleted nor moved: {why}"))
    assert told == "data/x 不能删除或移动：任务 7（已暂停）的日志在其中"
    assert words_in_chinese("what nobody knows") == "what nobody knows"
    outgrown = Message("ended_for_share", node="a", gpu=0, used=15_000, share=8000)
    told = "显存用了 15000 MiB，超过申请的 8000 MiB（节点 a，GPU 0），任务已被终止：请按实际所需申请"
    assert words_in_chinese(str(outgrown)) == told
    few = "it asks for 9 GPUs, but node boss has 1 GPU, nodes a[1-9] have 4 GPUs"
    assert words_in_chinese(few) == "任务需要 9 块 GPU，没有节点有这么多（节点 boss 有 1 块，节点 a[1-9] 各有 4 块）"


@pytest.mark.parametrize("finding", FINDINGS)
@pytest.mark.parametrize("card", [None, CardUse(23, 0, 24), CardUse(12, 11, 24)])
def test_what_a_task_ran_out_of_is_told_in_chinese(finding: str, card: CardUse | None) -> None:
    said = ran_out(finding, 1, card, has_gpus=True)
    if said is not None:
        assert said.key in RAN_OUT
        told = words_in_chinese(str(said))
        assert CHINESE.search(told), told
        assert "退出码 1" in told


def test_what_an_environment_said_is_not_taken_for_the_name_of_its_node() -> None:
    said = "bash: line 2: /lab/bin/activate: No such file or directory"
    told = words_in_chinese(f"torch could not be activated on boss: {said}; see `muster env list`")
    assert told == f"环境 torch 在节点 boss 上无法激活：{said}"


def test_a_text_that_is_made_to_take_long_takes_none() -> None:
    nasty = ": the master's user (" * 100_000
    assert in_chinese(BadRequestError(nasty)) == f"{HEADS['bad_request']}：{nasty}"
    assert len(nasty) > LONGEST
    in_chinese(BadRequestError((": the master's user (" * LONGEST)[:LONGEST]))


def test_whose_quota_forbids_a_task_is_told_in_chinese() -> None:
    beyond = Message("beyond_quota", gpus=8, limit="max_total_gpus", kind="user", name="wang", most=4)
    assert in_chinese(ImpossibleError(beyond)) == (
        "任务需要 8 块 GPU，超过配额（max_total_gpus of user wang = 4）：请减少数量，或联系管理员"
    )
    nothing = Message("nothing_may_run", kind="group", name="nlp")
    assert in_chinese(ImpossibleError(nothing)) == "配额不允许运行任务（max_running of group nlp = 0）：请联系管理员"
    of_group = Message("project_of_group", project="crawl", group="nlp", owner="desktop")
    assert in_chinese(ForbiddenError(of_group)).startswith("项目 crawl 属于组 nlp，您不在其中")


def node(name: str, gpus: int, **more: Any) -> NodeSpec:
    return NodeSpec(name=name, gpu_models=("GPU",) * gpus, **more)


TWO = (node("a", 2), node("b", 2))
MANY = (*(node(f"n{number}", 2) for number in range(3)), *(node(f"m{number}", number + 3) for number in range(9)))
FEW = "节点 m8 有 11 块，节点 m7 有 10 块，节点 m6 有 9 块，另有 7 种情况"


@pytest.mark.parametrize(
    ("specs", "wants", "told"),
    [
        (TWO, {"gpus": 64}, "任务需要 64 块 GPU，没有节点有这么多（节点 a、b 各有 2 块）"),
        (
            (*TWO, node("c", 4)),
            {"gpus": 64},
            "任务需要 64 块 GPU，没有节点有这么多（节点 c 有 4 块，节点 a、b 各有 2 块）",
        ),
        (TWO, {"gpus": 64, "node": "a"}, "任务需要节点 a 的 64 块 GPU，该节点没有这么多（节点 a 有 2 块）"),
        (
            TWO,
            {"gpus": 64, "share": True, "gpu_memory_mib": 9},
            "任务需要 64 块 GPU（每块 9 MiB），没有节点能满足（节点 a、b 各有 2 块）",
        ),
        (
            TWO,
            {"gpus": 64, "share": True, "gpu_memory_mib": 9, "node": "a"},
            "任务需要节点 a 的 64 块 GPU（每块 9 MiB），该节点不能满足（节点 a 有 2 块）",
        ),
        (
            MANY,
            {"gpus": 64},
            f"任务需要 64 块 GPU，没有节点有这么多（{FEW}）",
        ),
    ],
)  # fmt: skip
def test_what_no_node_can_do_is_told_in_one_language(
    specs: tuple[NodeSpec, ...], wants: dict[str, Any], told: str
) -> None:
    with pytest.raises(ImpossibleError) as refused:
        submit(core_with(*specs), **wants)
    assert in_chinese(refused.value) == told
    assert not re.search("[a-z]{2,}", told), "a word of the other language"


def test_what_nobody_put_into_chinese_of_several_nodes_is_left_out_of_the_sentence() -> None:
    for error in ("it asks for 4 GPUs, but node a is odd", "it asks for 4 GPUs, but node a is odd, node b has 1 GPU"):
        told = in_chinese(ImpossibleError(error))
        assert "odd" not in told
        assert told.startswith("任务需要 4 块 GPU，没有节点有这么多（")
        assert ("节点 b 有 1 块" in told) is ("b has" in error)
        assert ("muster nodes" in told) is ("b has" not in error)
