"""The spelling of what a task may ask for."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from client.cli.arguments import fields, ids, node_keys, submitting
from client.cli.commands.edit import change
from tests.faults import refusing
from wire.errors import BadRequestError


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


def test_licences_are_counted_behind_an_equals_sign_or_a_colon() -> None:
    assert fields.licences("matlab") == {"matlab": 1}
    assert fields.licences("matlab=2,ansys") == {"matlab": 2, "ansys": 1}
    assert fields.licences("matlab:2,ansys=3") == {"matlab": 2, "ansys": 3}
    assert change("licence=matlab=2") == ("licences", {"matlab": 2})


def test_disk_is_read_as_memory_is() -> None:
    assert asked("--tmp-disk", "50g") == {"tmp_disk_mib": 51200}
    assert change("tmp-disk=20000") == ("tmp_disk_mib", 20000)
    assert node_keys.change("tmp-disk=50g") == ("tmp_disk", 51200)


@pytest.mark.parametrize("text", ["matlab=", "matlab:", "matlab:x", "matlab=x", "matlab=1=2", "matlab:1=2", ":2", "=2"])
def test_what_is_no_licence_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"NAME=N|whole number"):
        fields.licences(text)


def asked(*words: str) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    fields.add(parser)
    return fields.spec(parser.parse_args(words))


def test_gpus_are_named_with_their_nodes_or_without() -> None:
    assert asked("--gpu-ids", "0-2") == {"gpu_ids": [0, 1, 2]}
    assert asked("--gpu-ids", "0", "--gpu-ids", "1") == {"gpu_ids": [1]}, "the last one holds, as of a directive"
    assert asked("--gpu-ids", "n1:0,1", "--gpu-ids", "n2:2") == {"gpus_on": {"n1": [0, 1], "n2": [2]}}
    assert asked("--gpu-ids", "n1:0", "--gpus-on", "n2=2") == {"gpus_on": {"n1": [0], "n2": [2]}}
    assert asked("--gpu-ids", "n[1-2]:0-1") == {"gpus_on": {"n1": [0, 1], "n2": [0, 1]}}
    for wrong, key in ((("n1:0", "n1:1"), "gpus_on_twice"), (("n1:0", "1"), "gpu_ids_of_some_nodes")):
        with refusing(BadRequestError, key):
            asked(*(word for one in wrong for word in ("--gpu-ids", one)))
    for text in ("n1:", ":0", "n1:x", "n1:0;n2:1"):
        with pytest.raises(argparse.ArgumentTypeError):
            fields.gpus_named(text)
    assert change("gpu-ids=n1:0,1") == ("gpus_on", {"n1": [0, 1]})
    assert change("gpu-ids=0,1") == ("gpu_ids", [0, 1])


@pytest.fixture
def in_shanghai(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine on which one types stands there, eight hours ahead of UTC."""
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-23T06:00", 1795384800),
        ("2026-11-23T06:00+08:00", 1795384800),
        ("2026-11-22T22:00Z", 1795384800),
        ("2026-11-23 06:00:00", 1795384800),
        (" 2026-11-23 ", 1795363200),
    ],
)
@pytest.mark.usefixtures("in_shanghai")
def test_a_time_without_a_zone_is_one_of_where_it_is_typed(text: str, at: float) -> None:
    assert fields.begin(text) == at
    assert change(f"begin={text}") == ("begin_at", at)


@pytest.mark.usefixtures("in_shanghai")
def test_a_time_of_day_is_the_next_one_and_so_much_from_now_is_from_now() -> None:
    now = datetime.now()  # noqa: DTZ005  (the times of day of here)
    for minutes in (-1, 1):
        said = now + timedelta(minutes=minutes)
        at = datetime.fromtimestamp(fields.begin(said.strftime("%H:%M:%S")))  # noqa: DTZ006
        assert (at.hour, at.minute, at.second) == (said.hour, said.minute, said.second)
        assert now < at <= now + timedelta(days=1, seconds=60)
    for text, span in (("now+2h", 7200), ("now+1h30m", 5400), ("now+90", 90), ("NOW", 0)):
        before = time.time()
        assert before <= fields.begin(text) - span <= time.time()
    assert change("begin=") == ("begin_at", None)


@pytest.mark.parametrize(
    "text", ["", "now+", "now-2h", "now+1:30", "25:00", "12:60", "6", "tomorrow", "２２:００", "9999-99-99"]
)
def test_what_is_no_time_to_begin_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="not a time: 22:00"):
        fields.begin(text)


def test_what_is_tried_again_is_said_in_words() -> None:
    assert change("retry-on=Fail, lost,fail") == ("retry_on", ["fail", "lost"])
    assert change("retry-on=") == ("retry_on", [])
    assert change("max-retries=") == ("max_retries", 0)
    assert change("on-timeout=requeue") == ("on_timeout", "requeue")
    assert change("on-timeout=") == ("on_timeout", "fail")
    for wrong in ("retry-on=failure", "on-timeout=again", "max-retries=-1"):
        with pytest.raises(argparse.ArgumentTypeError):
            change(wrong)


