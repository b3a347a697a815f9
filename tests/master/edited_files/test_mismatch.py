"""What is said of a value that has not the type it should have."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import msgspec
import pytest

from master.edited_files.mismatch import explain
from tests.faults import wrong
from wire.message import Message


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


COUNT = Message("one_of_texts", texts=(Message("whole_number"), "null"))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            {"name": "a long one"},
            wrong("name", found='"a long one"', expected=Message("of_length", what=Message("a_text"), bound="<= 5")),
        ),
        ({"count": "three"}, wrong("count", found='"three"', expected=COUNT)),
        ({"way": "far"}, wrong("way", found='"far"', expected=Message("one_of_texts", texts=('"long"', '"short"')))),
        (
            {"plces": []},
            Message(
                "unknown_key_but",
                where="", key="plces", meant="places", known=("name", "count", "way", "places", "token"),
            ),
        ),
        ({"places": [{"node": "a"}, {}]}, Message("missing_key", where="places[1]", key="node")),
        (
            {"places": [{"node": "a", "gpus": [0, "1"]}]},
            wrong("places[0].gpus[1]", found='"1"', expected=Message("whole_number")),
        ),
        ({"token": "secret"}, wrong("token", found=Message("not_shown"), expected=Message("whole_number"))),
        (
            {"count": list(range(100))},
            wrong("count", found=Message("with_entries", what=Message("a_list"), count=100), expected=COUNT),
        ),
        ([], wrong("", found="[]", expected=Message("an_object"))),
    ],
)  # fmt: skip
def test_key_what_was_found_and_what_is_allowed(value: Any, said: Message) -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert(value, Wish)
    assert explain(str(raised.value), value, Wish) == said


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (str, 1, "a text in quotes"),
        (bool, 1, "true or false"),
        (dict[str, int], 1, "an object {…}"),
        (list[int], 1, "a list […]"),
        (Annotated[float, msgspec.Meta(ge=0.5)], 0.1, "a number >= 0.5"),
        (Annotated[str, msgspec.Meta(min_length=2)], "a", "a text in quotes of length >= 2"),
        (Annotated[str, msgspec.Meta(pattern="^x")], "a", "a text in quotes matching regex '^x'"),
        (int | str | None, 1.5, "a whole number or a text in quotes or null"),
    ],
)
def test_what_is_allowed_is_told_in_words(kind: Any, value: Any, expected: str) -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert(value, kind)
    assert str(explain(str(raised.value), value, kind)) == str(wrong("", found=json.dumps(value), expected=expected))


def test_a_value_of_megabytes_is_told_in_a_line() -> None:
    value = {"count": "x" * 10_000_000}
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert(value, Wish)
    assert len(str(explain(str(raised.value), value, Wish))) < 200
