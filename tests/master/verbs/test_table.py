"""The table of verbs: what each line must say."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

from master.verbs.base import Pieces
from master.verbs.table import VERBS
from tests.master.typed import check_typed


def test_every_verb_says_what_it_answers() -> None:
    assert [name for name, verb in VERBS.items() if verb.result is Any] == []


@pytest.mark.parametrize("name", VERBS)
def test_a_verbs_line_declares_what_its_function_returns(name: str) -> None:
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
