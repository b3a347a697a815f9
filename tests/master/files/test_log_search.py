"""A log is searched in steps, forwards and backwards, and no pattern holds up anybody."""

from __future__ import annotations

import asyncio
import re
import select
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from master.files import log_pieces, log_search
from master.files.log_matcher import finder
from master.files.log_pieces import Piece
from master.files.log_search import Ask, Found, search
from master.files.threads import NOBODYS
from tests.calls import calls_of
from tests.leaps import Leap
from tests.master.files.test_log_reader import logged
from tests.master.in_process import InProcess, run
from tests.rights import need_users
from tests.waiting import PATIENCE_S, settled
from wire.errors import BadRequestError, LimitError


def reader(data: bytes) -> log_search.ReadAt:
    return lambda offset, limit: Piece(offset, data[offset : offset + limit], b"", 0, len(data))


def step(data: bytes, pattern: str, **how: Any) -> Found:
    return search(reader(data), Ask(pattern, **how), lambda: None)


def whole(data: bytes, ask: Ask) -> list[int]:
    """The offsets of all lines, over as many steps as it takes."""
    offsets = []
    while True:
        found = search(reader(data), ask, lambda: None)
        offsets += [match.offset for match in found.matches]
        if found.next is None:
            return offsets
        ask = ask._replace(offset=found.next)


def test_a_line_is_found_with_where_it_begins_and_where_in_it_the_match_is() -> None:
    found = step(b"step 1\nloss 0.5\nstep 2\n", "0.5")
    assert found == Found([log_search.Match(7, "loss 0.5", 5, 8)], None, 23, 23)


def test_text_is_found_as_it_stands_unless_it_is_said_to_be_a_regular_expression() -> None:
    data = b"a.b\naxb\n"
    assert [match.text for match in step(data, "a.b").matches] == ["a.b"]
    assert [match.text for match in step(data, "a.b", regex=True).matches] == ["a.b", "axb"]


def test_each_state_of_a_progress_bar_is_a_line() -> None:
    found = step(b"10 %\r50 %\r100 %\r\ndone\r\n", "%")
    assert [(match.offset, match.text) for match in found.matches] == [(0, "10 %"), (5, "50 %"), (10, "100 %")]


@pytest.mark.parametrize("pattern", ["ÄRGER", "ärger", "训练"])
def test_capitals_are_told_from_small_letters_or_not_in_every_script(pattern: str) -> None:
    data = "Ärger\n训练 Ärger\n".encode()
    assert len(step(data, pattern, ignore_case=True).matches) == (1 if pattern == "训练" else 2)
    assert len(step(data, "Ärger").matches) == 2
    assert not step(data, "ärger").matches


def test_chinese_is_looked_for_in_a_block_at_once_and_not_line_by_line() -> None:
    block = "第 1 轮 loss 0.5\n".encode() * 1000
    find = finder("验证 LOSS", regex=False, ignore_case=True)
    assert calls_of(lambda: list(find(block))) == calls_of(lambda: list(find(block[:100])))
    assert step("验证 Loss 0.4\n".encode(), "验证 LOSS", ignore_case=True).matches


def test_of_a_long_line_what_is_around_the_match_is_shown() -> None:
    (match,) = step(b"x" * 5000 + b"needle" + b"y" * 5000, "needle").matches
    assert match.cut
    assert len(match.text) <= 400
    assert match.text[match.begin : match.end] == "needle"


def test_bytes_that_are_no_text_hinder_nothing() -> None:
    (match,) = step(b"\xff\xfe\x00 needle \x80\n", "needle").matches
    assert match.text[match.begin : match.end] == "needle"


def test_backwards_the_last_ones_come_first() -> None:
    data = b"".join(b"line %d\n" % number for number in range(20))
    found = step(data, "line", backwards=True, most=3)
    assert [match.text for match in found.matches] == ["line 19", "line 18", "line 17"]
    again = step(data, "line", backwards=True, most=3, offset=found.next)
    assert [match.text for match in again.matches] == ["line 16", "line 15", "line 14"]


