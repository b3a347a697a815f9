"""How much of the GPUs is given out: what is read of a trace, what the rules choose, and nothing is given twice."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import pytest

from bench.packing import NODES, RULES, TASKS, main, read, replay
from bench.packing_rules import Ask, Cluster, Left, best_fit, best_fit_by_gpus, choices, first_fit, fragmentation

HALF, WHOLE, PAIR, NONE = Ask(4, 4, 1, 500), Ask(4, 4, 1, 1000), Ask(8, 8, 2, 1000), Ask(4, 4, 0, 0)
EMPTY = Left(32, 64, (1000, 1000))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Five nodes with eleven GPUs, and what is asked of them."""
    nodes = [
        "n0,32000,65536,2,P100",
        "n1,32000,65536,4,T4",
        "n2,16000,65536,2,T4",
        "n3,64000,65536,2,A10",
        "n4,8000,65536,1,A10",
    ]
    wishes = ["4000,4096,1,500,", "4000,4096,1,1000,", "8000,8192,2,1000,", "6000,4096,0,0,", "2000,1024,1,300,T4|A10"]
    asked = [f"p{at},{wish},LS,Running,0,0,0" for at, wish in zip(range(24), cycle(wishes), strict=False)]
    head = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
    )
    (tmp_path / NODES).write_text("\n".join(["sn,cpu_milli,memory_mib,gpu,model", *nodes, ""]), encoding="utf-8")
    (tmp_path / TASKS).write_text("\n".join([head, *asked, ""]), encoding="utf-8")
    return tmp_path


def test_what_is_read_of_a_trace_is_what_there_is_and_what_is_asked_for(trace: Path) -> None:
    nodes, asked = read(trace)
    assert nodes[1] == Left(32_000, 65_536, (1000,) * 4, "T4")
    assert asked[4] == Ask(2000, 1024, 1, 300, ("T4", "A10"))
    assert (len(nodes), len(asked), asked[3].gpu_total, asked[2].gpu_total) == (5, 24, 0, 2000)


@pytest.mark.parametrize("name", RULES)
def test_whatever_the_rule_no_more_is_given_out_than_there_is_and_the_same_order_gives_the_same(
    trace: Path, name: str
) -> None:
    read_in = read(trace)
    first = replay(read_in, RULES[name](read_in), 42, (0.2, 3.0))
    assert first == replay(read_in, RULES[name](read_in), 42, (0.2, 3.0))
    assert 20 <= first[0] < first[1] <= 100, "while there is room for all, all get theirs"
    assert first[1] > 60


def test_a_share_is_had_of_a_gpu_that_has_so_much_left_the_tightest_first() -> None:
    left = Left(32, 64, (300, 600, 1000))
    assert [one.gpus for one in choices(left, HALF)] == [(100, 300, 1000), (300, 500, 600)]
    assert [one.gpus for one in choices(left, WHOLE)] == [(0, 300, 600)]
    assert choices(left, PAIR) == choices(Left(3, 64, (1000,)), HALF) == choices(Left(32, 3, (1000,)), HALF) == []
    assert choices(left, HALF._replace(models=("T4",))) == []
    assert choices(left, NONE) == [Left(28, 60, (300, 600, 1000))]


def test_best_fit_takes_the_fullest_node_and_first_fit_the_first() -> None:
    nodes = [EMPTY, Left(16, 16, (0, 1000))]
    first, best = Cluster(nodes, first_fit), Cluster(nodes, best_fit(nodes))
    assert all((first.place(WHOLE), best.place(WHOLE)))
    assert best.place(PAIR), "a whole node is left for it"
    assert not first.place(PAIR)


def test_fragmentation_is_what_the_tasks_to_come_cannot_use() -> None:
    rule = fragmentation([HALF, WHOLE])
    into_rest, into_whole = choices(Left(32, 64, (500, 1000)), HALF)
    assert rule(Left(32, 64, (500, 1000)), into_rest) == -250, "the half that half of the tasks could not use is used"
    assert rule(Left(32, 64, (500, 1000)), into_whole) == 250, "and here another one is left"
    assert rule(Left(7, 64, (1000, 1000)), Left(3, 64, (0, 1000))) == 1000, "of no use without CPUs"


def test_the_command_shows_each_rule_and_says_where_the_trace_is_to_be_had(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(trace), "--seeds", "1"]) == 0
    shown = capsys.readouterr().out
    assert all(f"{name}, 130% asked for" in shown for name in RULES)
    assert main([str(tmp_path / "nowhere")]) == 1
    assert "github.com/alibaba/clusterdata" in capsys.readouterr().err


def test_best_fit_by_gpus_takes_the_fewest_gpus_left_and_of_equals_the_fewest_cpus() -> None:
    nodes = [Left(64, 64, (1000, 1000)), Left(64, 64, (1000,)), Left(8, 64, (1000,))]
    rule = best_fit_by_gpus(nodes)
    assert sorted(nodes, key=lambda left: rule(left, left)) == [nodes[2], nodes[1], nodes[0]]
