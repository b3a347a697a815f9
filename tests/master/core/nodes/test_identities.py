"""An entry keeps its machine from another entry that says its ids: over a gap in the registry, over a time under
another id, and from machines of one image."""

from __future__ import annotations

from itertools import count, product

import msgspec
import pytest

from master.core.core import Core
from master.core.nodes.inventory import Facts, NodeSpec
from tests.cases import each_case
from tests.master.core.entries import comes, goes, restarted
from tests.master.core.small_core import core_with, submit
from wire.message import Message


def by_ssh(name: str, address: str = "") -> NodeSpec:
    return NodeSpec(name=name, address=f"user@{address or name}:22", gpu_models=("GPU",) * 8)


GOOD, EVIL, THIRD = by_ssh("good"), by_ssh("evil"), by_ssh("third")
IDS = Facts(boot_id="boot-1", state_id="state-1", cpus=4, memory_mib=1000, machine="m1")
OWN = msgspec.structs.replace(IDS, machine="m2", boot_id="boot-2")
ANEW = msgspec.structs.replace(IDS, machine="m9")
"""The honest machine with a machine id that was made anew."""
CLAIM = Message("machine_is", node="good", name="evil")


def ids(boot: str) -> Facts:
    """The honest node's machine id, in this boot."""
    return msgspec.structs.replace(IDS, boot_id=boot)


def heard(core: Core, name: str) -> None:
    core.node_load(name, None, 0.0)


def lab(*specs: NodeSpec) -> Core:
    """Both are there as what they are, and have said so."""
    core = core_with(*(specs or (GOOD, EVIL)), online=False)
    assert comes(core, "good", IDS) is comes(core, "evil", OWN) is None
    return core


def keeps(core: Core, honest: str = "good", liar: str = "evil") -> None:
    """The honest node reboots, the liar is the first to say the new boot, and gives it back; nor does it get a boot
    that the honest one said first."""
    for boot in ("boot-6", "boot-7"):
        goes(core, honest)
        goes(core, liar)
        comes(core, liar, ids(boot))
        assert comes(core, honest, ids(boot)) is None
        assert core.inventory.nodes[honest].takes_tasks
        assert not core.inventory.nodes[liar].takes_tasks
        goes(core, liar)
        assert comes(core, liar, ids(boot)) == Message("machine_is", node=honest, name=liar)


def next_master(core: Core, when: str, *specs: NodeSpec) -> Core:
    return restarted(core, *(specs or (GOOD, EVIL))) if when == "over a restart" else core


WHEN = pytest.mark.parametrize("when", ["while the master runs", "over a restart"])


@WHEN
@pytest.mark.parametrize("said", ["another boot", "its boot"])
def test_an_entry_that_was_removed_and_added_again_keeps_its_machine(when: str, said: str) -> None:
    core = lab()
    core.set_nodes((EVIL,))
    goes(core, "evil")
    assert comes(core, "evil", ids("invented") if said == "another boot" else IDS) is None
    core = next_master(core, when, EVIL)
    core.set_nodes((GOOD, EVIL))
    assert comes(core, "good", IDS) is None
    assert core.inventory.nodes["good"].takes_tasks
    keeps(next_master(core, when))


def test_an_entry_that_is_added_again_under_another_name_keeps_its_machine() -> None:
    core = lab()
    core.set_nodes((EVIL,))
    assert comes(core, "evil", ids("invented")) is None
    core.set_nodes((EVIL, by_ssh("again", "good")))
    assert comes(core, "again", IDS) is None
    keeps(core, "again")


def test_an_entry_without_an_address_that_is_added_again_is_known_by_its_name() -> None:
    far = NodeSpec(name="good", gpu_models=("GPU",) * 8)
    core = lab(far, EVIL)
    core.set_nodes((EVIL,))
    assert comes(core, "evil", ids("invented")) is None
    core.set_nodes((far, EVIL))
    assert comes(core, "good", IDS) is None
    keeps(core)


def test_an_entry_that_is_there_again_is_taken_by_no_new_one_before_it_has_said_anything() -> None:
    core = lab(GOOD, EVIL, THIRD)
    core.set_nodes(())
    core.set_nodes((GOOD, EVIL, THIRD))
    assert comes(core, "third", IDS) == Message("machine_is", node="good", name="third")
    assert comes(core, "evil", IDS) == CLAIM
    assert comes(core, "good", IDS) is None


