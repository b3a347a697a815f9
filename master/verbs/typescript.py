"""The shapes of what is answered, as types for the console's pages, made from the OpenAPI document of the verbs.

Owns how a schema is written as a type. Nothing of it is served: the pages are JavaScript, and `tsc` holds them to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

HEAD = "// The answers of the master, as the pages read them. Made by `make documents` from wire/openapi.json.\n"
_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def declarations(schemas: Mapping[str, Any]) -> str:
    """A type for each schema, under its name."""
    return "\n".join([HEAD, *(_declared(name, schema) for name, schema in schemas.items())])


def _declared(name: str, schema: Mapping[str, Any]) -> str:
    if "properties" not in schema:
        return f"export type {name} = {_type(schema)};\n"
    always = schema.get("required", ())
    lines = [f"  {key}{'' if key in always else '?'}: {_type(kind)};" for key, kind in schema["properties"].items()]
    return "\n".join([f"export interface {name} {{", *lines, "}\n"])


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(map(json.dumps, schema["enum"]))
    if "anyOf" in schema:
        return " | ".join(_type(one) for one in schema["anyOf"])
    kind = schema.get("type")
    if kind == "array":
        return f"({_type(schema.get('items') or {})})[]"  # one of our shapes is called Array
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"Record<string, {_type(values) if isinstance(values, Mapping) else 'any'}>"
    return _PLAIN.get(str(kind), "any")
