"""The server log: what strangers say stays in its line, and they cannot talk the past out of it."""

from __future__ import annotations

import logging
import logging.handlers
from collections.abc import Iterator
from pathlib import Path

import pytest

from master.start.server_log import LISTED, WINDOW_S, PlainFormatter, Tally, guard

FORGED = "busy\n2026-01-01 00:00:00,000 INFO muster: all is well \x1b[2J\x1b]0;x\x07\r\u202e\u2028\x9b1m"


class Written:
    """A log under the loggers of the master."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.handler = logging.handlers.RotatingFileHandler(
            path, maxBytes=1 << 20, backupCount=1, encoding="utf-8", errors="backslashreplace"
        )
        self.tallies = guard([self.handler])

    @property
    def lines(self) -> list[str]:
        return self.path.read_text(encoding="utf-8").split("\n")[:-1]


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    log = Written(tmp_path / "server.log")
    logger = logging.getLogger("muster")
    before = logger.level
    logger.addHandler(log.handler)
    logger.setLevel(logging.INFO)
    yield log
    logger.removeHandler(log.handler)
    logger.setLevel(before)
    log.handler.close()


def test_the_words_of_a_refused_agent_forge_no_line_and_reach_no_terminal(written: Written) -> None:
    logging.getLogger("muster.link").warning("node %s: %s", "a", FORGED)
    told = written.lines
    assert len(told) == 1
    assert "busy\\n2026-01-01" in told[0]
    assert told[0].isprintable()


def test_an_exception_with_the_words_of_others_forges_no_line_either(written: Written) -> None:
    try:
        int(FORGED)
    except ValueError:
        logging.getLogger("muster.ports").exception("a request failed")
    told = written.lines
    assert "a request failed" in told[0]
    assert len(told) > 3
    assert all(line.startswith("  | ") for line in told[1:])
    assert all(line.isprintable() for line in told)


def test_text_that_is_no_unicode_is_written_all_the_same(written: Written) -> None:
    logging.getLogger("muster").info("a folder \udcff and 训练")
    assert written.lines[0].endswith("a folder \\udcff and 训练")


def test_a_stranger_who_comes_a_hundred_thousand_times_leaves_what_was_written_before(written: Written) -> None:
    logging.getLogger("muster").info("the evidence")
    for number in range(100_000):
        logging.getLogger("muster.report").warning("an agent at %s was refused: %s", f"10.0.0.{number}", "x" * 100)
    assert "the evidence" in written.path.read_text(encoding="utf-8")
    assert len(written.lines) == 1 + LISTED
    assert not written.path.with_name("server.log.1").exists()


def of(name: str, text: str, *args: object, level: int = logging.WARNING) -> logging.LogRecord:
    return logging.LogRecord(name, level, "here", 1, text, args, None)


def test_what_is_not_listed_is_counted_and_told_when_the_time_is_over() -> None:
    now = [0.0]
    told: list[str] = []
    tally = Tally(lambda record: told.append(PlainFormatter("%(message)s").format(record)), clock=lambda: now[0])
    passed = [tally.filter(of("muster.ports", "%s is closed", f"10.0.0.{number}")) for number in range(500)]
    assert passed == [True] * LISTED + [False] * (500 - LISTED)
    now[0] = WINDOW_S
    assert told == []
    assert tally.filter(of("muster", "something else"))
    assert told == [f"{500 - LISTED} more like this within 60 s, the last one: 10.0.0.499 is closed"]
    assert tally.filter(of("muster.ports", "%s is closed", "10.0.0.1"))
    tally.close()
    assert len(told) == 1


def test_several_threads_may_find_the_time_over_at_once() -> None:
    now = [0.0]
    told: list[str] = []

    def tell(record: logging.LogRecord) -> None:
        told.append(record.getMessage())
        tally.filter(of("muster", "another thread"))

    tally = Tally(tell, clock=lambda: now[0])
    for name in ("muster.ports", "muster.desktop"):
        for _ in range(LISTED + 1):
            tally.filter(of(name, name))
    now[0] = WINDOW_S
    tally.filter(of("muster", "something else"))
    assert len(told) == 2


def test_each_node_and_each_kind_is_counted_by_itself_and_a_fault_of_ours_never() -> None:
    tally = Tally(lambda _record: None, clock=lambda: 0.0)
    for _ in range(50):
        tally.filter(of("muster.link", "node %s: %s", "a", "x"))
        tally.filter(of("muster.ports", "%s is closed", "x"))
    assert not tally.filter(of("muster.link", "node %s: %s", "a", "y"))
    assert tally.filter(of("muster.link", "node %s: %s", "b", "y"))
    assert tally.filter(of("muster.ports", "%s has read nothing", "x"))
    assert all(tally.filter(of("muster.ports", "a request failed", level=logging.ERROR)) for _ in range(50))
    assert all(tally.filter(of("muster.fleet", "node %s: %s", str(number), "x")) for number in range(50))


def test_what_was_counted_is_told_at_the_end(written: Written) -> None:
    for _ in range(LISTED + 7):
        logging.getLogger("muster.desktop").warning("a desktop client at %s was not let in", "10.0.0.1")
    for tally in written.tallies:
        tally.close()
    assert "7 more like this" in written.lines[-1]
