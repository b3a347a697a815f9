"""Tokens of nodes: what opens, and for how long."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest

from master.core.people.clock import RightsTime
from master.nodes import node_tokens


def test_a_token_opens_and_only_its_digest_is_kept() -> None:
    text, token = node_tokens.make("ann", 5.0)
    name, _, secret = text.partition(".")
    assert (token.id, token.by, token.at) == (name, "ann", 5.0)
    assert secret not in msgspec.json.encode(token).decode()
    assert token.sha256 == hashlib.sha256(secret.encode()).hexdigest()
    assert node_tokens.find([token], text, RightsTime(6.0)) is token


@pytest.mark.parametrize(
    "spoil", [str.upper, str.swapcase, lambda text: text + "x", lambda text: text[:-1], lambda _: ""]
)
def test_what_is_nearly_the_token_opens_nothing(spoil: Any) -> None:
    text, token = node_tokens.make("ann", 5.0)
    assert node_tokens.find([token], spoil(text), RightsTime(6.0)) is None
    assert node_tokens.find([], text, RightsTime(6.0)) is None
    assert node_tokens.find([token], "\ud83d.\ud83d", RightsTime(6.0)) is None


def test_the_one_before_opens_for_ten_minutes_and_the_one_before_that_no_longer_than_it_had() -> None:
    first, one = node_tokens.make("ann", 0.0)
    second, two = node_tokens.make("ann", 100.0)
    tokens = node_tokens.rotated([one], two, RightsTime(100.0))
    assert node_tokens.find(tokens, first, RightsTime(699.0)) is not None
    assert node_tokens.find(tokens, first, RightsTime(700.0)) is None
    assert node_tokens.find(tokens, second, RightsTime(1e9)) is not None
    third, three = node_tokens.make("ann", 200.0)
    again = node_tokens.rotated(tokens, three, RightsTime(200.0))
    assert node_tokens.find(again, first, RightsTime(201.0)) is None
    assert node_tokens.find(again, second, RightsTime(799.0)) is not None
    assert node_tokens.find(again, third, RightsTime(1e9)) is not None
