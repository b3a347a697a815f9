"""The lines of `muster top`: every one as wide as the screen, legible without colour, telling what matters first."""

from __future__ import annotations

from typing import Any

import pytest

from client.live import once
from client.live.gpus import gpus_of
from client.live.state import State
from client.text import cells
from client.text.cells import text_of
from client.text.columns import fit, width, wrapped
from client.top import frame, node_lines, pages, task_lines
from client.top.view import View, node_rows
from tests.client.fake_master import task
from tests.client.top_cluster import GIB, gpu, message, node, running, sample, sampled, state_of

BOB = {"pid": 9, "user": "bob", "memory_mib": 1, "launch_id": ""}
SIZES = (40, 60, 80, 100, 120, 160, 200, 300)


@pytest.fixture
def lab() -> State:
    """One node of each kind."""
    nodes = [
        node("训练机-甲", [
            gpu(0, held_by=[1]), gpu(1, held_by=[1]), gpu(2),
            gpu(3, health="used by bob (pid 9)", foreign=[{"pid": 9, "user": "bob", "memory_mib": 1}]),
            gpu(4, health="2 uncorrectable ECC errors"),
        ], tasks=[1]),
        node("b", 8, state="unreachable", schedulable=False, reason="no route to host"),
        node("c", 0),
    ]  # fmt: skip
    tasks = [
        running(1, "训练机-甲", [0, 1], name="大模型预训练", owner="王小明"),
        task(2, gpus=4, node="b", reason="needs 4 GPUs on node b: b: unreachable (no route to host)"),
        task(3, "held", name="later\x1b[31m"),
    ]
    figures = [sampled(0, 97.4, 40 * GIB), sampled(1, 3.0, 79 * GIB), sampled(2, 0.0, 0)]
    return state_of(nodes, tasks, sample("训练机-甲", *figures, sampled(3, 55.0, 20 * GIB, processes=[BOB])))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("packing", ["all", "packed"])
def test_every_line_is_as_wide_as_the_screen(lab: State, size: int, packing: str) -> None:
    view = View()
    view.gpus = packing
    lines = [frame.row_line(lab, row, size, packed=packing == "packed") for row in node_rows(lab, view, 0)]
    lines += [task_lines.task_line(one, size, 2000.0) for one in lab.tasks.values()]
    lines.append(frame.headline(lab, "lab:63005", size, 2000.0))
    assert {cells.size_of(line) for line in lines} == {size}
    assert all(text_of(line).isprintable() for line in lines)


def gpu_lines(state: State, name: str, size: int) -> list[str]:
    return [text_of(node_lines.gpu_line(one, size)) for one in gpus_of(state.nodes[name], state)]


def test_a_gpu_on_a_narrow_screen(lab: State) -> None:
    first, second, free, others, ill = gpu_lines(lab, "训练机-甲", 80)
    assert first.startswith(" #  0 ██████  97%  ███░░░ 40.0/80G  60°C  1 王小明 大模型预训练")
    assert second.startswith(" #  1 ░░░░░░   3%  ██████ 79.0/80G")
    assert free.rstrip().endswith("free")
    assert others.startswith(" ~  3 ")
    assert others.rstrip().endswith("used by bob (pid 9)")
    assert ill.rstrip().endswith("2 uncorrectable ECC errors")
    assert ill.startswith(" !  4 -         -  -         -/80G ")


def test_somebody_who_may_not_be_named_is_called_others() -> None:
    machine = node("a", [gpu(0, health="used by others", condition="busy", utilization=9.0)])
    view = View()
    view.gpus = "packed"
    state = state_of([machine], [])
    (row,) = node_rows(state, view, 0)
    assert "~others" in text_of(frame.row_line(state, row, 200, packed=True))


def test_a_wide_screen_has_room_for_model_and_power(lab: State) -> None:
    first = gpu_lines(lab, "训练机-甲", 200)[0]
    assert "A100" in first
    assert "60°C  300W" in first
    assert "████████████████  97%" in first


