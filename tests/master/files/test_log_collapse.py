"""Of each line what its last carriage return left, wherever the pieces are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.files.log_collapse import MAX_OPEN, collapse, visible

BAR = b"epoch 1\n\r  0%\r 50%\r100%\nepoch 2\r\n\r  0%\r 25%"
LOGS = st.lists(st.sampled_from([b"\r", b"\n", b"\r\n", b"a", b"bc", b"\r\r", b"\xff"]), max_size=30).map(b"".join)


def in_pieces(log: bytes, cuts: list[int]) -> tuple[bytes, bytes]:
    """Collapse a log that comes in pieces, each time only what was not decided with what is new."""
    lines, rest, offset = b"", b"", 0
    borders = [0, *sorted({min(cut, len(log)) for cut in cuts}), len(log)]
    for begin, end in pairwise(borders):
        done = collapse(rest + log[begin:end], offset)
        lines, rest, offset = lines + done.lines, done.rest, done.offset
        assert log[offset:end] == rest, "reading on from the offset must give the same"
    return lines, rest


def test_progress_bars_become_one_line_each() -> None:
    done = collapse(BAR, 1000)
    assert done.lines == b"epoch 1\n100%\nepoch 2\n"
    assert visible(done.rest) == b" 25%"
    assert done.offset == 1000 + len(BAR) - 4


@pytest.mark.parametrize(
    ("log", "lines", "rest"),
    [
        (b"", b"", b""),
        (b"\n\n", b"\n\n", b""),
        (b"plain\nlog", b"plain\n", b"log"),
        (b"done\r\r\n", b"done\n", b""),
        (b"10%\r", b"", b"10%"),
        (b"10%\r\r", b"", b"10%"),
        (b"\r", b"", b""),
        (b"a\rb\r\rc\n", b"c\n", b""),
    ],
)
def test_small_cases(log: bytes, lines: bytes, rest: bytes) -> None:
    done = collapse(log, 0)
    assert (done.lines, visible(done.rest)) == (lines, rest)


@given(LOGS, st.lists(st.integers(0, 60)))
def test_it_does_not_matter_where_the_pieces_end(log: bytes, cuts: list[int]) -> None:
    lines, rest = in_pieces(log, cuts)
    whole = collapse(log, 0)
    assert (lines, visible(rest)) == (whole.lines, visible(whole.rest))


@given(LOGS)
def test_it_is_what_a_line_by_line_reading_says(log: bytes) -> None:
    expected = []
    for line in log.split(b"\n"):
        states = [state for state in line.split(b"\r") if state]
        expected.append(states[-1] if states else b"")
    done = collapse(log, 0)
    assert done.lines + visible(done.rest) == b"\n".join(expected)


def test_a_line_that_never_ends_is_passed_on() -> None:
    done = collapse(b"x" * (MAX_OPEN + 1), 0)
    assert (len(done.lines), done.rest, done.offset) == (MAX_OPEN + 1, b"", MAX_OPEN + 1)
