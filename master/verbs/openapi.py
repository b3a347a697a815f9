"""The OpenAPI document of all verbs, made from their table: what each takes and gives, and who may call it. Pure.

Owns the document's form; what it says is the table's, the structs' and their docstrings'.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from types import UnionType
from typing import Any, get_args

import msgspec

from master.verbs.base import Verb
from master.verbs.openapi_routes import SECURITY, routes
from wire import errors
from wire.routes import RPC

PATH = RPC
"""Where a verb is over HTTP: one path for each."""
REF = "#/components/schemas/"
_OF_VERBS = re.compile(r"^[a-z_.]+(, [a-z_.]+)*: ")
_INSIDE = ("type", "item_type", "key_type", "value_type")
ABOUT = (
    "Muster over HTTP (docs/web.md). Every verb of the master is a path: the name behind "
    f"`{PATH}` is the method of JSON-RPC (docs/wire.md), the request body its params, the body of the answer its "
    "result. Tasks, nodes and other things that people know also have routes of their own."
)


def document(verbs: Mapping[str, Verb], version: str) -> dict[str, Any]:
    """The whole, of the OpenAPI version 3.1. `version`: Muster's."""
    schemas = Schemas(verbs)
    rpc = {f"{PATH}{name}": {"post": _operation(name, verb, schemas)} for name, verb in verbs.items()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Muster", "version": version, "description": ABOUT},
        "tags": [{"name": noun} for noun in dict.fromkeys(name.partition(".")[0] for name in verbs)],
        "paths": {**rpc, **routes(rpc)},
        "security": [{"token": []}, {"session": []}],
        "components": {"schemas": {**schemas.shared, "Problem": _problem()}, "securitySchemes": SECURITY},
    }


def prose(text: str | None) -> str:
    """A docstring as paragraphs, each on one line."""
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def params_prose(kind: type) -> tuple[str, bool]:
    """Return what the docstring of parameters says, without the names of the verbs that it begins with; and whether it
    does begin with them, that is, says more than what the parameters are."""
    told = prose(kind.__doc__)
    return _OF_VERBS.sub("", told), _OF_VERBS.match(told) is not None


def results_of(verb: Verb) -> tuple[Any, ...]:
    """The types of which one is what a verb answers."""
    return get_args(verb.result) if isinstance(verb.result, UnionType) else (verb.result,)


class Schemas:
    """The JSON schemas of what verbs take and give. `shared`: those that others refer to, by their names."""

    def __init__(self, verbs: Mapping[str, Verb]) -> None:
        self._kinds = list(dict.fromkeys(kind for verb in verbs.values() for kind in (verb.params, *results_of(verb))))
        found, components = msgspec.json.schema_components(self._kinds, ref_template=REF + "{name}")
        self._found = dict(zip(self._kinds, found, strict=True))
        self._params = {self._name(verb.params) for verb in verbs.values()}
        self._components = components
        self._given = {one.__name__: one for verb in verbs.values() for one in _structs(results_of(verb))}

    @cached_property
    def shared(self) -> dict[str, Any]:
        """Return the schemas that are referred to, under the names that people read: a view of a task is a task to
        them."""
        schemas = {_public(name): self._told(name) for name in self._components if name not in self._params}
        return dict(sorted(schemas.items()))

    def taken(self, kind: Any) -> dict[str, Any]:
        """Return the whole schema of a verb's parameters: no other verb refers to it."""
        return {**self._told(self._name(kind)), "description": params_prose(kind)[0]}

    def given(self, verb: Verb) -> dict[str, Any]:
        """Return the schema of a verb's results: one reference or several."""
        kinds = [_renamed(self._found[kind]) for kind in results_of(verb)]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}

    def _name(self, kind: Any) -> str:
        return str(self._found[kind]["$ref"]).removeprefix(REF)

    def _told(self, name: str) -> dict[str, Any]:
        schema: dict[str, Any] = _renamed(self._components[name])
        schema.pop("title", None)
        if "description" in schema:
            schema["description"] = prose(schema["description"])
        if name in self._given:
            _always_there(self._given[name], schema)
        return schema


