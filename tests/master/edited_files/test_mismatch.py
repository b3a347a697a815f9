"""What is said of a value that has not the type it should have."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest

from master.edited_files.mismatch import describe


class Place(msgspec.Struct, forbid_unknown_fields=True):
    """Something inside."""

    node: str
    gpus: list[int] = []


class Wish(msgspec.Struct, forbid_unknown_fields=True):
    """Something with a key of each kind."""

    name: Annotated[str, msgspec.Meta(max_length=5)] = ""
    count: int | None = None
    way: Literal["short", "long"] = "short"
    places: list[Place] = []
    token: int = 0


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"name": "a long one"}, 'name: found "a long one", expected a text in quotes of length <= 5'),
        ({"count": "three"}, 'count: found "three", expected a whole number or null'),
        ({"way": "far"}, 'way: found "far", expected "long" or "short"'),
        ({"plces": []}, "unknown key `plces` (did you mean `places`?); allowed are name, count, way, places, token"),
        ({"places": [{"node": "a"}, {}]}, "places[1]: the key `node` is missing"),
        ({"places": [{"node": "a", "gpus": [0, "1"]}]}, 'places[0].gpus[1]: found "1", expected a whole number'),
        ({"token": "secret"}, "token: found something else (not shown), expected a whole number"),
        ({"count": list(range(100))}, "count: found a list […] with 100 entries, expected a whole number or null"),
        ([], "found [], expected an object {…}"),
    ],
)
def test_key_what_was_found_and_what_is_allowed(value: Any, said: str) -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert(value, Wish)
    assert describe(str(raised.value), value, Wish) == said


def test_a_value_of_megabytes_is_told_in_a_line() -> None:
    value = {"count": "x" * 10_000_000}
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert(value, Wish)
    assert len(describe(str(raised.value), value, Wish)) < 200
