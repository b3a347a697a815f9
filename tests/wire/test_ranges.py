"""Many ids and many names in one line."""

from __future__ import annotations

import pytest

from wire.ranges import ids_in_short, impersonal, names_in_short, names_of


@pytest.mark.parametrize(
    ("ids", "told"),
    [([], ""), ([7], "7"), ([3, 4, 5, 9], "3-5, 9"), ([9, 3, 4, 4], "3-4, 9"), (range(100, 5001), "100-5000")],
    ids=str,
)
def test_ids_are_folded_into_ranges(ids: list[int], told: str) -> None:
    assert ids_in_short(ids) == told


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([], ""),
        (["a"], "a"),
        (["a1", "a2"], "a1, a2"),
        ([f"a{n}" for n in range(1, 202)], "a[1-201]"),
        ([f"gpu{n:02}" for n in range(1, 21)] + ["big"], "gpu[01-20], big"),
        (["rack1-n1", "rack1-n2", "rack1-n3", "rack2-n4"], "rack1-n[1-3], rack2-n4"),
        (["n1.lab", "n2.lab", "n3.lab"], "n[1-3].lab"),
        (["a8", "a9", "a10"], "a[8-10]"),
        (["a08", "a9", "a10"], "a08, a9, a10"),
        (["a1", "a3", "a2"], "a1, a3, a2"),
        (["1", "2", "3"], "[1-3]"),
        (["节点1", "节点2", "节点3"], "节点[1-3]"),
        (["a²", "a³"], "a², a³"),
    ],
    ids=lambda value: value if isinstance(value, str) else str(len(value)),
)
def test_names_that_count_on_are_folded_and_the_others_stay(names: list[str], told: str) -> None:
    assert names_in_short(names) == told


def test_of_very_many_names_some_are_told_and_the_others_counted() -> None:
    names = ["x", *(f"a{n}" for n in range(1, 11)), "p", "q", "r"]
    assert names_in_short(names, 2) == "x, a[1-10] and 3 more"
    assert names_in_short(names, 5) == "x, a[1-10], p, q, r"
    assert names_in_short([f"{chr(97 + n)}" for n in range(20)], 3) == "a, b, c and 17 more"


@pytest.mark.parametrize(
    ("text", "address", "told"),
    [
        ("10.0.0.1:22 refuses the connection", "10.0.0.1", "it refuses the connection"),
        ("10.0.0.1:22 (as lab) refuses the key", "lab@10.0.0.1:22", "it (as lab) refuses the key"),
        ("[fe80::1]:22 cannot be reached", "fe80::1", "it cannot be reached"),
        ("[fe80::1]:22 cannot be reached", "lab@fe80::1:22", "it cannot be reached"),
        ("节点1 cannot be looked up: no", "节点1", "it cannot be looked up: no"),
        ("proxy 10.0.0.11:1 cannot reach 10.0.0.1:22: no", "10.0.0.1", "proxy 10.0.0.11:1 cannot reach it: no"),
        ("n1.lab.example and n1 are not n1.lab", "n1.lab", "n1.lab.example and n1 are not it"),
        ("connecting", "", "connecting"),
        ("a.b+c:22: the key exchange failed", "a.b+c", "it: the key exchange failed"),
        ("axb+c:22: the key exchange failed", "a.b+c", "axb+c:22: the key exchange failed"),
    ],
)  # fmt: skip
def test_what_is_said_of_a_machine_is_the_same_whatever_its_address(text: str, address: str, told: str) -> None:
    assert impersonal(text, address) == told


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", ["a"]),
        ("a, b ,a1", ["a", "b", "a1"]),
        ("gpu[01-03]", ["gpu01", "gpu02", "gpu03"]),
        ("n[9-11].lab", ["n9.lab", "n10.lab", "n11.lab"]),
        ("gpu[1,3,5-7],big", ["gpu1", "gpu3", "gpu5", "gpu6", "gpu7", "big"]),
    ],
)
def test_names_are_read_as_they_are_told(text: str, names: list[str]) -> None:
    assert names_of(text, 100) == names
    assert names_of(names_in_short(names), 100) == names


@pytest.mark.parametrize(
    "text", ["", "a,", "a[", "a]", "a[]", "a[1", "a[1-]", "a[x]", "a[3-1]", "a[01-3]", "a[1][2]", "a[-1]", "a[²]"]
)
def test_what_stands_for_no_names_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no (name|list|range)"):
        names_of(text, 100)


@pytest.mark.parametrize("text", ["a[0-100]", "a[0-99999999999999]", "a[0-99],b", "a[0-50],b[0-50]"])
def test_no_more_names_are_made_than_may_be(text: str) -> None:
    with pytest.raises(ValueError, match="more than 100 names"):
        names_of(text, 100)
