"""Patterns that are compiled when they are first used."""

from __future__ import annotations

import re

import pytest

from wire.pattern import Pattern


def test_it_finds_what_the_compiled_one_finds() -> None:
    late, compiled = Pattern(r"[a-c](\d)", re.IGNORECASE), re.compile(r"[a-c](\d)", re.IGNORECASE)
    text = "x B1 a2"
    assert late.fullmatch("A7")
    assert late.fullmatch("A7 ") is None
    assert late.match(text) == compiled.match(text) is None
    found = late.search(text)
    assert found is not None
    assert found[1] == "1"
    assert [one[0] for one in late.finditer(text)] == ["B1", "a2"]
    assert late.sub("-", text) == compiled.sub("-", text) == "x - -"


def test_nothing_is_compiled_before_it_is_used() -> None:
    broken = Pattern("(")
    with pytest.raises(re.error, match="missing"):
        broken.match("")
