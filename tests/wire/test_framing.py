"""The framing: frames come out whole however they were cut, and nothing that is not strict JSON comes out at all."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.framing import MAX_DEPTH, FrameError, LineDecoder, encode, strict_loads

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