def test_from_an_offset_before_the_beginning_or_behind_the_end_nothing_is_found_twice() -> None:
    data = b"one\ntwo\n"
    assert len(step(data, "o", offset=-100).matches) == 2
    assert step(data, "o", offset=100) == Found([], None, 0, 8)
    assert step(data, "o", offset=-100, backwards=True) == Found([], None, 0, 8)
    assert step(b"", "o") == step(b"", "o", backwards=True) == Found([], None, 0, 0)


LINES = st.lists(st.sampled_from([b"needle", b"", b"x", b"hay needle hay", b"n" * 40, "nädel".encode()]), max_size=30)
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])


@settings(max_examples=25, deadline=None)
@given(lines=LINES, end=ENDS, most=st.integers(1, 4), block=st.integers(20, 90), regex=st.booleans())
def test_steps_of_whatever_size_find_each_line_once_and_backwards_the_same(
    lines: list[bytes], end: bytes, most: int, block: int, *, regex: bool
) -> None:
    data = end.join(lines)
    expected = [match.start() for match in re.finditer(rb"[^\r\n]+", data) if b"needle" in match[0]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_search, "BLOCK", block)
        assert whole(data, Ask("needle", regex=regex, most=most)) == expected
        assert whole(data, Ask("needle", regex=regex, most=most, backwards=True)) == expected[::-1]


def test_a_pattern_that_is_none_is_refused_with_what_is_wrong() -> None:
    with pytest.raises(BadRequestError, match="unterminated"):
        step(b"x\n", "(", regex=True)
    with pytest.raises(BadRequestError, match="no regular expression"):
        step(b"x\n", "x{99999999999999999999}", regex=True)


def test_a_pattern_that_takes_for_ever_ends_with_its_step_and_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_search, "STEP_S", 0.5)
    waits: list[float] = []
    wait = select.select

    def noted(*what: Any) -> Any:
        waits.append(what[3])
        return wait(*what)

    monkeypatch.setattr(select, "select", noted)
    with pytest.raises(LimitError, match="from byte 0 on"):
        step(b"a" * 100 + b"\n", "(a+)+b", regex=True)
    assert len(waits) <= 2, "for the program to begin and, if it began in time, for the block"
    assert max(waits) <= 0.5


def test_a_pattern_that_takes_for_ever_in_a_later_block_ends_the_step_before_it(
    monkeypatch: pytest.MonkeyPatch, leap: Leap
) -> None:
    monkeypatch.setattr(log_search, "STEP_S", PATIENCE_S)
    monkeypatch.setattr(log_search, "BLOCK", 150)
    data = b"aab\n" + b"x" * 140 + b"\n" + b"a" * 100 + b"\n"

    def read(offset: int, limit: int) -> Piece:
        if offset:  # the first block is done
            leap(PATIENCE_S - 0.5)
        return reader(data)(offset, limit)

    found = search(read, Ask("(a+)+b", regex=True), lambda: None)
    assert ([match.text for match in found.matches], found.next) == (["aab"], 145)


class Clock:
    """A clock on which nothing but sleep takes time, in place of the module `time`."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_step_reads_as_many_bytes_as_its_seconds_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_search, "time", Clock())
    monkeypatch.setattr(log_search, "STEP_S", PATIENCE_S)
    monkeypatch.setattr(log_search, "BYTES_S", 100_000)
    monkeypatch.setattr(log_search, "BLOCK", 10_000)
    found = step(b"x\n" * 10_000_000, "needle")
    allowed = int(PATIENCE_S * 100_000)
    assert found.next == found.searched
    assert allowed // 2 <= found.searched <= allowed + 10_000, "towards its end the program may not be waited for"


def test_a_step_may_take_five_seconds_and_64_megabytes_of_each() -> None:
    assert (log_search.STEP_S, log_search.BYTES_S) == (5.0, 64_000_000)


def test_a_pattern_is_matched_with_nobodys_rights_and_the_program_is_gone_afterwards() -> None:
    need_users()
    before = children()
    seen: set[tuple[str, str, str]] = set()

    def read(offset: int, limit: int) -> Piece:
        seen.update(rights_of(pid) for pid in children() - before)
        return reader(b"needle\n")(offset, limit)

    assert len(search(read, Ask("needle"), lambda: None).matches) == 1
    assert seen == {("65534", "65534", "")}
    assert children() <= before


def children() -> set[str]:
    """The processes of which this one is the parent."""
    return {pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}


def rights_of(pid: str) -> tuple[str, str, str]:
    """The effective user and group of a process, and its other groups."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    lines = dict(line.split(":\t", 1) for line in status if ":\t" in line)
    return lines["Uid"].split()[1], lines["Gid"].split()[1], lines["Groups"].strip()


