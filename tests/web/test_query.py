"""What stands in a query becomes the JSON that a verb takes there."""

from __future__ import annotations

from typing import Any

import pytest

from web.query import typed, typed_one
from web.rest import Document
from wire.errors import BadRequestError

TASKS = Document().takes("task.list")


@pytest.mark.parametrize(
    ("pairs", "params"),
    [
        ([("limit", "3"), ("ended", "true"), ("active", "0")], {"limit": 3, "ended": True, "active": False}),
        ([("states", "failed,lost"), ("states", "waiting")], {"states": ["failed", "lost", "waiting"]}),
        ([("ids", "1,2")], {"ids": [1, 2]}),
        ([("since", "1.5"), ("search", "12")], {"since": 1.5, "search": "12"}),
        ([("user", "null")], {"user": None}),
        ([("states", "")], {"states": []}),
    ],
)
def test_texts_become_what_the_verb_takes(pairs: list[tuple[str, str]], params: dict[str, Any]) -> None:
    assert typed(pairs, TASKS) == params


@pytest.mark.parametrize("pairs", [[("colour", "red")], [("limit", "1"), ("limit", "2")]])
def test_what_nothing_takes_is_refused(pairs: list[tuple[str, str]]) -> None:
    with pytest.raises(BadRequestError):
        typed(pairs, TASKS)


@pytest.mark.parametrize("text", ["nan", "inf", "1e999", "0x10", "1_000", "٣", ""])
def test_a_text_that_is_no_number_of_json_stays_a_text_for_the_master_to_refuse(text: str) -> None:
    assert typed_one(text, {"type": "number"}) == text
    assert typed_one(text, {"type": "integer"}) == text
