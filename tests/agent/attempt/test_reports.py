"""The pipe of reports: each comes whole, and what somebody else writes there harms nobody."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from monitor.agent.attempt.reports import Reports, send


class Pipe:
    """Both ends of a pipe, and what the agent complained of."""

    def __init__(self) -> None:
        read, self.write = os.pipe()
        os.set_blocking(read, False)
        self.ends = (read, self.write)
        self.complaints: list[str] = []
        self.reports = Reports(read, self.complaints.append)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    for end in made.ends:
        os.close(end)


def test_reports_come_as_they_were_sent_and_once(pipe: Pipe) -> None:
    send(pipe.write, "t1", {"is": "start", "pid": 7})
    send(pipe.write, "t2", {"is": "exit", "code": 3})
    assert list(pipe.reports.read()) == [("t1", {"is": "start", "pid": 7}), ("t2", {"is": "exit", "code": 3})]
    assert list(pipe.reports.read()) == []


def test_what_is_too_long_to_be_whole_says_that_the_record_is_to_be_looked_at(pipe: Pipe) -> None:
    send(pipe.write, "t1", {"is": "exit", "error": "x" * 5000})
    assert list(pipe.reports.read()) == [("t1", {"is": "look"})]


def test_a_line_that_comes_in_two_pieces_is_one(pipe: Pipe) -> None:
    os.write(pipe.write, b't1 {"is"')
    assert list(pipe.reports.read()) == []
    os.write(pipe.write, b':"look"}\n')
    assert list(pipe.reports.read()) == [("t1", {"is": "look"})]


@pytest.mark.parametrize("line", [b"", b"t1", b"t1 {", b"t1 []", b"t1 7", b"\xff {}", b"t1 " + b"[" * 20_000])
def test_what_is_no_report_is_told_and_those_around_it_are_heard(pipe: Pipe, line: bytes) -> None:
    os.write(pipe.write, b't1 {"is":"look"}\n' + line + b'\nt2 {"is":"look"}\n')
    assert list(pipe.reports.read()) == [("t1", {"is": "look"}), ("t2", {"is": "look"})]
    assert len(pipe.complaints) == 1
    assert len(pipe.complaints[0]) < 1000
