"""The text of tokens: what is made can be read, nothing else can, and no secret is where people look."""

from __future__ import annotations

import logging
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.people.tokens import FIND, Made, Parsed, is_it, make, parse, redacted

IDS = st.from_regex(r"[A-Za-z0-9]{1,32}", fullmatch=True)


@given(IDS)
def test_what_is_made_can_be_read_and_is_it(token_id: str) -> None:
    made = make(token_id)
    parsed = parse(made.text)
    assert parsed is not None
    assert parsed.id == token_id
    assert is_it(parsed.secret, made.sha256)


def test_a_secret_has_256_bits_that_are_never_the_same_and_only_their_digest_is_kept() -> None:
    tokens = [make("7") for _ in range(200)]
    secrets = {token.text.removeprefix("mst_7_") for token in tokens}
    assert len(secrets) == 200
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", secret) for secret in secrets)
    assert all(re.fullmatch(r"[0-9a-f]{64}", token.sha256) for token in tokens)
    assert {len(token.text) for token in tokens} == {len("mst_7_") + 43}


@pytest.mark.parametrize("token_id", ["", "a_b", "a-b", "x" * 33, "七", "a\n", " "])
def test_an_id_that_would_not_end_where_it_ends_is_refused(token_id: str) -> None:
    with pytest.raises(ValueError, match="letters and digits"):
        make(token_id)


S = "A" * 42 + "_"


@pytest.mark.parametrize(
    "text",
    ["", "mst", "mst_", "mst__", f"mst__{S}", f"mst_7{S}", f"mst_7_{S[1:]}", f"mst_7_{S}A", f"mst_7_{S}\n",
     f" mst_7_{S}", f"MST_7_{S}", f"mst_{'x' * 33}_{S}",
     f"mst_7_{S[:-1]}=", f"mst_7_{S[:-1]}中", f"mst_٧_{S}", "mst_7_\ud800"],
)  # fmt: skip
def test_what_is_not_quite_a_token_is_none(text: str) -> None:
    assert parse(text) is None
    assert parse(f"mst_7_{S}") == Parsed("7", S)


def test_a_secret_that_begins_and_ends_with_underscores_is_read_whole() -> None:
    secret = "_" + "a" * 41 + "_"
    assert parse(f"mst_a1_{secret}") == Parsed("a1", secret)


@given(st.text(max_size=50), st.text(max_size=70))
def test_any_other_secret_is_not_it_and_breaks_nothing(secret: str, kept: str) -> None:
    made = make("7")
    assert not is_it(secret, made.sha256)
    assert not is_it(made.text, made.sha256)
    assert not is_it("\ud800", made.sha256)
    assert not is_it(secret, kept)


def test_a_secret_stands_in_no_representation(caplog: pytest.LogCaptureFixture) -> None:
    made = make("k3")
    secret = made.text.removeprefix("mst_k3_")
    parsed = parse(made.text)
    with caplog.at_level(logging.INFO):
        logging.getLogger("muster").info("%s %r %s %r %s", made, made, parsed, parsed, [made, {"a": parsed}])
    for shown in (repr(made), str(made), f"{made}", repr(parsed), str(parsed), repr([parsed]), caplog.text):
        assert secret not in shown
        assert "k3" in shown
    assert repr(Made(f"mst_k3_{secret}", "x")) == "Made(mst_k3_…)"


def test_a_text_is_told_without_the_secrets_in_it() -> None:
    one, other = make("k3").text, make("17").text
    assert redacted(one) == "mst_k3_…"
    text = f'curl -H "Authorization: Bearer {one}" http://x/?t={other}&a=1; cut off: {one[:20]}'
    told = redacted(text)
    assert told == 'curl -H "Authorization: Bearer mst_k3_…" http://x/?t=mst_17_…&a=1; cut off: mst_k3_…'
    assert [found[1] for found in FIND.finditer(text)] == ["k3", "17", "k3"]
    assert redacted("mst_ is how tokens begin; nothing else is touched") == (
        "mst_ is how tokens begin; nothing else is touched"
    )


@given(IDS, st.text(max_size=20), st.from_regex(r"[^A-Za-z0-9_-][\s\S]{0,20}", fullmatch=True))
def test_of_a_token_in_any_text_nothing_is_left_but_its_id(token_id: str, before: str, after: str) -> None:
    token = make(token_id).text
    assert token.rpartition(token_id + "_")[2] not in redacted(before + token + after)
