"""Convert the values in a query or a path to the JSON that a verb takes there. Pure: a schema says what a text may be.

Of a list the items stand with commas between them, or under the same name several times.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from wire.errors import BadRequestError
from wire.message import Message

_WHOLE = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,300}(\.[0-9]{1,300})?([eE][+-]?[0-9]{1,2})?", re.ASCII)
_SHOWN = 60
_WORDS = {"true": True, "1": True, "false": False, "0": False}
FLAG, TEXT, WHOLE = ({"type": kind} for kind in ("boolean", "string", "integer"))
"""Schemas of what no verb takes."""


def typed(pairs: Iterable[tuple[str, str]], takes: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters. Raises BadRequestError for a name that is none, and for one that stands twice and is no list."""
    found: dict[str, Any] = {}
    for name, text in pairs:
        if name not in takes:
            raise BadRequestError(Message("no_parameter", name=name, known=tuple(sorted(takes))))
        schema = takes[name]
        if (items := _items(schema)) is not None:
            found.setdefault(name, []).extend(typed_one(one, items) for one in text.split(",") if one)
        elif name in found:
            raise BadRequestError(Message("parameter_twice", name=name))
        else:
            found[name] = typed_one(text, schema)
    return found


def checked(pairs: Iterable[tuple[str, str]], takes: Mapping[str, Any]) -> dict[str, Any]:
    """`typed`, of which no verb looks at the flags. Raises BadRequestError for one that is neither true nor false,
    too."""
    found = typed(pairs, takes)
    for name, value in found.items():
        if takes[name] is FLAG and not isinstance(value, bool):
            shown = json.dumps(value[:_SHOWN], ensure_ascii=False)
            raise BadRequestError(Message("wrong_value", where=name, found=shown, expected=Message("true_or_false")))
    return found


def check_none(pairs: Iterable[tuple[str, str]]) -> None:
    """Raises BadRequestError for any parameter."""
    typed(pairs, {})


def typed_one(text: str, schema: Mapping[str, Any]) -> Any:
    """A text as the kind that may stand there; as it is where it is nothing else."""
    kinds = {kind for one in _ways(schema) for kind in _kinds(one)}
    if "boolean" in kinds and text in _WORDS:
        return _WORDS[text]
    if "null" in kinds and text == "null":
        return None
    if kinds & {"integer", "number"} and _WHOLE.fullmatch(text):
        return int(text)
    if "number" in kinds and _NUMBER.fullmatch(text):
        return float(text)
    return text


def _ways(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(schema.get("anyOf", (schema,)))


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    kind = schema.get("type", "string")
    return [kind] if isinstance(kind, str) else list(kind)


def _items(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the schema of a list's items; None where no list is allowed."""
    for way in _ways(schema):
        if way.get("type") == "array":
            items: Mapping[str, Any] = way.get("items", {})
            return items
    return None