def test_a_log_that_became_shorter_meanwhile_ends_the_search() -> None:
    data = b"needle\n"

    def read(offset: int, limit: int) -> Piece:
        return Piece(offset, data[offset : offset + limit], b"", 0, 1000)

    assert [match.offset for match in search(read, Ask("needle"), lambda: None).matches] == [0]


def test_the_log_of_a_task_is_searched_over_the_wire_also_while_it_is_written(tmp_path: Path) -> None:
    async def story() -> None:
        log = tmp_path / "1.log"
        log.write_bytes(b"begin\nepoch 1\nepoch 2")
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            task_id = await logged(master, peer, log)
            found = await peer.call("log.search", id=task_id, pattern="EPOCH", ignore_case=True, backwards=True)
            assert [match["text"] for match in found["matches"]] == ["epoch 2", "epoch 1"]
            assert (found["next"], found["size"], found["ended"], found["path"]) == (None, 21, False, str(log))
            refused = await peer.answer(peer.ask("log.search", id=task_id, pattern="two\nlines"))
            assert refused["error"]["data"]["key"] == "log_pattern_lines"
            assert (await peer.call("log.search", server=True, pattern="no such words"))["matches"] == []

    run(story())


def test_the_searches_of_one_user_over_several_connections_go_on_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[str] = []
    may_end = threading.Event()

    def stands(_read: object, ask: Ask, _tick: object) -> Found:
        began.append(ask.pattern)
        assert may_end.wait(PATIENCE_S)
        return Found([], None, 0, 0)

    monkeypatch.setattr(log_search, "search", stands)

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peers = [await master.peer() for _ in range(2)]
            task_id = await logged(master, peers[0], tmp_path / "1.log")
            asked = [
                asyncio.ensure_future(peer.call("log.search", id=task_id, pattern=f"{number}"))
                for number, peer in enumerate(peers)
            ]
            try:
                await settled(lambda: began and master.place.logs.turns.asked.total() == len(peers))
                assert len(began) == 1
            finally:
                may_end.set()
            await asyncio.gather(*asked)
            assert len(began) == len(peers)

    run(story())


def test_a_log_is_searched_with_the_rights_with_which_it_is_read(tmp_path: Path) -> None:
    asked: list[tuple[str, log_pieces.Where]] = []

    class Theirs:
        whose = NOBODYS

        def read(self, path: str, where: log_pieces.Where, offset: int, limit: int, *, collapsed: bool) -> Piece:
            assert not collapsed
            asked.append((path, where))
            return reader(b"theirs\n")(offset, limit)

        def size(self, path: str, where: log_pieces.Where) -> int:
            raise NotImplementedError(path, where)

    async def story() -> None:
        log = tmp_path / "1.log"
        log.write_text("ours\n")
        async with InProcess(tmp_path) as master:
            where = ((str(tmp_path),), None, None)
            found = await master.place.logs.search(str(log), Ask("s"), where, Theirs(), user="ann")
            assert [match.text for match in found.matches] == ["theirs"]
            assert set(asked) == {(str(log), where)}

    run(story())


def test_a_log_that_is_not_there_yet_has_no_lines(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            task_id = await logged(master, peer, tmp_path / "none.log")
            found = await peer.call("log.search", id=task_id, pattern="x")
            assert (found["matches"], found["next"], found["size"]) == ([], None, 0)

    run(story())
