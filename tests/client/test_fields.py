"""The spelling of what a task may ask for."""

from __future__ import annotations

import argparse

import pytest

from client.cli.arguments import fields, ids, submitting
from client.cli.commands.edit import change


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("90", 90),
        ("2h", 7200),
        ("1-12:00", 129600),
        ("1h30m", 5400),
        ("0:01:30", 90),
        ("1.5h", 5400),
        ("1-0:0:5", 86405),
    ],
)
def test_times_are_read(text: str, value: float) -> None:
    assert fields.seconds(text) == value


@pytest.mark.parametrize("text", ["", "0", "-5", "1:30", "2x", "1:60:00", "nan", "h", "９"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="not a time"):
        fields.seconds(text)


def test_after_alone_means_after_success() -> None:
    assert fields.after("7,8:any,9:fail") == [
        {"id": 7, "on": "ok"},
        {"id": 8, "on": "any"},
        {"id": 9, "on": "fail"},
    ]
    with pytest.raises(argparse.ArgumentTypeError, match="ID:any"):
        fields.after("7:done")


def test_ids_come_in_ranges() -> None:
    assert ids.several("3-5,9") == [3, 4, 5, 9]
    for wrong in ("5-3", "0", "x", "1-", "1-9999999", "²"):
        with pytest.raises(argparse.ArgumentTypeError):
            ids.several(wrong)


def test_edits_speak_like_submit_and_an_empty_value_takes_back() -> None:
    assert change("time-limit=2h") == ("time_limit_s", 7200)
    assert change("time_limit_s=".replace("_s", "")) == ("time_limit_s", None)
    assert change("after=") == ("after", [])
    assert change("urgent=no") == ("urgent", False)
    assert change("var.A=x=y") == ("variables", {"A": "x=y"})
    with pytest.raises(argparse.ArgumentTypeError, match="no key 'gpu'"):
        change("gpu=1")


def test_whose_a_task_is_can_be_said_in_an_edit_and_at_a_submit() -> None:
    assert change("owner=bob") == ("owner", "bob")
    parser = argparse.ArgumentParser(prog="muster submit")
    submitting.arguments(parser, batch=True)
    assert submitting.parse(parser, ["--as", "bob", "--", "true"]).as_user == "bob"
    assert submitting.parse(parser, ["--", "true"]).as_user is None