def test_packed_gpus_tell_marks_and_levels_and_who_has_them(lab: State) -> None:
    machine = lab.nodes["训练机-甲"]
    narrow = text_of(node_lines.node_line(machine, lab, 80, packed=True))
    assert narrow.startswith("训练机-甲 online       25%  50% #█▅ #▁█ ·▁▁ ~▅▃ !    王小明 2; GPU 3")
    wide = text_of(node_lines.node_line(machine, lab, 200, packed=True))
    assert "#王小明   97%▅" in wide
    assert "~bob      55%▃" in wide
    assert "!aside" in wide


def test_many_gpus_on_a_narrow_screen_are_marks() -> None:
    machine = node("a", [gpu(index, held_by=[1] if index % 2 else []) for index in range(16)])
    state = state_of([machine], [running(1, "a", [])])
    assert "·#" * 8 + " ada 8" in text_of(node_lines.node_line(state.nodes["a"], state, 60, packed=True))


def test_a_node_tells_for_which_task_its_gpus_are_kept() -> None:
    kept = {"task": 24, "gpus": [0, 1], "expected_at": None}
    machine = node("a", [gpu(0, held_by=[1]), gpu(1)], reservation=kept)
    state = state_of([machine], [running(1, "a", [0])])
    told = [text_of(node_lines.node_line(state.nodes["a"], state, 120, packed=packed)) for packed in (True, False)]
    assert "ada 1; reserved for task 24" in told[0]
    assert "1 of 2 GPUs free, 0 tasks, slots 0/64, reserved for task 24" in told[1]


def test_an_ill_node_says_why_instead(lab: State) -> None:
    line = text_of(node_lines.node_line(lab.nodes["b"], lab, 80, packed=True))
    assert "unreachable    -    - " in line
    assert line.rstrip().endswith("no route to ho…")
    assert "no route to host" in text_of(node_lines.node_line(lab.nodes["b"], lab, 120, packed=True))


@pytest.mark.parametrize(("offset", "told"), [(-90.0, "clock 90 s behind"), (2.5, "clock 2 s ahead"), (1.5, None)])
@pytest.mark.parametrize("size", [80, 160])
def test_a_node_whose_clock_is_off_says_so_beside_who_is_there(size: int, offset: float, told: str | None) -> None:
    state = state_of([node("a", 1, clock_offset_s=offset)], [])
    line = text_of(node_lines.node_line(state.nodes["a"], state, size, packed=True))
    assert ("clock" in line) == (told is not None)
    assert told is None or told in line
    ill = state_of([node("a", 1, clock_offset_s=offset, reason="drained: a fan")], [])
    told_ill = text_of(node_lines.node_line(ill.nodes["a"], ill, size, packed=True))
    assert "drained: a fan" in told_ill
    assert ("clock" in told_ill) == (told is not None)


@pytest.mark.parametrize("size", [80, 160])
@pytest.mark.parametrize("packed", [True, False])
def test_a_node_that_keeps_users_out_says_so(size: int, packed: bool) -> None:  # noqa: FBT001
    for whose, is_told in (("admins", True), ("everybody", False), ("opened", False), (None, False)):
        state = state_of([node("a", 1, own_account=whose), node("b", 1, own_account=whose, state="connecting")], [])
        said = [text_of(node_lines.node_line(state.nodes[name], state, size, packed=packed)) for name in "ab"]
        assert ["admins' tasks only" in line for line in said] == [is_told, False]


def test_a_node_without_gpus_tells_its_slots(lab: State) -> None:
    assert "no GPU, 0 tasks, slots 0/64" in text_of(node_lines.node_line(lab.nodes["c"], lab, 80, packed=True))


def test_a_task_tells_where_it_runs_or_why_it_does_not(lab: State) -> None:
    runs, waits, held = (text_of(task_lines.task_line(one, 100, 1065.0)) for one in lab.tasks.values())
    assert "训练机-甲:0…" in runs
    assert " 1m05s " in runs
    assert "b 4 GPUs" in waits
    assert "b: unreachable (no route to host)" in waits, "what it needs stands in its column"
    assert "later\\x1b[31m" in held or "later\\x1b[" in held


def test_which_of_an_array_a_task_is_has_a_column_where_there_is_room_and_one_is_of_an_array() -> None:
    third: Any = {**running(15, "a", [0], name="n"), "array": {"id": 12, "index": 3}}
    first: Any = running(1, "a", [])
    assert task_lines.has_arrays([first, third])
    assert not task_lines.has_arrays([first, None])
    for size, is_there in ((120, True), (200, True), (80, False)):
        assert ("ARRAY" in task_lines.head(size, arrays=True)) is is_there
        assert ("12/3 " in text_of(task_lines.task_line(third, size, 2000.0, arrays=True))) is is_there
    assert "ARRAY" not in task_lines.head(200)


