"""`/api/v1` only ever grows: what a program was written for in the first document that was shipped is still so."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from master.verbs.documents import OPENAPI, ROOT
from tests.master.verbs.openapi_growth import Comparison
from wire.routes import RPC

FIRST = Path(__file__).parents[2] / "data" / "openapi" / "first.json"
"""As it was shipped, but for its prose."""
SHIPPED = json.loads((ROOT / OPENAPI).read_text(encoding="utf-8"))


def submit(document: Any) -> Any:
    return document["paths"][f"{RPC}task.submit"]["post"]


def taken(document: Any) -> Any:
    return submit(document)["requestBody"]["content"]["application/json"]["schema"]


def task(document: Any) -> Any:
    return document["components"]["schemas"]["Task"]


@pytest.mark.parametrize("former", sorted(FIRST.parent.glob("*.json")), ids=lambda path: path.stem)
def test_nothing_of_a_former_document_was_removed_or_narrowed(former: Path) -> None:
    assert list(Comparison(json.loads(former.read_text(encoding="utf-8")), SHIPPED).breaks()) == []


BREAKS: dict[str, Callable[[Any], Any]] = {
    "task.submit: gone": lambda new: new["paths"].pop(f"{RPC}task.submit"),
    "task.submit: needs the role admin": lambda new: submit(new).update({"x-muster-role": "admin"}),
    "task.submit takes.gpus: gone": lambda new: taken(new)["properties"].pop("gpus"),
    "task.submit takes.cwd: must be there": lambda new: taken(new)["required"].append("cwd"),
    "task.submit takes.name: string no more": lambda new: taken(new)["properties"]["name"].update({"type": "integer"}),
    "task.submit takes.name: maxLength 3": lambda new: taken(new)["properties"]["name"].update({"maxLength": 3}),
    "task.submit takes.name: of any only": lambda new: taken(new)["properties"]["name"].update({"enum": ["a"]}),
    "task.submit takes.name: pattern": lambda new: taken(new)["properties"]["name"].update({"pattern": "a"}),
    "task.edit gives.gpus: gone": lambda new: task(new)["properties"].pop("gpus"),
    "task.edit gives.gpus: not always there": lambda new: task(new)["required"].remove("gpus"),
    ".gpus: may be string": lambda new: task(new)["properties"]["gpus"].update({"type": "string"}),
    "task.submit: answers 200 no more": lambda new: submit(new)["responses"].pop("200"),
}


@pytest.mark.parametrize("told", BREAKS)
def test_whatever_breaks_a_program_is_found(told: str) -> None:
    newer = copy.deepcopy(SHIPPED)
    BREAKS[told](newer)
    assert any(told in line for line in Comparison(SHIPPED, newer).breaks())


def test_what_comes_on_top_breaks_nobody() -> None:
    newer = copy.deepcopy(SHIPPED)
    newer["paths"][f"{RPC}task.dream"] = copy.deepcopy(submit(newer))
    taken(newer)["properties"]["colour"] = {"type": "string"}
    taken(newer)["properties"]["name"].pop("maxLength")
    task(newer)["properties"]["colour"] = {"type": "string"}
    task(newer)["required"].append("colour")
    assert list(Comparison(SHIPPED, newer).breaks()) == []
