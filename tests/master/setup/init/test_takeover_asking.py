"""`muster init --from` on a terminal: what it asks, and what it does not ask."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from master.command_line import main
from master.setup.init import old_lab, takeover, takeover_text
from master.setup.init.takeover import Wishes
from tests.faults import in_words
from tests.old_lab import lay_out
from wire.message import Message

EVERYWHERE = "0.0.0.0"  # noqa: S104  (what an admin may say; nothing is opened)


@pytest.fixture
def old(tmp_path: Path, free_ports: list[int]) -> Path:
    """The `master` folder of an old lab."""
    return lay_out(tmp_path / "gpulab", free_ports)


class Replies:
    """A person at the terminal; who is asked more often than expected fails the test."""

    def __init__(self, *replies: str) -> None:
        self.replies = list(replies)
        self.asked: list[str] = []

    def __call__(self, question: str) -> str:
        self.asked.append(question)
        return self.replies.pop(0)


def test_what_no_option_says_is_asked_until_it_makes_sense(old: Path) -> None:
    person = Replies("203.0.113.7", EVERYWHERE, "192.168.36.9/24", "192.168.36.0/24")
    wishes = takeover_text.ask(old_lab.read(old), Wishes(), person)
    assert wishes == Wishes(EVERYWHERE, ("192.168.36.0/24",))
    assert "203.0.113.7" in person.asked[1]
    meant = Message("no_network_but", found="192.168.36.9/24", meant="192.168.36.0/24")
    assert str(meant) in person.asked[3]


def test_an_empty_reply_takes_the_default_and_asks_no_more(old: Path) -> None:
    assert takeover_text.ask(old_lab.read(old), Wishes(), Replies("")) == Wishes("127.0.0.1", None)


def test_what_is_known_is_not_asked(old: Path) -> None:
    assert takeover_text.ask(old_lab.read(old), Wishes(EVERYWHERE, ()), Replies()) == Wishes(EVERYWHERE, ())
    assert main(["init", "--from", str(old)]) == 0
    assert takeover_text.ask(old_lab.read(old), Wishes(), Replies()) == Wishes()


@pytest.mark.parametrize(("reply", "held"), [("", True), ("y", True), ("n", False)])
def test_whether_to_hold_what_seems_to_have_run_is_asked_with_each_task_named(
    old: Path, reply: str, *, held: bool
) -> None:
    waiting = json.loads((old / "task_info" / "wait_task.json").read_bytes())[0]["task_id"]
    (old.parent / f"data/task_logs/{waiting}.log").write_text("Program Exit With Code 0\n", encoding="utf-8")
    person = Replies("", "perhaps", reply)
    wishes = takeover_text.ask(old_lab.read(old), Wishes(), person)
    assert wishes.hold is held
    assert in_words(person.asked[1], "seems_ended")
    assert f"{waiting}  " in person.asked[1]
    takeover.carry_out(takeover.plan(old_lab.read(old), wishes))
    noted = json.loads((old / "task_info" / "held_at_takeover.json").read_bytes()) if held else {}
    assert list(noted) == ([waiting] if held else [])
