"""Passwords: what is kept of them, what it costs to try one, and which are not taken.

How long something takes is told by how many hashes are made, never by a clock.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import threading
import unicodedata
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
from cryptography.hazmat.primitives.kdf import argon2
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from hypothesis import given
from hypothesis import strategies as st

from master.people import passwords
from master.people.passwords import (
    MOST_BYTES,
    THREADS,
    TODAY,
    WAITING,
    Checked,
    Cost,
    Passwords,
    cost_of,
    derive,
    fits,
    prepared,
    weakness,
)
from tests.faults import refusing
from tests.waiting import run_story, settled
from wire.errors import LimitError
from wire.message import Message

T = TypeVar("T")
SMALL = Cost(memory_kib=64, passes=1)
EARLIER = Cost(memory_kib=32, passes=1)
RIGHT = "otter-kettle-purple"


def told(story: Callable[[Passwords], Coroutine[Any, Any, T]], cost: Cost = SMALL) -> T:
    async def whole() -> T:
        return await story(Passwords(cost))

    return run_story(whole())


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[Cost | None]:
    """The cost of each hash that is made, in order."""
    made: list[Cost | None] = []

    def counted_derive(secret: bytes, cost: Cost) -> str:
        made.append(cost)
        return derive(secret, cost)

    def counted_fits(secret: bytes, phc: str) -> bool:
        made.append(cost_of(phc))
        return fits(secret, phc)

    monkeypatch.setattr(passwords, "derive", counted_derive)
    monkeypatch.setattr(passwords, "fits", counted_fits)
    return made


# -- what is kept ---------------------------------------------------------------------------------------------


def test_what_is_kept_is_argon2id_at_todays_cost_with_a_salt_of_its_own() -> None:
    async def story(ours: Passwords) -> tuple[str, str]:
        return await ours.hash(RIGHT), await ours.hash(RIGHT)

    one, other = told(story, TODAY)
    assert re.fullmatch(r"\$argon2id\$v=19\$m=19456,t=2,p=1\$[\w+/]{22}\$[\w+/]{43}", one, re.ASCII)
    assert one.split("$")[4] != other.split("$")[4]
    assert cost_of(one) == TODAY == Cost(19 * 1024, 2, 1, 16, 32)


def test_the_right_password_is_right_and_any_other_is_wrong() -> None:
    async def story(ours: Passwords) -> None:
        phc = await ours.hash(RIGHT)
        assert await ours.check(RIGHT, phc) == Checked(ok=True, rehash=None)
        for wrong in ("", "otter-kettle-purpl", f"{RIGHT} ", RIGHT.upper(), "\ud800", "x" * 100_000):
            assert await ours.check(wrong, phc) == Checked(ok=False)

    told(story)


def test_one_password_typed_on_two_keyboards_is_one_password() -> None:
    spelt = "café-otter-kettle"
    apart = unicodedata.normalize("NFD", spelt)
    assert apart != spelt

    async def story(ours: Passwords) -> None:
        assert (await ours.check(apart, await ours.hash(spelt))).ok
        assert (await ours.check(spelt, await ours.hash(apart))).ok

    told(story)


def test_a_hash_of_another_cost_is_made_anew_when_its_password_is_typed() -> None:
    earlier = derive(prepared(RIGHT), EARLIER)

    async def story(ours: Passwords) -> None:
        done = await ours.check(RIGHT, earlier)
        assert done.ok
        assert done.rehash is not None
        assert cost_of(done.rehash) == SMALL
        assert await ours.check(RIGHT, done.rehash) == Checked(ok=True, rehash=None)
        assert await ours.check("wrong", earlier) == Checked(ok=False)

    told(story)


@pytest.mark.parametrize(
    "other", [Cost(64, 2), Cost(128, 1), Cost(64, 1, 2), Cost(64, 1, 1, 24), Cost(64, 1, 1, 16, 16)], ids=str
)
def test_whatever_of_the_cost_is_another_the_hash_is_made_anew(other: Cost) -> None:
    async def story(ours: Passwords) -> Checked:
        return await ours.check(RIGHT, derive(prepared(RIGHT), other))

    assert told(story).rehash is not None


# -- what it costs to try -------------------------------------------------------------------------------------


def test_a_name_that_nobody_has_costs_what_a_wrong_password_costs(work: list[Cost | None]) -> None:
    phc = derive(prepared(RIGHT), SMALL)

    async def story(ours: Passwords) -> None:
        for password, kept in (("wrong", phc), ("wrong", None), (RIGHT, None), ("", None), (RIGHT, phc)):
            work.clear()
            await ours.check(password, kept)
            assert work == [SMALL], (password, kept)

    told(story)


def test_no_password_is_that_of_a_user_who_has_none() -> None:
    async def story(ours: Passwords) -> None:
        for password in ("", RIGHT, "None", ours._dummy):
            assert await ours.check(password, None) == Checked(ok=False)

    told(story)


def test_two_masters_have_two_dummies() -> None:
    assert Passwords()._dummy != Passwords()._dummy
    assert cost_of(Passwords()._dummy) == TODAY


BROKEN = [
    "",
    "plain text",
    "$2b$12$abcdefghijklmnopqrstuu",
    "$argon2i$v=19$m=64,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$" + "A" * 43,
    "$argon2id$v=16$m=64,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$" + "A" * 43,
    "$argon2id$v=19$m=64,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAB$" + "A" * 43,
    "$argon2id$v=19$m=64,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$" + "A" * 41,
    "$argon2id$v=19$m=64,t=1,p=1$$",
    "$argon2id$v=19$m=4,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$" + "A" * 43,
    "$argon2id$v=19$m=4194304000,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$" + "A" * 43,
    "$argon2id$v=19$m=64,t=4000000000,p=1$AAAAAAAAAAAAAAAAAAAAAA$" + "A" * 43,
    "$argon2id$v=19$m=64,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$" + "A" * 43 + "\n",
    "\ud800",
]


@pytest.mark.parametrize("phc", BROKEN, ids=range(len(BROKEN)))
def test_what_cannot_be_read_lets_nobody_in_costs_the_same_and_is_told_once_without_it(
    phc: str, work: list[Cost | None], caplog: pytest.LogCaptureFixture
) -> None:
    async def story(ours: Passwords) -> None:
        for _ in range(2):
            assert await ours.check(RIGHT, phc) == Checked(ok=False)

    with caplog.at_level(logging.INFO, "muster.people"):
        told(story)
    assert work == [SMALL, SMALL]
    [line] = caplog.messages
    assert "muster users passwd" in line
    assert not phc or phc not in line


@given(st.text(max_size=80) | st.from_regex(passwords._PHC, fullmatch=True))
def test_what_can_be_read_can_be_checked(phc: str) -> None:
    cost = cost_of(phc)
    if cost is not None and cost.memory_kib * cost.passes <= 1024:
        assert not fits(b"x", phc)


def test_so_many_passwords_are_hashed_and_wait_and_the_next_is_told_when_to_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    back, begun = threading.Event(), []

    def slow(_secret: bytes, _cost: Cost) -> str:
        begun.append(threading.get_ident())
        assert back.wait(60)
        return "done"

    monkeypatch.setattr(passwords, "derive", slow)

    async def story(ours: Passwords) -> None:
        calls = [asyncio.create_task(ours.hash(RIGHT)) for _ in range(THREADS + WAITING)]
        await settled(lambda: len(begun) == 2)
        for refused in (ours.hash(RIGHT), ours.check(RIGHT, None)):
            with refusing(LimitError, "log_ins_busy", seconds=2):
                await refused
        back.set()
        assert await asyncio.gather(*calls) == ["done"] * 18
        ours.close()
        with pytest.raises(LimitError):
            await ours.hash(RIGHT)

    told(story)


def test_the_loop_turns_while_a_password_is_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread is made to let go of the interpreter here, so the loop turns only if hashing does so by itself."""
    turns, during = 0, []

    class Watched:
        def __init__(self, **cost: Any) -> None:
            self._real = Argon2id(**cost)

        def derive_phc_encoded(self, secret: bytes) -> str:
            before = turns
            phc = self._real.derive_phc_encoded(secret)
            during.append(turns - before)
            return phc

    async def story(ours: Passwords) -> None:
        nonlocal turns
        call = asyncio.create_task(ours.hash(RIGHT))
        while not call.done():
            turns += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(argon2, "Argon2id", Watched)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        told(story, Cost(memory_kib=64 << 10, passes=4))
    finally:
        sys.setswitchinterval(interval)
    [turned] = during
    assert turned > 0


