"""The framing: frames come out whole however they were cut, and nothing that is not strict JSON comes out at all."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.calls import bytes_read_by, instructions_of
from wire.framing import (
    MAX_DEPTH,
    FrameError,
    LineDecoder,
    _check_depth,
    _no_duplicates,
    encode,
    has_more_values,
    strict_loads,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=5), st.lists(st.integers(0, 400), max_size=6))
def test_frames_survive_being_cut_anywhere(values: list[object], cuts: list[int]) -> None:
    stream = b"".join(encode(value) for value in values)
    decoder, got = LineDecoder(1 << 20), []
    borders = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    for begin, end in itertools.pairwise(borders):
        got += decoder.feed(stream[begin:end])
    assert [strict_loads(frame) for frame in got] == values
    assert decoder.pending == 0


def test_a_frame_beyond_the_cap_is_refused_before_it_is_whole() -> None:
    decoder = LineDecoder(10)
    with pytest.raises(FrameError) as refused:
        decoder.feed(b"x" * 11)
    assert refused.value.fatal
    assert decoder.pending == 0


def test_a_frame_that_grows_beyond_the_cap_piece_by_piece_is_refused() -> None:
    decoder = LineDecoder(10)
    assert decoder.feed(b"12345678") == []
    with pytest.raises(FrameError):
        decoder.feed(b"9012\n")


def test_empty_lines_are_no_frames() -> None:
    assert LineDecoder(10).feed(b"\n\r\n1\n") == [b"1"]


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (b'{"a":1,"a":2}', "twice"),
        (b'{"a":NaN}', "NaN"),
        (b'{"a":-Infinity}', "Infinity"),
        (b'{"a":1e400}', "out of range"),
        (b'{"a":"\xff"}', "UTF-8"),
        ('{"a":1}'.encode("utf-16"), "UTF-8"),
        (b"[" * 1000 + b"]" * 1000, "nested"),
        (b'{"a":', "not JSON"),
        (b"", "not JSON"),
    ],
)
def test_what_is_not_strict_json_is_refused_with_the_reason(frame: bytes, says: str) -> None:
    with pytest.raises(FrameError, match=says):
        strict_loads(frame)


def test_brackets_inside_strings_are_not_depth() -> None:
    text = "[{" * MAX_DEPTH + '"\\'
    assert strict_loads(json.dumps([text]).encode()) == [text]


def too_deep(text: str) -> bool:
    """What `_check_depth` is to find, looked for one character at a time. At a backslash outside of a string it ends:
    there it is no JSON any more."""
    depth = 0
    in_string = escaped = False
    for char in text:
        if in_string:
            in_string = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == "\\":
            return False
        elif char == '"':
            in_string = True
        elif char in "[]{}":
            depth += 1 if char in "[{" else -1
            if depth > MAX_DEPTH:
                return True
    return False


RUNS = st.tuples(
    st.sampled_from(["[", "{", "]", "}", "[]", '"', '""', '["', "\\", '\\"', "x", "字", ","]), st.integers(1, 70)
)


@given(
    st.lists(RUNS, max_size=30).map(lambda runs: "".join(piece * count for piece, count in runs)), st.integers(0, 20)
)
def test_depth_is_found_as_if_one_character_was_looked_at_after_the_other(text: str, times: int) -> None:
    # Several pieces long, and cut by none of them at the same place.
    text = '[],"]",' * (times * 1000) + text
    if "\\" in text and not too_deep(text) and backslash_outside(text):
        return
    try:
        _check_depth(text.encode())
        found = False
    except FrameError:
        found = True
    assert found is too_deep(text)


def backslash_outside(text: str) -> bool:
    in_string = escaped = False
    for char in text:
        if in_string:
            in_string = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == "\\":
            return True
        else:
            in_string = char == '"'
    return False


@pytest.mark.parametrize(
    "piece",
    [b"[],", b"[" * 60 + b"]" * 60, b'"[",', b'"\\\\",', b"[[]],{},", b'"",', b"]"],
    ids=["empty", "deep", "texts", "backslashes", "mixed", "no text", "closed"],
)
def test_a_frame_of_nothing_but_brackets_holds_nobody_up(piece: bytes) -> None:
    """A loop over the brackets takes more than ten instructions for each, which is seconds at 16 MiB."""
    frame = b"[" + piece * ((1 << 17) // len(piece)) + b"]"
    _check_depth(frame)  # makes its tables
    assert instructions_of(lambda: _check_depth(frame)) < 4 * len(frame)
    assert bytes_read_by(lambda: _check_depth(frame)) < 8 * len(frame)


def test_a_key_that_stands_twice_among_many_is_found_at_once() -> None:
    frame = b"{" + b",".join(b'"%d":1' % number for number in range(200_000)) + b',"199999":1}'
    with pytest.raises(FrameError, match=r"199999.*twice"):
        strict_loads(frame)


class Key(str):
    """A key that counts how often one is compared with another."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Key.compared += 1
        return str.__eq__(self, other)


def test_a_key_is_not_compared_with_all_the_others() -> None:
    pairs: list[tuple[str, Any]] = [(Key(number), 1) for number in range(1000)]
    pairs.append((Key(999), 1))
    Key.compared = 0
    with pytest.raises(FrameError, match="'999' stands twice"):
        _no_duplicates(pairs)
    assert 0 < Key.compared < 10, "only those that are alike"


@given(
    st.recursive(
        st.integers() | st.text('[{,"\\\\}]: ', max_size=8),
        lambda one: st.lists(one) | st.dictionaries(st.text('[,"\\\\'), one),
    )
)
def test_values_are_counted_as_the_parser_finds_them(value: object) -> None:
    def beginnings(one: object) -> int:
        inner = list(one.values()) if isinstance(one, dict) else one if isinstance(one, list) else None
        return 0 if inner is None else 1 + max(0, len(inner) - 1) + sum(map(beginnings, inner))

    frame, count = encode(value), beginnings(value)
    assert has_more_values(frame, count - 1)
    assert not has_more_values(frame, count)
