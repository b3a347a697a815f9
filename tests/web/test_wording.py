"""What the master says as key and values is worded in the browser: every sentence, with values as the wire has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from string import Formatter
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta
from playwright.sync_api import Browser

from master.config.settings import ROWS
from master.edited_files.mismatch import explain
from monitor.agent.gpu import faults
from tests.web.browser import Visit, signed_in
from tests.web.console import Console
from tests.wire.test_message import MOST, sample
from wire.english import SENTENCES
from wire.exit_codes import signal_of
from wire.message import Message, ids, names

WORD = """async (messages) => {
    const { needMessages, said } = await import(new URL("static/core/i18n.js", document.baseURI));
    await needMessages();
    return messages.map(({key, args}) => said(key, args, "NOT WORDED"));
}"""


@pytest.fixture
def seen(browser: Browser, console: Console) -> Iterator[Visit]:
    with signed_in(browser, console, language="zh-CN") as made:
        made.go("queue")
        yield made


def word(seen: Visit, *messages: Message) -> list[str]:
    """In Chinese, by the module that the page itself has loaded."""
    version = seen.page.evaluate("document.querySelector('script').getAttribute('src').split('/start.js')[0]")
    plain = [{"key": one.key, "args": one.plain_args()} for one in messages]
    told: list[str] = seen.page.evaluate(WORD.replace("static/core", f"{version}/core"), plain)
    return told


def values_of(sentence: str) -> dict[str, Any]:
    """A value for each place of a sentence, of the type that its forms want."""
    samples: dict[str, list[Any]] = {}
    for _, name, form, _ in Formatter().parse(sentence):
        if name is not None:
            samples.setdefault(name, []).append(sample(form or ""))
    return {name: max(ones, key=lambda one: MOST.index(type(one))) for name, ones in samples.items()}


def test_ranges_are_told_as_people_read_them(seen: Visit) -> None:
    rows = [ROWS[name].allowed for name in ("limits.task_bytes", "scheduler.grace_s", "scheduler.sample_s")]
    told = ["不小于 1 MiB 的数字（bytes）", "0 至 86,400 的数字（seconds）", "0.5 至 20 的数字（seconds）"]
    assert word(seen, *rows) == told


def test_every_sentence_is_worded_whole(seen: Visit) -> None:
    messages = [Message(key, **values_of(sentence)) for key, sentence in SENTENCES.items()]
    odd = {
        message.key: text
        for message, text in zip(messages, word(seen, *messages), strict=True)
        if re.search(r"NOT WORDED|[{}]|undefined|NaN|\[object", text)
    }
    assert odd == {}


def test_a_reason_within_a_reason_is_worded_too(seen: Visit) -> None:
    inner = Message(
        "obstacle_because",
        nodes="gpu1",
        what=Message("free", free=2, has=8, unit="GPU"),
        because=(Message("held_by", tasks=ids((3, 7))),),
    )
    outer = Message("needs", request=Message("amount", count=4, unit="GPU"), obstacles=(inner,))
    assert word(seen, outer) == ["需要 4 个 GPU：gpu1：8 个 GPU 中有 2 个空闲（任务 3、7）"]


def test_what_a_stranger_said_is_shown_and_does_nothing(seen: Visit) -> None:
    assert word(seen, Message("system_said", path="a\u202eb", said="<b>{path}\x1b[2J")) == [
        r"a\u202eb：<b>{path}\x1b[2J"
    ]


def test_what_an_agent_says_of_a_gpu_is_said_in_chinese(seen: Visit) -> None:
    told = [faults.FELL_OFF, faults.ecc(1), faults.ecc(2), faults.hung("nvidia-smi")]
    told += [faults.xid(number) for number in faults.CRITICAL_XIDS]
    told += [make(code, "Unknown") for make in (faults.driver_failed, faults.gpu_failed) for code in range(20)]
    texts = word(seen, *(Message("gpu_aside", said=one) for one in told))
    assert [text for text in texts if re.search(r"\b(its?|a)\b", text)] == []


class Kinds(msgspec.Struct, forbid_unknown_fields=True):
    """A field of each kind that a file or a request may have."""

    number: Annotated[int, Meta(ge=1, le=9)] = 1
    share: Annotated[float, Meta(gt=0)] | None = None
    name: Annotated[str, Meta(min_length=1, max_length=3)] = "a"
    word: Annotated[str, Meta(pattern="^[0-9]$")] = "1"
    way: Literal["ssh", "local"] = "ssh"
    is_on: bool = True
    parts: Annotated[list[int], Meta(max_length=1)] = []
    within: dict[str, int] = {}


def test_what_a_value_should_be_is_said_in_chinese(seen: Visit) -> None:
    odd: list[dict[str, Any]] = [
        {name: value}
        for name in Kinds.__struct_fields__
        for value in (0, 10, "x" * 9, [1, 2], {"k": "v"}, None, [0] * 99, {str(at): 0 for at in range(99)})
    ]
    texts = word(seen, *filter(None, map(_fault, [*odd, {"share": {"token": 0}}])))
    assert len(texts) > 40
    assert [text for text in texts if re.search(r"\b(an?|of|or|with|the)\b", text)] == []
    owners = Message("wrong_value", where="owner", found='"a or b"', expected="the name of a user")
    assert word(seen, owners) == ['owner：得到 "a or b"，应为用户名']


def _fault(value: dict[str, Any]) -> Message | None:
    try:
        msgspec.convert(value, Kinds)
    except msgspec.ValidationError as error:
        return explain(str(error), value, Kinds)
    return None


def test_between_names_of_nodes_and_chinese_stands_a_space(seen: Visit) -> None:
    assert word(seen, Message("has", nodes=names(("node1",)), amount="8")) == ["节点 node1 有 8"]


def test_the_signal_that_an_exit_code_stands_for_is_named_as_in_english(seen: Visit) -> None:
    names = {code: signal_of(code) for code in range(1, 256)}
    assert word(seen, *(Message("exit_code", code=code) for code in names)) == [
        f"退出码 {code}（{name}）" if name else f"退出码 {code}" for code, name in names.items()
    ]


def test_no_space_stands_between_two_chinese_signs(seen: Visit) -> None:
    user = Message("gpu_used", users=(Message("process", user="root", pid=7),), more=0)
    assert word(seen, user) == ["被 root（进程 7）占用"]