def test_of_a_task_on_several_nodes_each_is_told_and_what_is_asked_of_each() -> None:
    both: Any = running(1, "a", [0, 1], name="n")
    both["allocation"] = [{"node": "a", "gpus": [0, 1]}, {"node": "b", "gpus": [0, 1]}]
    assert "a,b:0-1 " in text_of(task_lines.task_line(both, 120, 2000.0))
    both["allocation"][1]["gpus"] = [2]
    assert "a:0-1; b:2 " in text_of(task_lines.task_line(both, 120, 2000.0))
    asks: list[dict[str, Any]] = [
        {"gpus": 4, "nodes": 2},
        {"gpus": 0, "nodes": 2},
        {"gpus": 1, "gpus_max": 4},
        {"gpus": 1},
        {"gpus": 0},
    ]
    asks += [{"gpus": 2, "node_list": ["n1", "n2", "n3"]}, {"gpus": 1, "nodes": 2, "gpus_on": {"a": [0], "b": [1]}}]
    told = ["2x4 GPUs", "2 nodes", "1-4 GPUs", "1 GPU ", "no GPU", "n[1-3] 2 GPUs", "a,b 2x1 GPUs"]
    lines = [text_of(task_lines.task_line(task(2, **one), 120, 2000.0)) for one in asks]  # type: ignore[arg-type]
    assert all(part in line for part, line in zip(told, lines, strict=True)), lines


def test_a_gpu_on_which_tasks_share_tells_how_many_they_are() -> None:
    shared = state_of([node("a", [gpu(0, held_by=[1, 2, 3])])], [running(one, "a", [0], name="n") for one in (1, 2, 3)])
    [line] = gpu_lines(shared, "a", 120)
    assert "1 " in line
    assert "n, and 2 tasks more" in line


def test_a_task_that_is_watched_with_suspicion_says_so() -> None:
    odd: Any = running(1, "a", [0], name="n", warning="its GPU has idled for 30m")
    assert "its GPU has idled" in text_of(task_lines.task_line(odd, 100, 2000.0))
    assert "warning:     its GPU has idled for 30m" in pages.task_page(odd, 2000.0)


def test_a_task_that_is_being_ended_says_so() -> None:
    line = text_of(task_lines.task_line(running(1, "a", [0], cancel_requested=True), 80, 2000.0))  # type: ignore[arg-type]
    assert "ending" in line


@pytest.mark.parametrize("size", SIZES)
def test_the_titles_stand_over_their_columns(size: int) -> None:
    line = text_of(task_lines.task_line(running(1, "a", [0], name="n"), size, 2000.0))  # type: ignore[arg-type]
    head = task_lines.head(size)
    for title, content in (("STATE", "running"), ("OWNER", "ada")):
        assert line.index(content) == head.index(title)


def test_the_headline_tells_the_cluster_and_a_lost_master_on_any_screen(lab: State) -> None:
    line = text_of(frame.headline(lab, "lab:63005", 120, 2000.0))
    assert "lab:63005  3 nodes (1 ill)  GPUs 2/13 held, 1 others', 1 aside  1 run, 1 wait, 1 held" in line
    assert line.endswith("● live")
    lab.take(message("lost", {"feed": "tasks", "why": "refused"}), 1000.0)
    for size in (60, 80, 200):
        assert text_of(frame.headline(lab, "x", size, 1042.0)).endswith("✗ NO MASTER for 42s, trying again")