def test_a_machine_that_got_a_new_entry_while_its_old_one_was_away_stays_with_the_new_one() -> None:
    core, new = lab(), by_ssh("new", "10.0.0.9")
    core.set_nodes((EVIL, new))
    assert comes(core, "new", IDS) is None
    core.set_nodes((GOOD, EVIL, new))
    assert comes(core, "good", IDS) == Message("machine_is", node="new", name="good")
    assert comes(core, "new", IDS) is None
    assert comes(core, "good", IDS) is not None


@WHEN
@pytest.mark.parametrize("said", ["another boot", "its boot"])
def test_an_entry_that_had_another_id_for_a_while_keeps_the_one_it_returns_to(when: str, said: str) -> None:
    core = lab()
    assert comes(core, "good", ANEW) is None
    goes(core, "evil")
    assert comes(core, "evil", ids("invented") if said == "another boot" else IDS) is None
    core = next_master(core, when)
    assert comes(core, "good", IDS) is None
    assert core.inventory.nodes["good"].takes_tasks
    keeps(next_master(core, when))


def test_an_entry_that_returns_to_its_id_after_a_reboot_keeps_that_boot() -> None:
    core = lab()
    assert comes(core, "good", msgspec.structs.replace(ANEW, boot_id="boot-4")) is None
    assert comes(core, "evil", ids("boot-5")) is None
    assert comes(core, "good", ids("boot-5")) is None
    assert not core.inventory.nodes["evil"].takes_tasks


def test_an_entry_that_gave_an_id_up_does_not_take_it_from_the_new_entry_that_has_it_since() -> None:
    core = core_with(GOOD, EVIL, online=False)
    assert comes(core, "evil", IDS) is None
    assert comes(core, "good", IDS) == Message("machine_is", node="evil", name="good")
    assert comes(core, "evil", OWN) is None
    assert comes(core, "good", IDS) is None
    assert comes(core, "evil", IDS) == CLAIM
    assert comes(core, "good", ids("boot-3")) is None
    assert comes(core, "evil", ids("boot-3")) == CLAIM


@WHEN
def test_who_was_refused_at_first_sight_does_not_keep_the_next_boot(when: str) -> None:
    core = core_with(GOOD, EVIL, online=False)
    assert comes(core, "good", IDS) is None
    assert comes(core, "evil", IDS) == CLAIM
    assert comes(core, "good", ids("boot-3")) is None
    assert comes(core, "evil", ids("invented")) is None, "it may be another machine of the same image"
    heard(core, "good")
    core = next_master(core, when)
    assert comes(core, "good", ids("boot-3")) is None
    keeps(core)


def test_who_says_a_new_boot_while_the_other_seems_to_be_there_in_the_old_one_gives_it_back() -> None:
    core = core_with(GOOD, EVIL, online=False)
    assert comes(core, "good", IDS) is None
    heard(core, "good")
    assert comes(core, "evil", ids("boot-3")) is None, "nobody has noticed yet that good reboots"
    goes(core, "good")
    assert comes(core, "good", ids("boot-3")) is None
    assert not core.inventory.nodes["evil"].takes_tasks


def test_that_a_third_entry_was_seen_beside_the_liar_does_not_help_it() -> None:
    core = core_with(GOOD, THIRD, EVIL, online=False)
    assert comes(core, "good", IDS) is None
    assert comes(core, "third", ids("boot-30")) is None
    goes(core, "good")
    assert comes(core, "evil", ids("boot-3")) is None
    heard(core, "third")
    assert comes(core, "third", ids("boot-30")) is None
    assert comes(core, "good", ids("boot-3")) is None
    assert comes(core, "evil", ids("boot-3")) == CLAIM


