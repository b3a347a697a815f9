"""Which layer a test has, read from a table."""

from __future__ import annotations

import pytest

from tests.runner.layers import LayersError, read

TABLE = """
# a comment
tests real
tests/wire unit
tests/wire/test_server.py master
fixture lab real
fixture storm storm
"""


@pytest.mark.parametrize(
    ("path", "layer"),
    [
        ("tests/wire/test_framing.py", "unit"),
        ("tests/wire/test_server.py", "master"),
        ("tests/wired/test_framing.py", "real"),
        ("elsewhere/test_new.py", "real"),
    ],
)
def test_the_longest_path_decides_and_what_has_no_line_is_real(path: str, layer: str) -> None:
    assert read(TABLE).of(path) == layer


def test_a_fixture_or_a_mark_moves_a_test_to_a_later_layer_and_never_to_an_earlier_one() -> None:
    layers = read(TABLE)
    assert layers.of("tests/wire/test_framing.py", ["tmp_path", "lab"]) == "real"
    assert layers.of("tests/wire/test_framing.py", ["lab", "storm"]) == "storm"
    assert layers.of("tests/wire/test_framing.py", [], ["master"]) == "master"
    assert layers.of("tests/system/test_chaos.py", [], ["master"]) == "real"


@pytest.mark.parametrize("line", ["tests/wire", "tests/wire quick", "fixture lab", "fixtures lab real", "a b c unit"])
def test_a_line_that_cannot_be_read_is_refused_and_quoted(line: str) -> None:
    with pytest.raises(LayersError, match=line):
        read(line)


def test_a_second_line_for_the_same_path_is_refused() -> None:
    with pytest.raises(LayersError, match="'tests/wire' has two lines"):
        read("tests/wire unit\ntests/wire real")