def test_the_headline_tells_of_the_users_share_of_the_queue_from_half_of_it_on(lab: State) -> None:
    share: Any = {"waiting": 49, "most_waiting": 100, "bytes": 1, "most_bytes": 1 << 30}
    for size in (80, 120):
        plain = text_of(frame.headline(lab, "x", size, 2000.0, "ann"))
        assert text_of(frame.headline(lab, "x", size, 2000.0, "ann", share=share)) == plain
    much: Any = {**share, "waiting": 50_000, "most_waiting": 100_000}
    assert "ann at x  yours 50,000/100,000  3 nodes" in text_of(frame.headline(lab, "x", 120, 2.0, "ann", share=much))
    assert text_of(frame.headline(lab, "x", 60, 2.0, "ann", share=much)).startswith("yours 50,000/100,000  3 nodes")
    large: Any = {**share, "bytes": 1 << 29}
    assert "yours 512M/1.0G  3 nodes" in text_of(frame.frame(lab, "x", 120, 2000.0, share=large)[0])


def test_a_whole_frame_ends_with_how_much_is_left_out(lab: State) -> None:
    lab.take(message("tasks", [task(number + 1) for number in range(60)]), 0.0)
    lines = [text_of(line).rstrip() for line in frame.frame(lab, "lab:63005", 100, 2000.0)]
    assert lines[-1] == "… and 10 more: muster queue --limit 0"
    assert lines[2].startswith("NODE      STATE")
    assert max(map(width, lines)) <= 100


def test_the_state_as_one_document(lab: State) -> None:
    document = once.document(lab)
    assert [one["name"] for one in document["nodes"]] == ["训练机-甲", "b", "c"]
    assert (document["nodes"][0]["sample"]["cpu_percent"], document["nodes"][1]["sample"]) == (25.0, None)
    assert [one["id"] for one in document["tasks"]] == [1, 2, 3]


def test_a_row_whose_node_or_gpu_has_just_gone_is_no_defect(lab: State) -> None:
    assert "is gone" in text_of(frame.row_line(lab, ("z", None), 40, packed=True))
    assert "gone" in text_of(frame.row_line(lab, ("c", 5), 40, packed=True))


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (cells.bar(None, 3), "-  "),
        (cells.bar(150.0, 4), "████"),
        (cells.bar(50.0, 4), "██░░"),
        (cells.level(100.0), "█"),
        (cells.level(-3.0), "▁"),
        (cells.percent_text(7.4), "  7%"),
        (cells.memory_text(None, 1024.0), "-/1G"),
        (fit("大模型", 4), "大… "),
        (fit("ab", 4, right=True), "  ab"),
        (wrapped("大模型ab", 4), ["大模", "型ab"]),
        (wrapped("", 4), [""]),
        (wrapped("大", 1), ["大"]),
    ],
)
def test_the_small_pieces(made: Any, expected: Any) -> None:
    assert made == expected


def test_pages_tell_what_is_known_and_nothing_acts_on_the_terminal(lab: State) -> None:
    parts = [{"node": "训练机-甲", "gpus": [0]}]
    tried = {
        "no": 1,
        "parts": parts,
        "started_at": 1.0,
        "ended_at": 2.0,
        "exit_code": 3,
        "reason": None,
        "asked_end": None,
    }
    odd: Any = {**lab.tasks[1], "name": "x\x1b[2J", "attempts": [tried]}
    shown = pages.task_page(odd, 1065.0)
    assert shown.splitlines()[-1].split()[:3] == ["1", "训练机-甲", "0"]
    assert shown.endswith("exit code 3")
    assert "name:        x\\x1b[2J" in shown
    assert "runs on:     训练机-甲, GPU 0,1" in shown
    assert "runs for:    1m05s" in shown
    more = {"labels": {"room": "2"}, "drained_by": None, "drained_at": None, "user_name": "lab", "port": 22}
    page = {**lab.nodes["训练机-甲"], **more}
    assert "GPUs aside:  3: used by bob (pid 9); 4: 2 uncorrectable" in pages.node_page(page)  # type: ignore[arg-type]
    assert pages.node_why(lab.nodes["b"]).startswith("node b: no route to host")
    lab.nodes["b"]["mismatch"] = "GPU 0 is no A100"
    assert "\n  GPU 0 is no A100" in pages.node_why(lab.nodes["b"])
    why: Any = {"id": 2, "state": "waiting", "reason": "full", "blocked_by": [1], "details": ["a: 0 of 8 GPUs free"]}
    assert pages.why_page(why).splitlines() == [
        "task 2 (waiting): full", "  a: 0 of 8 GPUs free",
    ]  # fmt: skip
    assert max(map(width, pages.help_page().splitlines())) <= 76
