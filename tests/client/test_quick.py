"""What is read without argparse is read as argparse would read it; what is not plain is left to argparse."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.cli.arguments.parser import Parser, build_parser
from client.cli.arguments.quick import Quick
from client.cli.arguments.shared import declare
from client.cli.commands import COMMANDS
from tests.walks import some

WORDS = [
    *("1", "7", "3-5", "a=b", "gpus=2", "7:any", "waiting", "2026-11-22T14:30", "90", "", "-", "-1", "--", "-x", "b c"),
    *("-r5", "--help", "王", "gpu[01-03]", "conf", "list", "name", "id", "--nothing", "--json=1", "bash"),
]
FAMILIES = {name for name in COMMANDS if hasattr(import_module(f"client.cli.commands.{name}"), "ACTIONS")} - {"files"}


class AskedArgparseError(Exception):
    """It was not plain."""


def quick(name: str) -> Quick:
    def asked() -> Parser:
        raise AskedArgparseError

    module = import_module(f"client.cli.commands.{name}")
    return Quick(f"muster {name}", lambda parser: declare(module, parser), asked)


PARSERS = {name: (quick(name), build_parser(name)) for name in COMMANDS}


def read(name: str, words: list[str]) -> dict[str, Any] | None:
    """None: that was argparse's to read."""
    try:
        found: dict[str, Any] = vars(PARSERS[name][0].parse_args(words))
    except AskedArgparseError:
        return None
    return found


def reads_as_argparse(name: str, words: list[str]) -> bool | None:
    """Whether both read the same; None: that was argparse's to read. Moments are told from now on, and the second
    reader reads as much later as that took."""
    began = time.time()
    found = read(name, words)
    if found is None:
        return None
    other = vars(PARSERS[name][1].parse_args(words))
    passed = time.time() - began
    return found.keys() == other.keys() and all(
        abs(value - other[key]) <= passed + 1e-6 if isinstance(value, float) else value == other[key]
        for key, value in found.items()
    )


@st.composite
def command_lines(draw: st.DrawFn) -> tuple[str, list[str]]:
    name = draw(st.sampled_from(sorted(set(COMMANDS) - FAMILIES)))
    options = [word for action in build_parser(name)._actions for word in action.option_strings]
    values = st.sampled_from(WORDS)
    some = st.sampled_from(options)
    pieces = st.one_of(
        values.map(lambda value: [value]),
        some.map(lambda option: [option]),
        st.tuples(some, values).map(list),
        st.tuples(some, values).map(lambda both: ["=".join(both)]),
    )
    return name, [word for piece in draw(st.lists(pieces, max_size=3)) for word in piece]


@settings(max_examples=some(500))
@given(command_lines())
def test_what_is_read_without_argparse_is_what_argparse_reads(line: tuple[str, list[str]]) -> None:
    assert reads_as_argparse(*line) is not False


PLAIN = [
    "submit --gpus 2 --env=torch --name bert --hold --json",
    "submit --after 7 --after 9:any --var A=1 --var B=2 --token submit --token x",
    "queue",
    "queue -a --since 2026-11-22T14:30 --sort gpus -r --limit 3",
    "why 7 --conf x",
    "cancel 1 2 3-5 --json",
    "status --seen",
    "diff 7 --master here",
    "nodes",
    "move 7 1",
]


@pytest.mark.parametrize("line", PLAIN)
def test_what_people_type_every_day_needs_no_argparse(line: str) -> None:
    name, *words = shlex.split(line)
    assert reads_as_argparse(name, words) is True


NOT_PLAIN = [
    "queue --help",
    "queue --limit",
    "queue --limit -1",
    "queue --limit x",
    "queue --sort age",
    "queue -tx",
    "queue --al",
    "queue --all=yes",
    "queue 7",
    "why",
    "why 0",
    "logs 7 8",
    "cancel 1 --json 2",
    "cancel -- 1",
    "submit --gpus=",
    "node list",
    "init --web 80",
    "users add --admin x",
]


@pytest.mark.parametrize("line", NOT_PLAIN)
def test_what_is_wrong_or_not_plain_is_for_argparse(line: str) -> None:
    name, *words = shlex.split(line)
    assert read(name, words) is None


def test_argparse_has_its_say_where_it_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    module = import_module("client.cli.commands.queue")
    parser = Quick("muster queue", lambda quick: declare(module, quick), lambda: build_parser("queue"))
    with pytest.raises(SystemExit) as end:
        parser.parse_args(["--limit", "x"])
    assert end.value.code == 2
    assert "'x' is not a number of rows" in capsys.readouterr().err
    assert parser.parse_args(["-ar"]).reverse


@pytest.mark.real
@pytest.mark.parametrize("line", ["submit --conf /nowhere -- true", "queue --conf /nowhere", "status --conf /nowhere"])
def test_a_command_line_that_is_right_loads_no_argparse(line: str) -> None:
    script = (
        "import sys; from client.cli.main import main; code = main(sys.argv[1:]); "
        "print(code, sorted({'argparse', 'typing', 'gettext', 'importlib', 'subprocess'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {script}", *shlex.split(line)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1 []\n", done.stderr
