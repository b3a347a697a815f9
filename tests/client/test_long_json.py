"""Long answers are read and written by another hand than short ones, and nobody can tell."""

from __future__ import annotations

import json
from typing import Any

import pytest

from client import long_json

ROWS: list[Any] = [
    {
        "id": 2**63 + 7,
        "at": 1795357077.7171829,
        "name": '大模型 "a"\\b',
        "odd": "\x7f\x9b\u2028\U0001f600\n\t\x01",
        "is": True,
    },
    {"id": -1, "at": 1e300, "none": None, "nested": {"a": [[], {}, [0, 0.5]], "": ""}},
]


@pytest.mark.parametrize("count", [1, 2 * long_json.MANY])
def test_what_is_written_is_read_back_whatever_its_length(count: int) -> None:
    rows = ROWS * count
    written = long_json.dumps(rows)
    assert "\n" not in written
    assert json.loads(written) == rows
    assert long_json.loads(written.encode()) == rows


def test_a_long_list_is_written_and_read_without_pythons_own_json(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"id": number, "command": "x" * 3000} for number in range(2 * long_json.MANY)]

    def slow(*_: object, **__: object) -> None:
        raise AssertionError("a long one")

    monkeypatch.setattr(json, "dumps", slow)
    monkeypatch.setattr(json, "loads", slow)
    assert long_json.loads(long_json.dumps(rows).encode()) == rows


@pytest.mark.parametrize("broken", [b'{"id":1', b'{"id":"\xff"}', b"no JSON"])
@pytest.mark.parametrize("size", [0, long_json.LONG])
def test_a_broken_one_is_told_alike(broken: bytes, size: int) -> None:
    with pytest.raises(ValueError, match=r"."):
        long_json.loads(b" " * size + broken)
