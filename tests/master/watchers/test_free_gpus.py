"""What has fallen free, by what was seen of the nodes: told together, once, and not for what nobody knows."""

from __future__ import annotations

from master.core.core import Core
from master.core.nodes.inventory import NodeState
from master.core.nodes.node import NodeSpec
from master.watchers.free_gpus import EVERY_S, FreeGpus, free_and_taken
from tests.master.core.small_core import BOOT, EIGHT, core_with, submit
from wire.message import Message

ALL = frozenset(range(8))


def seen(**nodes: tuple[set[int], set[int]]) -> FreeGpus:
    gpus = FreeGpus()
    look(gpus, **nodes)
    return gpus


def look(gpus: FreeGpus, **nodes: tuple[set[int], set[int]]) -> None:
    for name, (free, taken) in nodes.items():
        gpus.seen(name, frozenset(free), frozenset(taken))


def test_what_was_taken_and_is_free_is_told_once_and_what_is_free_at_first_is_not() -> None:
    gpus = seen(a=({0, 1}, {2, 3}))
    assert gpus.due_at is None
    look(gpus, a=({0, 1, 2, 3}, set()))
    assert gpus.tell(5.0) == {"a": [2, 3]}
    assert gpus.count == 4
    assert gpus.due_at is None
    assert gpus.tell(5.0 + EVERY_S) == {}


def test_what_falls_free_soon_after_is_told_together_at_its_time() -> None:
    gpus = seen(a=(set(), {0, 1}), b=(set(), {0}))
    look(gpus, a=({0}, {1}))
    assert gpus.tell(100.0) == {"a": [0]}
    look(gpus, a=({0, 1}, set()))
    look(gpus, b=({0}, set()))
    assert gpus.due_at == 100.0 + EVERY_S
    assert gpus.tell(99.0 + EVERY_S) == {}
    assert gpus.tell(100.0 + EVERY_S) == {"a": [1], "b": [0]}


def test_what_is_taken_again_before_it_was_told_is_not_told() -> None:
    gpus = seen(a=(set(), {0, 1}))
    look(gpus, a=({0, 1}, set()))
    look(gpus, a=({1}, {0}))
    assert gpus.tell(1.0) == {"a": [1]}


def test_what_was_held_between_two_looks_has_fallen_free() -> None:
    gpus = seen(a=({0, 1}, set()))
    gpus.took("a", {1})
    look(gpus, a=({0, 1}, set()))
    assert gpus.tell(1.0) == {"a": [1]}


def test_while_nobody_knows_it_is_as_it_was() -> None:
    gpus = seen(a=({0}, {1}))
    look(gpus, a=(set(), set()))
    assert gpus.count == 0
    look(gpus, a=({0}, {1}))
    assert gpus.due_at is None
    look(gpus, a=({0, 1}, set()))
    look(gpus, a=(set(), set()))
    assert gpus.due_at is None
    look(gpus, a=({0, 1}, set()))
    assert gpus.tell(1.0) == {"a": [1]}


def test_a_node_that_left_tells_nothing() -> None:
    gpus = seen(a=(set(), {0}))
    look(gpus, a=({0}, set()))
    gpus.gone("a")
    assert gpus.due_at is None
    assert gpus.count == 0


def sorted_out(core: Core) -> tuple[frozenset[int], frozenset[int]]:
    hold = core.holds.get("a")
    return free_and_taken(core.node("a"), () if hold is None else hold.gpus)


def test_free_is_what_nobody_holds_on_a_node_that_takes_tasks() -> None:
    core = core_with(EIGHT)
    assert sorted_out(core) == (ALL, frozenset())
    submit(core, gpus=3)
    core.plan(1.0)
    assert sorted_out(core) == (ALL - {0, 1, 2}, {0, 1, 2})
    core.cordon("a", "folders", Message("folders_looked_at"))
    assert sorted_out(core) == (frozenset(), {0, 1, 2})  # of the others nobody knows for now


def test_a_node_that_somebody_drained_has_none_free_and_one_that_is_away_says_nothing() -> None:
    core = core_with(EIGHT)
    core.cordon("a", "drained", Message("leaving"))
    assert sorted_out(core) == (frozenset(), ALL)
    core.cordon("a", "drained", None)
    core.node_state("a", NodeState.UNREACHABLE, None, BOOT)
    assert sorted_out(core) == (frozenset(), frozenset())


def test_before_a_sample_tells_of_a_gpu_nobody_knows_and_one_that_is_aside_is_taken() -> None:
    core = core_with(NodeSpec(name="a", gpu_models=("GPU",) * 2))
    core.gpus_expected("a")
    assert sorted_out(core) == (frozenset(), frozenset())
    core.gpus_unseen("a")
    core.set_aside("a", 1, "broken")
    assert sorted_out(core) == ({0}, {1})


def test_what_is_kept_for_one_who_waits_is_not_free() -> None:
    core = core_with(EIGHT)
    submit(core, gpus=2)
    core.plan(1.0)
    core.force(submit(core, gpus=8).id)
    core.plan(2.0)
    assert sorted_out(core) == (frozenset(), ALL)
