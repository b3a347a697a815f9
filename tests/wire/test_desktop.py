"""The desktop client's frames: however they are cut, whatever stands in them."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.desktop import LARGE, MAX_TRIES, TERMINATOR, Broken, Closing, Decoder, Event, Request, begins_dialect, encode

LIMIT = 1 << 20
END = TERMINATOR.decode()


def frame(mode: str, info: Any, ui: str = "main") -> bytes:
    """As the client writes it: nothing is escaped that JSON does not escape."""
    return json.dumps({"mode": mode, "ui": ui, "info": info}).encode("ascii") + TERMINATOR


def decoded(data: bytes, limit: int = LIMIT) -> list[Event]:
    return Decoder(limit).feed(data)


ODD = ["_", "<END_SEND>", END, "\\", '"', "'", "{", "}", "[", ":", ", ", "\n", "字", "😀", "a"]
TEXTS = st.lists(st.sampled_from(ODD), max_size=20).map("".join) | st.text()
REQUESTS = st.builds(Request, st.sampled_from(["add_task", "get_root", "x"]), TEXTS, TEXTS | st.integers())
PIECES = st.one_of(
    REQUESTS.map(lambda one: frame(one.mode, one.info, one.ui)),
    st.just(b"CLIEND_CLOSE" + TERMINATOR),
    st.just(TERMINATOR),
    st.binary(max_size=40),
    st.binary(max_size=40).map(lambda data: data + TERMINATOR),
    st.sampled_from([b'{"mode": "x", "info": "open', b'{"mode"', b'"', b"_<END", b"\\"]),
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The data in pieces, cut at these places."""
    at = sorted({min(place, len(data)) for place in places} | {0, len(data)})
    return [data[a:b] for a, b in pairwise(at)]


@given(st.lists(REQUESTS, max_size=5), st.lists(st.integers(0, 400)), st.sampled_from([{}, {"from_start": True}]))
def test_requests_come_out_as_they_were_however_they_are_cut(
    requests: list[Request], places: list[int], how: dict[str, bool]
) -> None:
    data = b"".join(frame(one.mode, one.info, one.ui) for one in requests)
    decoder = Decoder(LIMIT, **how)
    assert [event for piece in cut(data, places) for event in decoder.feed(piece)] == requests
    assert decoder.pending == 0


@given(st.lists(PIECES, max_size=8), st.lists(st.integers(0, 300)), st.sampled_from([5, 40, LIMIT]))
def test_whatever_comes_any_cut_gives_the_same(pieces: list[bytes], places: list[int], limit: int) -> None:
    data = b"".join(pieces)
    whole, cut_up = Decoder(limit), Decoder(limit)
    assert [event for piece in cut(data, places) for event in cut_up.feed(piece)] == whole.feed(data)
    assert cut_up.pending <= limit + 2 * len(TERMINATOR)


@given(st.lists(PIECES, max_size=6), REQUESTS)
def test_after_any_garbage_the_stream_is_followed_again(pieces: list[bytes], request_: Request) -> None:
    decoder = Decoder(LIMIT)
    decoder.feed(b"".join(pieces) + TERMINATOR)
    if request_.mode and END not in str(request_.info) + request_.ui:
        assert decoder.feed(frame(request_.mode, request_.info, request_.ui))[-1] == request_


@given(
    st.recursive(
        TEXTS | st.integers() | st.booleans() | st.none(), lambda some: st.lists(some) | st.dictionaries(TEXTS, some)
    )
)
def test_any_value_reaches_the_client_as_it_is_in_ascii_without_a_terminator(value: Any) -> None:
    sent = encode("mode", value, "ui")
    assert sent.isascii()
    assert sent.count(TERMINATOR) == 1
    assert sent.endswith(TERMINATOR)
    # The client deletes every terminator and parses the rest.
    assert json.loads(sent.decode().replace(END, "")) == {"mode": "mode", "ui": "ui", "info": value}


def test_a_terminator_that_a_user_types_is_part_of_his_command() -> None:
    command = f'echo "{END}" \\{END}{END} done'
    assert decoded(frame("add_task", {"exec": command})) == [Request("add_task", "main", {"exec": command})]


def test_a_request_behind_a_broken_one_is_not_swallowed_by_it() -> None:
    broken = b'{"mode": "add_task", "info": "never clos' + TERMINATOR
    assert decoded(broken + frame("get_root", ""))[-1] == Request("get_root", "main", "")


@pytest.mark.parametrize(
    ("data", "event"),
    [
        (b'{"mode": "get_root"}', Request("get_root", "main", None)),
        (b'{"mode": "get_root", "ui": 5, "info": 1}', Request("get_root", "main", 1)),
        (b' {"mode": "x", "ui": "task", "info": [], "more": 1}\r\n', Request("x", "task", [])),
        (b"CLIEND_CLOSE", Closing()),
        (b"\nCLIEND_CLOSE ", Closing()),
    ],
)
def test_what_is_understood(data: bytes, event: Event) -> None:
    assert decoded(data + TERMINATOR) == [event]


