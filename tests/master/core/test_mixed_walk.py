"""Everything in one lab: shares, reservations, gangs, retries, quotas, pauses, clocks and crashes, in any order."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.master.core.mixed_walk import told, walk
from tests.walks import CASES, IN_TIME

pytestmark = IN_TIME


GROWN = (
    b"\x10\x8d\x9a\x94>c\x88\xb2\xe2\xea\rJ\x9f\xa6\xaeZ[sD\x0f\xfc\xf1\x10\xfb\x90/\x01\x17\xa2\xf1\x1e\xce\x15WW\xc2"
)
"""An allocation got more GPUs, and who waited within did not start before something else happened."""
EDITED = (
    b"\x18\x00\x01\x00\x00\x07\x00\x00\x00\x1c\x00\x00\x00\x1d\x00\x00\xc5\x00\x00\xa6\x02\x00\x00\x00\x00\n\x00\xee\x01/"
    b"\x00u\x00\x00-\x02"
)
"""An allocation that was over is edited, to ask for shares of GPUs too, and got more GPUs."""
AGAIN = (
    b"\x00\x00\x00\x00\x08\x00\x00\x5a\x00\x00\x00\xa3\xbc\x00\x00\x23\x00\x00\xb0\x00\x00\x24\x01\x00\x00"
    b"\x00\x00\x00\x02\x00\x00\x78\x01\x07\x00\x00\x00\x00\x08\x00\x00\x42\x23\x00\x00\x00\x4e\x01"
)
"""Samples tell of GPUs, then of none, then of the same again, for which somebody waits by now."""


@settings(max_examples=CASES)
@example(GROWN)
@example(EDITED)
@example(AGAIN)
@given(st.binary(min_size=30, max_size=120))
def test_whatever_comes_together_nothing_is_overcommitted_nobody_idles_and_no_crash_changes_what_was_told(
    text: bytes,
) -> None:
    walk(text)


@settings(max_examples=max(50, CASES // 20))
@given(st.binary(min_size=30, max_size=120))
def test_the_same_input_has_the_same_output(text: bytes) -> None:
    assert told(walk(text).core) == told(walk(text).core)