@WHEN
def test_machines_of_one_image_that_were_there_together_take_nothing_from_each_other(when: str) -> None:
    core = core_with(EVIL, GOOD, online=False)
    assert comes(core, "evil", ids("boot-2")) is comes(core, "good", IDS) is None
    heard(core, "evil")
    for boot in ("boot-1", "boot-3"):
        assert comes(core, "good", ids(boot)) is None
        heard(core, "evil")
        goes(core, "evil")
        assert comes(core, "good", ids(boot)) is None
        goes(core, "good")
        core = next_master(core, when, EVIL, GOOD)
        assert comes(core, "evil", ids(boot)) == CLAIM
        assert comes(core, "evil", ids("boot-2")) is None
        assert comes(core, "good", ids(boot)) is None


def test_who_takes_an_id_that_was_anothers_gives_way_to_each_entry_that_began_with_it() -> None:
    core = lab()
    core.set_nodes((EVIL,))
    assert comes(core, "evil", ids("invented")) is None
    core.set_nodes((EVIL, by_ssh("moved", "10.0.0.9")))
    assert comes(core, "moved", IDS) is None
    keeps(core, "moved")


def test_who_said_an_id_before_its_node_was_first_seen_takes_no_boot_from_it() -> None:
    core = lab(GOOD, EVIL, THIRD)
    new = msgspec.structs.replace(IDS, machine="m3", boot_id="boot-30")
    assert comes(core, "evil", msgspec.structs.replace(new, boot_id="invented")) is None, "nobody had it yet"
    assert comes(core, "third", new) is None
    goes(core, "third")
    assert comes(core, "evil", new) == Message("machine_is", node="third", name="evil")
    assert comes(core, "third", new) is None


@WHEN
def test_a_new_entry_for_a_machine_that_has_another_id_for_a_while_keeps_it(when: str) -> None:
    core = lab(GOOD, EVIL, THIRD)
    assert comes(core, "good", ANEW) is None
    core = next_master(core, when, GOOD, EVIL, THIRD)
    assert comes(core, "third", IDS) is None
    assert comes(core, "good", IDS) == Message("machine_is", node="third", name="good")
    assert comes(core, "third", IDS) is None


def test_an_entry_that_took_anothers_id_is_told_until_it_says_one_of_its_own() -> None:
    core = lab(GOOD, EVIL, THIRD)
    assert core.late_machine("evil") is core.late_machine("good") is core.late_machine("nobody") is None
    assert comes(core, "evil", ids("invented")) is None
    assert core.late_machine("evil") == Message("machine_changed", node="good", name="evil")
    assert core.late_machine("good") is None
    core = restarted(core, GOOD, EVIL, THIRD)
    assert core.late_machine("evil") is not None
    assert comes(core, "third", ids("boot-30")) is None, "its first id: a machine of the same image"
    assert core.late_machine("third") is None
    assert comes(core, "evil", OWN) is None
    assert core.late_machine("evil") is None


def test_entries_of_the_masters_own_machine_that_got_another_id_took_nobodys() -> None:
    core = core_with(NodeSpec(name="a"), NodeSpec(name="b"), online=False)
    for facts in (IDS, ANEW):
        assert comes(core, "a", facts) is comes(core, "b", facts) is None
    assert core.late_machine("a") is core.late_machine("b") is None


def test_a_new_address_leads_to_the_machine_that_was_known_there() -> None:
    core = lab(GOOD, EVIL, THIRD)
    other = msgspec.structs.replace(IDS, machine="m3", boot_id="boot-30")
    assert comes(core, "third", other) is None
    core.set_nodes((GOOD, EVIL))
    core.set_nodes((by_ssh("good", "third"), EVIL))
    core.forget_facts("good")
    assert comes(core, "evil", other) == CLAIM
    assert comes(core, "good", other) is None
    assert core.late_machine("good") is None
    core.set_nodes((by_ssh("good", "third"), EVIL, by_ssh("back", "good")))
    assert comes(core, "evil", IDS) == Message("machine_is", node="back", name="evil")


def test_an_address_that_changed_while_no_master_ran_holds_the_old_machine_no_longer() -> None:
    core = restarted(lab(), by_ssh("good", "elsewhere"), EVIL, by_ssh("old", "good"))
    assert comes(core, "old", IDS) is None


def test_an_entry_that_left_with_tasks_is_the_same_machine_for_the_next_master() -> None:
    core = lab()
    submit(core, gpus=1, node="good")
    core.plan(0.0)
    core = restarted(core, EVIL)
    assert comes(core, "evil", IDS) == Message("machine_was", node="good")


