"""Whose a place is: which of the rules holds for it, and who may see what lies under it."""

from __future__ import annotations

from typing import Any

import pytest

from master.files.owners import Kind, Owners, Sight, Who

LAB: dict[str, Kind] = {"data": "all", "data/{user}": "own", "data/groups/{group}": "group"}
ANN, BOB = Who("ann"), Who("bob", frozenset({"vision"}))
ROOT = Who("root", sees_all=True)


def sight(who: Who, rules: Any = None) -> Sight:
    found = Owners(LAB if rules is None else rules).sight(who)
    assert found is not None
    return found


def place(path: str) -> tuple[bytes, ...]:
    return tuple(path.encode().split(b"/"))


@pytest.mark.parametrize(
    ("path", "ann", "bob"),
    [
        ("data", True, True),
        ("data/ann", True, False),
        ("data/ann/deep/down", True, False),
        ("data/bob/x", False, True),
        ("data/groups", True, True),
        ("data/groups/vision", False, True),
        ("data/groups/vision/x", False, True),
        ("data/groups/nlp/x", False, False),
        ("data/readme", False, False),
        ("data/ANN", False, False),
        ("data/ann ", False, False),
        ("envs/ann", True, True),
        ("database/bob", True, True),
    ],
)
def test_the_longest_rule_that_holds_for_a_place_says_whose_it_is(path: str, ann: bool, bob: bool) -> None:  # noqa: FBT001
    assert sight(ANN).has(place(path)) is ann
    assert sight(BOB).has(place(path)) is bob


def test_an_admin_sees_everything_and_so_does_everybody_where_nothing_is_said() -> None:
    assert Owners(LAB).sight(ROOT) is None
    assert Owners({}).sight(ANN) is None
    assert Owners().sight(Who()) is None


def test_a_group_is_no_user_and_a_user_no_group() -> None:
    assert not sight(Who("vision")).has(place("data/groups/vision/x"))
    assert not sight(Who("x", frozenset({"ann"}))).has(place("data/ann/x"))


def test_nobody_owns_nothing() -> None:
    assert not sight(Who()).has((b"data", b"", b"x"))
    assert not sight(Who()).has(place("data/ann"))


RULES: dict[str, Kind] = {
    "data/{user}": "own",
    "data/{user}/public": "all",
    "data/ann/shown": "all",
    "data/projects/{group}/{user}": "own",
    "data/./pool/": "all",
}


@pytest.mark.parametrize(
    ("path", "ann", "bob"),
    [
        ("data/ann/x", True, False),
        ("data/ann/public/x", True, True),
        ("data/ann/publicity", True, False),
        # A longer rule for a folder of somebody opens nothing else of hers.
        ("data/ann", True, False),
        ("data/ann/shown", True, True),
        ("data/ann/hidden", True, False),
        ("data/projects/vision/ann", True, False),
        ("data/projects/vision", True, True),
        ("data/pool/x", True, True),
    ],
)
def test_rules_within_rules(path: str, ann: bool, bob: bool) -> None:  # noqa: FBT001
    assert sight(ANN, RULES).has(place(path)) is ann
    assert sight(BOB, RULES).has(place(path)) is bob


def test_the_folder_in_which_each_has_his_own_is_nobodys_and_nothing_in_it_is_everybodys() -> None:
    groups = Who("groups")
    assert sight(ANN).has(place("data/groups"))
    assert not sight(groups).has(place("data/groups/readme"))
    assert sight(ANN, {"data/{user}/{group}": "group"}).has(place("data/x"))


def test_of_two_rules_as_long_the_one_with_more_names_holds() -> None:
    rules: dict[str, Kind] = {"data/{user}/x": "own", "data/ann/{group}": "group"}
    assert not sight(ANN, rules).has(place("data/ann/x"))
    assert sight(Who("bob", frozenset({"x"})), rules).has(place("data/ann/x"))


@pytest.mark.parametrize(
    ("path", "differs"),
    [("data", True), ("data/groups", True), ("data/groups/vision", False), ("data/ann", False), ("envs", False)],
)
def test_which_folders_may_hold_what_somebody_does_not_see_follows_from_the_rules_alone(
    path: str,
    differs: bool,  # noqa: FBT001
) -> None:
    assert sight(BOB).may_differ_in(place(path)) is differs


def test_names_from_the_root_are_those_beneath_the_labs_folder_and_others_have_no_rules() -> None:
    seen = sight(ANN).from_slash("/srv/lab")
    assert seen.has(place("srv/lab/data/ann/x"))
    assert not seen.has(place("srv/lab/data/bob/x"))
    assert seen.has(place("srv/other/data/bob/x"))
    assert seen.has(place("data/bob/x"))


def test_of_one_folder_somebody_else_says_whose_what_lies_there_is() -> None:
    seen = sight(BOB).from_slash("/srv/lab", but="/srv/lab/data/task_logs")
    assert seen.has(place("srv/lab/data/task_logs/1.log"))
    assert not seen.has(place("srv/lab/data/task_logs2"))
    assert not seen.has(place("srv/lab/data/ann/x"))