def example(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A request: what must be said, and of the rest that of which its struct gives an example."""
    wanted = schema.get("required", ())
    fields: dict[str, Any] = schema["properties"]
    return {name: _value(name, field) for name, field in fields.items() if name in wanted or "examples" in field}


def _operation(name: str, verb: Verb, schemas: Schemas) -> dict[str, Any]:
    told, taken = prose(verb.handle.__doc__), schemas.taken(verb.params)
    answer = {"description": "The answer.", "content": {"application/json": {"schema": schemas.given(verb)}}}
    refused = {
        "description": "Why not.",
        "content": {"application/problem+json": {"schema": {"$ref": f"{REF}Problem"}}},
    }
    body = {
        "required": bool(taken.get("required")),
        "content": {"application/json": {"schema": taken, "example": example(taken)}},
    }
    return {
        "operationId": name,
        "tags": [name.partition(".")[0]],
        "summary": told.partition(". ")[0].partition("\n")[0].removesuffix("."),
        "description": told,
        "requestBody": body,
        "responses": {"200": answer, "default": refused},
        "x-muster-role": verb.role,
        "x-muster-scope": verb.scope,
        "x-muster-whose": verb.whose,
        "x-muster-rate": verb.rate or None,
        "x-muster-repeatable": verb.repeatable,
    }


def _problem() -> dict[str, Any]:
    codes = [kind.code for kind in errors.every()]
    code = {"type": "string", "enum": codes, "description": "The stable name of what is wrong."}
    detail = {"type": "string", "description": "The error and what to do about it, for people."}
    key = {"type": "string", "description": "The key of what `detail` says, where it has one (docs/wire.md, Messages)."}
    args = {"type": "object", "description": "The values of what `detail` says."}
    properties = {"code": code, "detail": detail, "key": key, "args": args}
    return {"type": "object", "properties": properties, "required": ["code", "detail"]}


def _structs(kinds: tuple[Any, ...]) -> Iterator[type[msgspec.Struct]]:
    """All structs in these types, wherever in them."""
    seen: set[Any] = set()
    ahead: list[Any] = [msgspec.inspect.type_info(kind) for kind in kinds]
    while ahead:
        info = ahead.pop()
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls in seen:
                continue
            seen.add(info.cls)
            yield info.cls
            ahead += [field.type for field in info.fields]
        ahead += [getattr(info, name) for name in _INSIDE if hasattr(info, name)]
        ahead += getattr(info, "types", ())


def _always_there(kind: type[msgspec.Struct], schema: dict[str, Any]) -> None:
    """Of what is given no key is left out, unless its struct says so; and nobody needs a default."""
    if not kind.__struct_config__.omit_defaults:
        fields = msgspec.structs.fields(kind)
        schema["required"] = [field.encode_name for field in fields if field.default is not msgspec.UNSET]
        for field in schema["properties"].values():
            field.pop("default", None)


def _public(name: str) -> str:
    return name.removesuffix("View")


def _renamed(schema: Any) -> Any:
    """A copy in which references lead to public names."""
    if isinstance(schema, list):
        return [_renamed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    renamed = {key: _public(value) if key == "$ref" else _renamed(value) for key, value in schema.items()}
    if "$ref" in renamed.get("propertyNames", ()):
        del renamed["propertyNames"]  # msgspec tells this of enums since version 0.23 only
    if renamed.get("items") is False and renamed.get("maxItems") == len(renamed.get("prefixItems", ())):
        # No more than these, as their number says: makers of clients want to read of what kind they are.
        kinds = [kind for at, kind in enumerate(renamed["prefixItems"]) if kind not in renamed["prefixItems"][:at]]
        renamed["items"] = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    return renamed


def _value(name: str, schema: Mapping[str, Any]) -> Any:
    if "examples" in schema:
        return schema["examples"][0]
    for kind in schema.get("anyOf", ()):
        return _value(name, kind)
    if "enum" in schema:
        return schema["enum"][0]
    plain = {"integer": max(1, schema.get("minimum", 1)), "number": 1.0, "boolean": True, "array": [], "object": {}}
    return plain.get(schema.get("type", ""), "" if "contentEncoding" in schema else name.upper())