def test_what_is_kept_of_entries_and_ids_that_come_and_go_is_bounded() -> None:
    core = lab()
    numbers = count()
    for number in numbers:
        comes(core, "good", msgspec.structs.replace(IDS, machine=f"x{number}"))
        core.set_nodes((GOOD, EVIL, one := by_ssh(f"n{number}")))
        comes(core, one.name, msgspec.structs.replace(IDS, machine=f"y{number}", boot_id=f"y{number}"))
        if number == 1100:
            break
    core.set_nodes((GOOD, EVIL))
    images = tuple(by_ssh(f"image{number}") for number in range(70))
    core.set_nodes((GOOD, EVIL, *images))
    for one in images:
        comes(core, one.name, msgspec.structs.replace(IDS, machine="image", boot_id=one.name))
    for one in images:
        heard(core, one.name)
    outcome = core.take_outcome()
    assert outcome is not None
    state = {name: piece for name, piece in outcome.change.state.items() if bytes(piece) != b"null"}
    assert len([name for name in state if name.startswith("machine_left:")]) == 1000
    assert len(bytes(state["machine:good"])) < 1000
    beside = [msgspec.json.decode(piece).get("beside", ()) for name, piece in state.items() if ":image" in name]
    assert max(map(len, beside)) == 64
    assert comes(core, "evil", IDS) is None
    assert comes(core, "good", IDS) is None, "its first id is remembered"
    assert not core.inventory.nodes["evil"].takes_tasks


def test_two_entries_of_one_machine_stay_two_names_of_it_after_a_gap_in_the_registry() -> None:
    core, twin = core_with(GOOD, by_ssh("twin"), online=False), by_ssh("twin")
    assert comes(core, "good", IDS) is None
    assert comes(core, "twin", IDS) is not None
    core.set_nodes(())
    core.set_nodes((GOOD, twin))
    assert comes(core, "twin", IDS) is not None
    assert comes(core, "good", IDS) is None


def tell(core: Core, what: str) -> None:
    """Let one thing happen: to the honest entry, or the liar says `what`."""
    if what == "removed a while":
        core.set_nodes((EVIL,))
        comes(core, "evil", ids("invented-2"))
    if what in ("removed", "removed a while"):
        core.set_nodes((EVIL,))
        core.set_nodes((GOOD, EVIL))
    elif what == "another id":
        comes(core, "good", ANEW)
    elif what == "reboots":
        goes(core, "good")
        comes(core, "good", ids("boot-4"))
    elif what == "is heard":
        heard(core, "good")
    else:
        comes(core, "evil", OWN if what == "own" else ids(what))


def is_possible(walk: tuple[str, ...]) -> bool:
    """Nobody can know the id of a boot before it begins, and from then on the machine is in no earlier one."""
    in_an_earlier_boot = {"boot-4": ("is heard", "another id"), "boot-6": ("is heard", "another id", "reboots")}
    for index, said in enumerate(walk):
        following = walk[index + 1 :]
        if said == "boot-4" and "reboots" in following:
            following = following[: following.index("reboots")]
        if "reboots" not in walk[:index] and any(one in following for one in in_an_earlier_boot.get(said, ())):
            return False
        if said == "boot-6" and any(one in following for one in in_an_earlier_boot[said]):
            return False
    return True


def test_an_honest_node_is_served_whatever_happened_in_three_steps_before() -> None:
    steps = (
        "removed", "removed a while", "another id", "reboots", "is heard",
        "own", "boot-1", "boot-4", "invented", "boot-6",
    )  # fmt: skip
    with each_case() as cases:
        for walk in filter(is_possible, product(steps, repeat=3)):
            with cases.case(", ".join(walk)):
                core = lab()
                for what in walk:
                    tell(core, what)
                for boot in ("boot-6", "boot-7"):
                    goes(core, "good")
                    comes(core, "evil", ids(boot))
                    assert comes(core, "good", ids(boot)) is None
                    comes(core, "evil", ids(boot))
                    assert core.inventory.nodes["good"].takes_tasks
