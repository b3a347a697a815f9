"""File names survive the wire whatever bytes they have, and no two look the same."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.names import to_bytes, to_text


@given(st.binary())
def test_every_name_comes_back_and_fits_into_json(name: bytes) -> None:
    text = to_text(name)
    assert to_bytes(text) == name
    assert json.loads(json.dumps(text, ensure_ascii=False).encode()) == text


@given(st.text().filter(lambda text: not any(0xD800 <= ord(char) < 0xE000 for char in text)))
def test_what_is_text_already_keeps_its_look(text: str) -> None:
    if not any(0xEF80 <= ord(char) < 0xF000 for char in text):
        assert to_text(text.encode()) == text


def test_a_name_of_another_encoding_is_told_byte_by_byte() -> None:
    assert to_text("数据".encode("gbk")) == "\uefca\ueffd\uefbe\uefdd"
    assert to_bytes("\uefca\uefbe") == b"\xca\xbe"


def test_no_slash_and_no_dot_can_be_smuggled_in() -> None:
    for char in "/.\0":
        assert char.encode() not in b"".join(to_bytes(chr(0xEF80 + index)) for index in range(0x80))
    assert to_bytes("\uef2f") == "\uef2f".encode()


def test_a_name_with_the_very_characters_used_for_this_is_no_exception() -> None:
    name = "\uef80".encode()
    assert to_text(name) != "\uef80"
    assert to_bytes(to_text(name)) == name


def test_half_of_a_surrogate_pair_is_no_name() -> None:
    with pytest.raises(ValueError, match="surrogate"):
        to_bytes("\ud800")