@pytest.mark.parametrize(
    "data",
    [
        b"hello",
        b"{'mode': 'get_root'}",
        b"[1]",
        b'"text"',
        b"{}",
        b'{"mode": 1}',
        b'{"mode": "a", "mode": "b"}',
        b'{"mode": "a", "info": NaN}',
        b'{"mode": "a", "info": 1e999}',
        b'{"mode": "\xff"}',
        b'{"mode": "\\ud800"}',
        b'{"mode": "a", "info": ' + b"[" * 2000 + b"]" * 2000 + b"}",
        '{"mode": "get_root"}'.encode("utf-16"),
    ],
)
def test_what_is_no_request_is_told_as_such_and_the_next_is_read(data: bytes) -> None:
    events = decoded(data + TERMINATOR + frame("get_root", ""))
    assert isinstance(events[0], Broken)
    assert events[-1] == Request("get_root", "main", "")


def test_a_frame_beyond_the_cap_is_dropped_and_nothing_of_it_is_kept() -> None:
    decoder = Decoder(100)
    piece = b'{"mode": "save_file", "info": "' + b"x" * 50
    events = [event for _ in range(1000) for event in decoder.feed(piece)]
    assert events == []
    assert decoder.pending < 200
    events = decoder.feed(TERMINATOR + frame("get_root", ""))
    assert isinstance(events[0], Broken)
    assert events[0].head.startswith(b'{"mode": "save_file"')
    assert "100 bytes" in events[0].why
    assert events[1:] == [Request("get_root", "main", "")]


def test_what_is_large_may_be_one_text_but_not_a_million_values() -> None:
    content = {"path": "/data/a, [b].txt", "content": "A" * (2 * LARGE)}
    events = decoded(frame("save_file", content) + frame("save_file", [[]] * LARGE) + frame("get_root", ""), 16 * LARGE)
    assert events[0] == Request("save_file", "main", content)
    assert isinstance(events[1], Broken)
    assert "values" in events[1].why
    assert events[2:] == [Request("get_root", "main", "")]


def test_a_frame_of_exactly_the_cap_is_read() -> None:
    text = frame("get_root", "x" * 50)
    size = len(text) - len(TERMINATOR)
    assert decoded(text, size) == [Request("get_root", "main", "x" * 50)]
    assert isinstance(decoded(text, size - 1)[0], Broken)


def test_a_string_that_never_closes_is_given_up_after_some_terminators() -> None:
    decoder = Decoder(LIMIT)
    piece = b'{"mode": "add_task", "info": "' + TERMINATOR
    assert decoder.feed(piece) == []
    assert [event for _ in range(MAX_TRIES - 1) for event in decoder.feed(b"x" + TERMINATOR)] != []
    assert decoder.feed(frame("get_root", "")) == [Request("get_root", "main", "")]


@pytest.mark.parametrize(
    ("head", "verdict"),
    [
        (b"", None),
        (b'{"mode": "get_root"', None),
        (frame("get_root", ""), True),
        (frame("add_task", END), True),
        (frame("add_task", END)[: -len(TERMINATOR)], None),
        (b"CLIEND_CLOSE" + TERMINATOR, True),
        (b"garbage" + TERMINATOR, True),
        (b'{"jsonrpc": "2.0", "method": "server.info"}\n', False),
        (b'{"jsonrpc": "2.0", "params": {"command": "echo ' + TERMINATOR + b'"}}\n', False),
        (b'{"jsonrpc": "2.0", "params": {"command": "echo ' + TERMINATOR, None),
        (b"hello\n" + TERMINATOR, False),
        (b"hello" + TERMINATOR + b"\n", True),
    ],
)
def test_the_first_complete_frame_tells_the_dialect(head: bytes, verdict: bool | None) -> None:  # noqa: FBT001
    assert begins_dialect(head) is verdict


def test_a_connection_that_begins_as_another_protocol_is_told_so_once_that_is_known() -> None:
    for head in (b"POST / HTTP/1.1\r\n", b"GET x HTTP/1.0\r\n", b"\r\n PUT /_<END_SEND>_ x", b"\x00\x01", b"x" * 5000):
        for cut in range(len(head[:40])):
            decoder = Decoder(LIMIT, from_start=True)
            events = [*decoder.feed(head[:cut]), *decoder.feed(head[cut:])]
            assert [one.is_foreign for one in events if isinstance(one, Broken)][:1] == [True], (head[:40], cut)
    for text in (b"hello", b"P", b"garbage\n", b'{"a":1', b'"'):
        [first, *_] = Decoder(LIMIT, from_start=True).feed(text + TERMINATOR + encode("a", "x"))
        assert isinstance(first, Broken)
        assert not first.is_foreign


@pytest.mark.parametrize(
    "beginning",
    [
        b"POST / HTTP/1.1\r\n\r\n",
        b"P",
        b"_",
        b'"',
        b"[",
        b"CLIEND_CLOSED",
        b'"_<END_SEND>_',
        b'{"mode":"a","info":"_<END_SEND>_',
        b"{}_<END_SEND>_",
        b"\n\n GET",
    ],
)
def test_a_connection_that_begins_broken_is_told_so_before_any_request_in_it(beginning: bytes) -> None:
    whole = Decoder(LIMIT, from_start=True).feed(beginning + encode("add_task", "x"))
    assert isinstance(whole[0], Broken)
    decoder = Decoder(LIMIT, from_start=True)
    pieces = [event for at in range(len(beginning)) for event in decoder.feed(beginning[at : at + 1])]
    pieces += decoder.feed(encode("add_task", "x"))
    assert isinstance(pieces[0], Broken)
