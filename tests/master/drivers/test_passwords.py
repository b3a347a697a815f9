"""The password file: the old system's one line, or a line for each; never read where others can, never shown."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from master.drivers.passwords import Passwords, load
from master.nodes.registry import NodeConfig
from tests.faults import fault_in, refused
from wire.message import Message


def node(name: str, user: str = "lab") -> NodeConfig:
    return NodeConfig(name=name, gpu_count=0, ip="10.0.0.1", user_name=user)


@pytest.fixture
def psw(tmp_path: Path) -> Path:
    path = tmp_path / "psw"
    path.touch(mode=0o600)
    return path


@pytest.mark.parametrize(
    ("text", "password"),
    [
        ("secret", "secret"),
        ("secret\n", "secret"),
        ("secret\r\n", "secret"),
        ("\n\nsecret\n\n", "secret"),
        (" with blanks \n", " with blanks "),
        ("with blank:colon\n", "with blank:colon"),
        ("*:with:colon\n", "with:colon"),
        ("#hash\n", "#hash"),
        ("\ufeff密码\n", "密码"),
    ],
)
def test_one_line_is_the_password_of_all_whatever_it_holds(text: str, password: str, psw: Path) -> None:
    psw.write_bytes(text.encode())
    assert load(psw).of(node("a")) == load(psw).of(node("b", "other")) == password


def test_a_line_that_may_be_the_last_of_several_is_not_sent_to_every_machine(psw: Path) -> None:
    psw.write_text("gpu1:secret\n", encoding="utf-8")
    assert fault_in(psw, lambda: load(psw)) == Message("passwords_ambiguous")
    psw.write_text("# passwords\ngpu1:secret\n", encoding="utf-8")
    assert load(psw).of(node("gpu1")) == "secret"
    assert load(psw).of(node("b", "other")) is None


def test_several_lines_name_nodes_users_or_all_others(psw: Path) -> None:
    psw.write_text("# ours\nn1:first:with colon\n\nlab:second\n*:third \r\n", encoding="utf-8")
    table = load(psw)
    assert table.of(node("n1")) == "first:with colon"
    assert table.of(node("n2")) == "second"
    assert table.of(node("n3", "guest")) == "third "
    psw.write_text("# only one\nn1:first\n", encoding="utf-8")
    assert (load(psw).of(node("n1")), load(psw).of(node("n2"))) == ("first", None)


def test_a_missing_or_empty_file_holds_no_password(psw: Path) -> None:
    assert load(psw).of(node("a")) is None
    psw.unlink()
    assert Passwords(psw).of(node("a")) is None


def test_the_file_is_read_anew_each_time(psw: Path) -> None:
    passwords = Passwords(psw)
    psw.write_text("old\n", encoding="utf-8")
    assert passwords.of(node("a")) == "old"
    psw.write_text("new\n", encoding="utf-8")
    assert passwords.of(node("a")) == "new"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644, 0o666])
def test_a_file_that_others_may_touch_is_refused_with_what_to_type(mode: int, psw: Path) -> None:
    psw.write_text("hush\n", encoding="utf-8")
    psw.chmod(mode)
    assert refused(lambda: load(psw)) == Message("passwords_open", path=str(psw))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a:hush\nhush hush\n", 2),
        ("a:hush\n\n:hush\n", 3),
        ("a:hush\nb:\n", 2),
    ],
)
def test_a_line_that_names_nobody_is_told_by_its_number_only(text: str, line: int, psw: Path) -> None:
    psw.write_text(text, encoding="utf-8")
    assert fault_in(psw, lambda: load(psw)) == Message("passwords_line", line=line)


def test_what_is_not_utf_8_or_not_a_file_is_told(psw: Path) -> None:
    psw.write_bytes(b"hush\xff\n")
    assert fault_in(psw, lambda: load(psw)) == Message("passwords_not_utf8")
    psw.unlink()
    os.mkdir(psw, 0o700)  # noqa: PTH102  (with its mode)
    said = Message("passwords_unreadable", path=str(psw), detail=os.strerror(errno.EISDIR))
    assert refused(lambda: load(psw)) == said
