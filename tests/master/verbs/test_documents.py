"""What is written of the verbs is what their table says: the OpenAPI document that is shipped, and docs/wire.md."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator, validate

from master.verbs.base import Nothing, Verb
from master.verbs.documents import OPENAPI, ROOT, between, written
from master.verbs.openapi import PATH, document, example
from master.verbs.table import VERBS
from tests.cases import each_case
from wire import errors

SHIPPED = json.loads((ROOT / OPENAPI).read_text(encoding="utf-8"))


class Counted(msgspec.Struct):
    """How often something was `heard`, in the last `window_s` seconds."""

    heard: int
    window_s: float | msgspec.UnsetType = msgspec.UNSET


def hear(_context: object, _params: Nothing) -> Counted:
    """Count. And say
    how often."""
    return Counted(1)


@pytest.mark.parametrize("path", written(), ids=str)
def test_a_file_that_is_made_from_the_table_says_what_the_table_says(path: Path) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == written()[path], "`make documents` writes it anew"


def test_the_document_is_one_of_openapi_3_1() -> None:
    validate(SHIPPED, cls=OpenAPIV31SpecValidator)
    assert SHIPPED["openapi"].startswith("3.1.")
    assert SHIPPED["info"]["version"] == version("muster")
    assert [path.removeprefix(PATH) for path in SHIPPED["paths"] if path.startswith(PATH)] == list(VERBS)
    assert set(SHIPPED["components"]["schemas"]["Problem"]["properties"]["code"]["enum"]) == {
        kind.code for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.MusterError)
    }


def test_a_document_that_is_broken_would_not_be_valid() -> None:
    broken = json.loads(json.dumps(SHIPPED))
    broken["components"]["schemas"].pop("Task")
    with pytest.raises(Exception, match="Task"):
        validate(broken, cls=OpenAPIV31SpecValidator)


def test_the_example_of_a_request_is_one_that_the_verb_takes() -> None:
    with each_case() as cases:
        for name in VERBS:
            with cases.case(name):
                taken = _operation(SHIPPED, name)["requestBody"]["content"]["application/json"]
                msgspec.json.decode(json.dumps(taken["example"]), type=VERBS[name].params)
                assert taken["example"] == example(taken["schema"])


def test_every_verb_says_in_a_sentence_what_it_does_and_what_it_gives_has_its_words() -> None:
    with each_case() as cases:
        for name in VERBS:
            with cases.case(name):
                told = _operation(SHIPPED, name)
                assert 10 < len(told["summary"]) < 130
                assert (told["description"] + " ").startswith(told["summary"])


def test_every_answer_has_words_for_its_fields() -> None:
    schemas = SHIPPED["components"]["schemas"]
    assert [name for name, one in schemas.items() if "properties" in one and not one.get("description", name)] == []


def test_a_verb_that_is_added_to_the_table_is_in_the_document_with_all_that_its_line_says() -> None:
    made = Verb(Nothing, Counted | list[Counted], hear, "user", "read", "none", "env", repeatable=True)
    whole = document({"test.hear": made}, "1")
    validate(whole, cls=OpenAPIV31SpecValidator)
    told = _operation(whole, "test.hear")
    assert (told["summary"], told["description"]) == ("Count", "Count. And say how often.")
    assert [told[f"x-muster-{key}"] for key in ("role", "scope", "whose", "rate", "repeatable")] == [
        "user", "read", "none", "env", True,
    ]  # fmt: skip
    one = {"$ref": "#/components/schemas/Counted"}
    given = told["responses"]["200"]["content"]["application/json"]["schema"]
    assert given == {"anyOf": [one, {"type": "array", "items": one}]}
    counted = whole["components"]["schemas"]["Counted"]
    assert counted["required"] == ["heard"]
    assert counted["description"] == "How often something was `heard`, in the last `window_s` seconds."


def test_a_page_without_the_place_for_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for the verbs"):
        between("# The wire\n", "verbs", "| |\n")


def _operation(whole: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = whole["paths"][PATH + name]["post"]
    return found
