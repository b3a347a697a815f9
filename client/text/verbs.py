"""The verbs of the master as people read them: one a line, or one in full. Made from the OpenAPI document.

Owns the words for a JSON schema. Where the document comes from, and what is asked of it, is the command's.
"""

from __future__ import annotations

import json
import textwrap
from itertools import starmap

from client.text.columns import width
from client.text.table import render

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_REF = "#/components/schemas/"
_TELLING = 1 << 53
"""A bound beyond this is there for the decoder, and tells people nothing."""
_WORDS = {"boolean": "true or false", "string": "text", "null": "null"}
_MARGIN = "  "
_WHOSE = {"own": ", of own tasks", "group": ", of own tasks and the group's"}


def verbs_table(verbs: list[dict[str, Any]], room: int | None) -> str:
    """A line a verb: who may call it, whether twice, what it takes and gives, what it does."""
    titles = ["VERB", "ROLE", "SCOPE", "AGAIN", "RESULT", "WHAT", "PARAMS"]
    rows = [
        [
            verb["verb"], verb["role"], verb["scope"], "yes" if verb["repeatable"] else "no",
            type_text(verb["result"]), verb["summary"], ", ".join(starmap(_param, verb["params"].items())),
        ]
        for verb in verbs
    ]  # fmt: skip
    return render(titles, rows, room, flexible={"PARAMS": 12, "RESULT": 8, "WHAT": 24})


def verb_page(verb: dict[str, Any], room: int | None) -> str:
    """All about one verb: its parameters and its answer with every type and limit, and a request."""
    whose = _WHOSE.get(verb["whose"], "")
    lines = [
        verb["verb"],
        *_wrapped(verb["description"], room),
        "",
        f"Who: {verb['role']}{whose}; scope {verb['scope']}; {_again(verb)}.",
        "",
        "Params" if verb["params"] else "No params",
        *_wrapped(verb["params_description"] if verb["params"] else "", room),
        *_fields(verb["params"], room),
        "",
        f"Answer: {type_text(verb['result'])}",
        *_types(verb["schemas"], room),
        "",
        "A request, one line on the data port",
        _MARGIN + json.dumps(verb["example"], ensure_ascii=False),
    ]
    return "\n".join(lines) + "\n"


def _again(verb: dict[str, Any]) -> str:
    if verb["repeatable"]:
        return "to ask twice does no more than to ask once"
    return (
        "to be asked twice only with the same `request_id`"
        if "request_id" in verb["params"]
        else "not to be asked twice"
    )


def type_text(schema: dict[str, Any]) -> str:
    """A JSON schema in words, with its limits."""
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(_REF)
    if "anyOf" in schema:
        return " or ".join(map(type_text, schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    kind = str(schema.get("type", "anything"))
    if kind == "array":
        least = f", at least {schema['minItems']}" if schema.get("minItems") else ""
        items = schema.get("items") or {}
        if "prefixItems" in schema:
            return "[" + ", ".join(map(type_text, schema["prefixItems"])) + "]"
        return f"list of {type_text(items)}{least}" if items else "list"
    if kind == "object":
        inside = schema.get("additionalProperties")
        return f"object of {type_text(inside)}" if isinstance(inside, dict) and inside else "object"
    if kind in {"integer", "number"}:
        return kind + _range(schema.get("minimum"), schema.get("maximum"), schema.get("exclusiveMinimum"))
    if "contentEncoding" in schema:
        return f"bytes in {schema['contentEncoding']}"
    most = schema.get("maxLength")
    return _WORDS.get(kind, kind) + (f" of up to {most} characters" if most else "")


def _range(least: float | None, most: float | None, above: float | None) -> str:
    low, high, over = (None if one is None or abs(one) >= _TELLING else _number(one) for one in (least, most, above))
    if low and high:
        return f" {low} to {high}"
    return "".join(f" {sign} {one}" for sign, one in (("≥", low), (">", over), ("≤", high)) if one)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def _param(name: str, schema: dict[str, Any]) -> str:
    return f"{name}{'' if schema['required'] else '?'}: {type_text(_without_null(schema))}"


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without null if the parameter may be left out instead."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if schema["required"] or len(kinds) == len(schema.get("anyOf", ())):
        return schema
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


def _fields(fields: dict[str, Any], room: int | None) -> Iterator[str]:
    size = max((width(name) for name in fields), default=0)
    for name, schema in fields.items():
        default = schema.get("default")
        left_out = "" if schema["required"] else ", optional" if default is None else f", else {json.dumps(default)}"
        told = type_text(_without_null(schema)) + left_out
        yield from _wrapped(f"{name:<{size}}  {told}", room, indent=size + 4)


def _types(schemas: dict[str, Any], room: int | None) -> Iterator[str]:
    for name, schema in schemas.items():
        yield ""
        if "properties" not in schema:
            yield from _wrapped(f"{name}: {type_text(schema)}", room)
            continue
        yield f"{_MARGIN}{name}"
        yield from _wrapped(schema.get("description", ""), room, margin=_MARGIN * 2)
        always = schema.get("required", ())
        fields = {key: {**one, "required": True} for key, one in schema["properties"].items()}
        size = max((width(key) for key in fields), default=0)
        for key, one in fields.items():
            told = type_text(one) + ("" if key in always else ", not always there")
            yield from _wrapped(f"{key:<{size}}  {told}", room, margin=_MARGIN * 2, indent=size + 6)


def _wrapped(text: str, room: int | None, *, margin: str = _MARGIN, indent: int | None = None) -> list[str]:
    hanging = margin if indent is None else " " * indent
    return [
        line
        for paragraph in text.split("\n\n")
        for line in textwrap.wrap(
            paragraph, max(40, room or 100), initial_indent=margin, subsequent_indent=hanging,
            break_long_words=False, break_on_hyphens=False,
        )
    ]  # fmt: skip