def test_after_alone_means_after_success() -> None:
    assert fields.after("7,8:any,9:fail") == [
        {"id": 7, "on": "ok"},
        {"id": 8, "on": "any"},
        {"id": 9, "on": "fail"},
    ]
    with pytest.raises(argparse.ArgumentTypeError, match="ID:any"):
        fields.after("7:done")


@pytest.mark.parametrize(
    ("text", "name", "before_s", "main_only"),
    [
        ("USR1@120", "USR1", 120, False),
        ("sigusr1@2m", "USR1", 120, False),
        ("10@120", "USR1", 120, False),
        ("B:TERM@1h", "TERM", 3600, True),
        ("INT", "INT", 60, False),
    ],
)
def test_a_signal_before_the_limit_is_said_as_to_slurm(
    text: str, name: str, before_s: float, *, main_only: bool
) -> None:
    assert fields.early_signal(text) == {"name": name, "before_s": before_s, "main_only": main_only}


@pytest.mark.parametrize("text", ["", "@120", "R:USR1@120", "USR1@", "USR1@soon", "USR 1@5", "USR1@-5"])
def test_what_is_no_signal_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        fields.early_signal(text)


def test_ids_come_in_ranges() -> None:
    assert ids.several("3-5,9") == [3, 4, 5, 9]
    assert ids.several("x") == [ids.Name("x")]
    for wrong in ("5-3", "0", "1.5", "1-", "1-9999999", "²"):
        with pytest.raises(argparse.ArgumentTypeError):
            ids.several(wrong)


def test_nodes_are_named_as_they_are_told_and_gpus_node_by_node() -> None:
    assert fields.place(fields.nodes("gpu2")) == {"node": "gpu2"}
    assert fields.place(fields.nodes("gpu[08-10],big")) == {"node_list": ["gpu08", "gpu09", "gpu10", "big"]}
    parser = argparse.ArgumentParser()
    fields.add(parser)
    said = fields.spec(parser.parse_args(["--node", "a,b", "--gpus-on", "c=0", "--gpus-on", "d=1"]))
    assert said == {"node_list": ["a", "b"], "gpus_on": {"c": [0], "d": [1]}}
    assert fields.spec(parser.parse_args(["--node", "a"])) == {"node": "a"}
    assert fields.gpu_ids("0,2-4") == [0, 2, 3, 4]
    assert fields.gpus_on("gpu1=0,1;gpu2=2-3") == {"gpu1": [0, 1], "gpu2": [2, 3]}
    assert fields.gpus_on("gpu[1-2]=0") == {"gpu1": [0], "gpu2": [0]}
    assert change("gpus-on=gpu1=0") == ("gpus_on", {"gpu1": [0]})
    assert change("gpus-on=") == ("gpus_on", {})
    assert change("node=") == ("node", None)
    for read, wrong in (
        (fields.gpu_ids, "3-1"), (fields.gpu_ids, "0-"), (fields.gpu_ids, "0-99999999"), (fields.gpus_on, "gpu1"),
        (fields.gpus_on, "gpu1="), (fields.gpus_on, "=0"), (fields.gpus_on, "a=0;a=1"), (fields.nodes, "gpu[1-2000]"),
    ):  # fmt: skip
        with pytest.raises(argparse.ArgumentTypeError):
            read(wrong)


def test_edits_speak_like_submit_and_an_empty_value_takes_back() -> None:
    assert change("time-limit=2h") == ("time_limit_s", 7200)
    assert change("time_limit_s=".replace("_s", "")) == ("time_limit_s", None)
    assert change("after=") == ("after", [])
    assert change("urgent=no") == ("urgent", False)
    assert change("var.A=x=y") == ("variables", {"A": "x=y"})
    assert change("var=") == ("variables", {})
    with pytest.raises(argparse.ArgumentTypeError, match="no key 'gpu'"):
        change("gpu=1")


def test_whose_a_task_is_can_be_said_in_an_edit_and_at_a_submit() -> None:
    assert change("owner=bob") == ("owner", "bob")
    parser = argparse.ArgumentParser(prog="muster submit")
    submitting.arguments(parser, batch=True)
    assert submitting.parse(parser, ["--as", "bob", "--", "true"]).as_user == "bob"
    assert submitting.parse(parser, ["--", "true"]).as_user is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--array", "0-2", "--sweep", "lr=0.1"], "--array and --sweep: give one of them"),
        (["--cap", "2"], "--cap and --max-fails are for --array or --sweep"),
        (["--sweep", "lr=1", "--sweep", "lr=2"], "--sweep: a name stands there twice"),
    ],
)
def test_an_array_that_is_half_or_twice_asked_for_is_refused_with_what_to_give(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    submitting.add_arrays(parser)
    with pytest.raises(SystemExit):
        submitting.array_of(parser, parser.parse_args(words))
    assert told in capsys.readouterr().err