# -- which are not taken --------------------------------------------------------------------------------------


def why(password: str, name: str = "wei_wang") -> str | None:
    found = weakness(password, name)
    return found.key if found is not None else None


def test_a_password_has_ten_characters_at_least_as_people_count() -> None:
    assert why("k7x92mqlp") == "password_too_short"
    assert why("k7x92mqlpz") is None
    assert why(unicodedata.normalize("NFD", "ééééééééé")) == "password_too_short"
    assert why("纸船灯塔木勺雨伞石") == "password_too_short"
    assert why("纸船灯塔木勺雨伞石榴") is None


def test_a_password_has_1024_bytes_at_most() -> None:
    def long(count: int) -> str:
        return "".join(chr(0x4E00 + 37 * number) for number in range(count // 3)) + "k" * (count % 3)

    assert len(long(MOST_BYTES).encode()) == MOST_BYTES
    assert why(long(MOST_BYTES)) is None
    assert why(long(MOST_BYTES + 1)) == "password_too_long"
    assert why("woaini" * 170) == "password_easily_guessed"
    assert why("\u0301" * 1_000_000) == "password_too_long"


@pytest.mark.parametrize("password", ["wei_wang_1", "WeiWang2024", "wei.wang.1", "wangwei123!"])
def test_a_password_is_not_made_of_the_users_name(password: str) -> None:
    assert why(password, "wei_wang") in {"password_of_name", "password_easily_guessed"}


def test_the_name_is_told_where_the_name_is_why() -> None:
    found = weakness("zbigniew2024", "zbigniew")
    assert found == Message("password_of_name", name="zbigniew")
    assert why("zbigniew2024", "other") is None
    for whole in ("Kowalski2024", "zbig.kowalski", "KowalskiZbig1"):
        assert why(whole, "zbig_kowalski") == "password_of_name"


TRIED_FIRST = """
    password12 Password2024! P@ssw0rd2024 passwordpassword adminadmin1 Administrator1 letmein2023 iloveyou520
    qwertyuiop 1qaz2wsx3edc !QAZ2wsx#EDC asdfghjkl; zxcvbnm123 qazwsxedcrfv qwe123qwe123 1234567890 0987654321
    aaaaaaaaaa abcabcabcabc 1111111111 19900101123 13800138000 13927465830 20240101 abcdefghijk
    woaini1314 WoAiNi5201314 woaini13141314 wo-ai-ni-520 nihao123456 zhangwei1990 wangwei888 shiyanshi123 guanliyuan
    qinghua2024 lab-gpu-2024! musteradmin muster2024! lablablab1 gpu3090gpu3090 gpugpugpugpu LabMuster#1 cudanvidia1
    pytorch2024 ｐａｓｓｗｏｒｄ１２ dragonmonkeymaster
"""


@pytest.mark.parametrize("password", TRIED_FIRST.split())
def test_what_is_tried_first_is_not_taken(password: str) -> None:
    assert why(password if len(password) >= 10 else password * 2) == "password_easily_guessed"


@pytest.mark.parametrize(
    "password",
    ["correct-horse-battery-staple", RIGHT, "kiteboard57harbor", "Tr0ub4dor&3", "k7x92mqlpz", "Xk9!mQ2@pL4#",
     "8305927461927364", "7#9!2@5%1^", "我的纸船昨天去了灯塔那里", "seven wooden spoons", "mjr4!vault-Ostrich"],
)  # fmt: skip
def test_what_is_not_tried_first_is_taken(password: str) -> None:
    assert why(password) is None


@given(st.text(max_size=60), st.text(max_size=20))
def test_of_any_text_it_is_said_whether_it_is_taken(password: str, name: str) -> None:
    found = weakness(password, name)
    assert found is None or "password" in str(found)


def test_a_sentence_says_what_to_do_and_never_the_password() -> None:
    for password in ("woaini1314", "short", "x" * 2000):
        found = weakness(password, "wei_wang")
        assert found is not None
        assert password not in str(found)
