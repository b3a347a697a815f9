"""The shapes that the Python API declares are what the master's structs make of an answer: same keys, same types."""

from __future__ import annotations

from typing import Any, NotRequired, get_origin, get_type_hints, is_typeddict

import msgspec

from client import shapes
from master.verbs.openapi import document
from master.verbs.table import VERBS
from tests.cases import each_case

GIVEN: dict[str, Any] = document(VERBS, "0")["components"]["schemas"]
MADE_HERE = {"Note"}
"""What the client puts together of an answer."""
OURS = {name: one for name, one in vars(shapes).items() if is_typeddict(one) and name not in MADE_HERE}
CALLED_OTHERWISE = {"Trust": "Trusted", "Diff": "Differing"}
_OF_TASKS = {"waits_for", "position", "forced", "over_quota", "seq"}
INSIDE = {
    "Task": _OF_TASKS,
    "TaskPage": _OF_TASKS,
    "Part": {"boot_id", "state_id", "address", "machine", "pid", "pid_start"},
}
"""Keys that are answered, and mean something to the master only."""
WORDS: dict[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool, "null": None}


def test_a_shape_is_what_the_master_answers() -> None:
    with each_case() as cases:
        for name in OURS:
            with cases.case(name):
                check_shape(name)


def check_shape(name: str) -> None:
    schema = GIVEN[CALLED_OTHERWISE.get(name, name)]
    declared = get_type_hints(OURS[name])
    always = {key for key, kind in get_type_hints(OURS[name], include_extras=True).items() if not _may_lack(kind)}
    answered = {key: _type(one) for key, one in schema["properties"].items() if key not in INSIDE.get(name, set())}
    assert {key: _plain(kind) for key, kind in declared.items()} == answered
    assert always == set(schema["required"]) - INSIDE.get(name, set())


def _may_lack(kind: Any) -> bool:
    return get_origin(kind) is NotRequired


def _type(schema: dict[str, Any]) -> str:
    """A schema as the annotation that a shape has for it."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        other = {theirs: ours for ours, theirs in CALLED_OTHERWISE.items()}
        return "str" if "enum" in GIVEN[name] else other.get(name, name)
    if "anyOf" in schema:
        return " | ".join(sorted({_type(one) for one in schema["anyOf"]}))
    if "enum" in schema:
        return "str"
    if not schema:
        return "AnyType"
    if schema["type"] == "array":
        return f"list[{_type(schema['items'])}]"
    if schema["type"] == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {_type(values) if values else 'AnyType'}]"
    kind = WORDS[schema["type"]]
    return "None" if kind is None else str(kind.__name__)


def _plain(kind: Any) -> str:
    """An annotation of ours, in the same words."""
    info = msgspec.inspect.type_info(kind)
    return _of(info)


def _of(info: Any) -> str:
    if isinstance(info, msgspec.inspect.UnionType):
        return " | ".join(sorted(map(_of, info.types)))
    if isinstance(info, msgspec.inspect.TypedDictType):
        return info.cls.__name__
    if isinstance(info, msgspec.inspect.ListType):
        return f"list[{_of(info.item_type)}]"
    if isinstance(info, msgspec.inspect.DictType):
        return f"dict[{_of(info.key_type)}, {_of(info.value_type)}]"
    names = {"StrType": "str", "IntType": "int", "FloatType": "float", "BoolType": "bool", "NoneType": "None"}
    return names.get(type(info).__name__, type(info).__name__)
