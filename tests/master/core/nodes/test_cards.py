"""The GPUs of one node in a look ahead: it is all the same when somebody looks at them one by one."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from master.core.nodes.cards import Cards, GpuTerms
from master.core.nodes.gpu_watch import GpuReport, Holder
from master.core.nodes.node import Node, NodeSpec
from tests.walks import some

MIB, GPUS = 24_000, 4
ASKED = (None, GpuTerms(memory_mib=8_000, share=True), GpuTerms(models=("A100",)), GpuTerms(memory_mib=20_000))
Held = tuple[int, int | None]


def node_with(holders: list[Held]) -> tuple[Node, list[Held]]:
    """A node on which tasks hold GPUs, whole or so many MiB; and those of them for which there was room. Of GPU 3 a
    stranger uses some."""
    node = Node(NodeSpec(name="a", gpu_models=("A100", "A100", "V100", "A100"), gpu_memory_mib=(MIB,) * GPUS))
    held = []
    for task, (gpu, mib) in enumerate(holders, 1):
        there = node.gpu_holders.get(gpu, {})
        if not there or (mib is not None and None not in there.values()):
            node.hold_gpus([gpu], task, mib)
            held.append((gpu, mib))
    reports = [GpuReport(gpu, memory_total_mib=MIB, memory_used_mib=0) for gpu in range(GPUS - 1)]
    stranger = GpuReport(3, memory_total_mib=MIB, memory_used_mib=3_000, processes=(Holder(9, "eve", 3_000),))
    node.kept_back = node.watch.look([*reports, stranger], GPUS, node.gpu_holders, 1.0).kept_back
    node.count_free()
    return node, held


def found(cards: Cards) -> list[object]:
    """All that anybody may find of them."""
    chosen = [cards.chosen(amount, (), terms) for terms in ASKED for amount in (1, 2)]
    cards.cards()
    return [*chosen, cards.chosen(1, (0,), None), list(cards.whole), cards.what_matters()]


@settings(max_examples=some(500))
@example(holders=[(0, 5_000), (0, 9_000), (1, None)], ended=[True] * 9, is_taken_from=False)
@example(holders=[(0, 5_000), (0, 9_000), (1, None)], ended=[False, *[True] * 8], is_taken_from=True)
@example(
    holders=[(0, None), (1, None), (2, None), (3, None)], ended=[False, False, False, *[True] * 6], is_taken_from=False
)
@given(
    holders=st.lists(st.tuples(st.integers(0, GPUS - 1), st.sampled_from([None, 5_000, 9_000])), max_size=8),
    ended=st.lists(st.booleans(), min_size=9, max_size=9),
    is_taken_from=st.booleans(),
)
def test_gpus_that_were_given_back_are_the_same_whether_anybody_had_looked_at_each_before(
    *, holders: list[Held], ended: list[bool], is_taken_from: bool
) -> None:
    node, held = node_with(holders)
    late, early = Cards(node), Cards(node)
    early.cards()
    for cards in (late, early):
        if is_taken_from and cards.whole:
            cards.take(cards.whole[:1], None)
        for (gpu, mib), is_over in zip(held, ended, strict=False):
            if is_over:
                cards.give_back([gpu], mib)
        if ended[-1] and cards.whole:
            cards.take(cards.whole[-1:], None)
    assert late.whole == early.whole
    assert found(late) == found(early)


def test_a_gpu_that_a_stranger_uses_too_and_that_its_task_goes_on_with_is_shared_with_nobody() -> None:
    node, _ = node_with([(3, None)])
    cards = Cards(node)
    cards.give_back([3], None)
    assert 3 not in cards.whole
    assert cards.chosen(1, (3,), ASKED[1]) == [3]
    cards.take([3], None)
    assert cards.chosen(1, (3,), ASKED[1]) is None
