"""Whether an answer is of the type that the table of verbs declares for it: every key, no other, in its order."""

from __future__ import annotations

import json
from types import UnionType
from typing import Any, get_args

import msgspec

from master.verbs.table import VERBS

LONG = 500
"""Lists beyond this are believed: looking through them would cost what a test of long ones measures."""


def check_typed(verb: str, result: Any) -> None:
    """Fail unless the result of a verb, as JSON has it, is just what its type says."""
    if verb in VERBS and not _is_long(result):
        declared = VERBS[verb].result
        kinds = get_args(declared) if isinstance(declared, UnionType) else (declared,)
        said = json.dumps(result)
        assert any(_as(kind, said) == said for kind in kinds), f"{verb} answered {said[:500]}, which is no {declared}"


def _is_long(result: Any) -> bool:
    tasks = result.get("tasks") if isinstance(result, dict) else result
    return isinstance(tasks, list) and len(tasks) > LONG


def _as(kind: Any, said: str) -> str | None:
    try:
        value = msgspec.json.decode(said, type=kind)
    except msgspec.ValidationError:
        return None
    return json.dumps(json.loads(msgspec.json.encode(value)))
