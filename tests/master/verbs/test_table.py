"""The table of verbs: what each line must say."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Generator
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

from master.verbs import tables
from master.verbs.base import Pieces
from master.verbs.table import NOUNS, VERBS
from tests.cases import each_case
from tests.master.typed import check_typed

ROOT = Path(__file__).parents[3]


def test_the_table_is_complete_each_file_beside_it_is_a_noun_and_has_its_verbs_only() -> None:
    files = {path.stem for path in Path(tables.__file__).parent.glob("*.py")} - {"__init__"}
    assert files == set(NOUNS)
    assert list(VERBS) == [name for noun in NOUNS for name in VERBS.of(noun)]
    assert {noun: {name.partition(".")[0] for name in VERBS.of(noun)} for noun in NOUNS} == {n: {n} for n in NOUNS}
    assert VERBS.audited == {name for name, verb in VERBS.items() if verb.is_audited}


@pytest.mark.real
def test_a_verb_is_loaded_with_those_of_its_noun_when_it_is_first_asked_for() -> None:
    script = (
        "import sys; from master.verbs.table import VERBS; loaded = lambda: [name.rpartition('.')[2] for name in "
        "sys.modules if name.startswith('master.verbs.tables.')]; "
        "assert 'no.verb' not in VERBS and loaded() == []; "
        "assert VERBS['log.read'].role == 'viewer' and 'log.none' not in VERBS and 'log' not in VERBS; print(*loaded())"
    )
    said = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=ROOT).stdout
    assert said.split() == ["log"]


@pytest.mark.real
def test_soon_after_the_start_all_verbs_are_loaded_without_anybody_asking() -> None:
    script = (
        "import asyncio; from master.verbs import table; table.CALM_S = table.PAUSE_S = 0; "
        "asyncio.run(table.VERBS.load_all()); table.import_module = None; print(len(table.VERBS))"
    )
    said = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=ROOT).stdout
    assert int(said) == len(VERBS)


def test_every_verb_says_what_it_answers() -> None:
    assert [name for name, verb in VERBS.items() if verb.result is Any] == []


def test_a_verbs_line_declares_what_its_function_returns() -> None:
    with each_case() as cases:
        for name in VERBS:
            with cases.case(name):
                check_returned(name)


def check_returned(name: str) -> None:
    returned = _members(get_type_hints(VERBS[name].handle)["return"])
    declared = _members(VERBS[name].result)
    if Pieces in returned:  # which type they are of is seen where they are answered
        assert returned - {Pieces} <= declared
        assert len(declared) > len(returned - {Pieces})
    else:
        assert returned == declared


def _members(kind: Any) -> set[Any]:
    """The types of which one comes out at the end, awaited or made in slices."""
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        return set().union(*map(_members, get_args(kind)))
    if get_origin(kind) in (Awaitable, Generator):
        return _members(get_args(kind)[-1])
    return {kind}


@pytest.mark.parametrize("wrong", [{"removed": [1], "more": 1}, {}, {"removed": ["1"]}, {"removed": [1.5]}, [1]])
def test_an_answer_that_is_not_what_its_verb_declares_would_be_seen(wrong: Any) -> None:
    check_typed("task.remove", {"removed": [1]})
    with pytest.raises(AssertionError, match=r"task\.remove answered"):
        check_typed("task.remove", wrong)
