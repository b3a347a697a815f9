"""A verb's parameters on the command line: KEY=VALUE. A value is JSON where JSON is of the parameter's type, a list of
values with commas where that is a list, and else text: `ids=1,2`, `gpus=2`, `name=7`, `changes='{"priority": 5}'`.

Owns how a value is read. Whether there is such a parameter, and whether it may have that value, the master says.
"""

from __future__ import annotations

import json

from client.cli.arguments.wrong import wrong

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.verbs import Verbs


def pair(text: str) -> tuple[str, str]:
    """KEY=VALUE. Raises ArgumentTypeError."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise wrong(f"{text!r} is not KEY=VALUE")
    return key, value


def typed(verbs: Verbs, name: str, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """The parameters of the verb `name`, each of the type that it should have, if its text can be that."""
    schemas = verbs.brief(name)["params"]
    return {key: _value(verbs, schemas.get(key, {}), text) for key, text in pairs}


def _value(verbs: Verbs, schema: dict[str, Any], text: str) -> Any:
    kinds = verbs.kinds(schema)
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if not kinds or _kind(value) in kinds or (_kind(value) == "integer" and "number" in kinds):
        return value
    if "array" in kinds and "string" not in kinds:
        return [_value(verbs, verbs.items(schema), part.strip()) for part in text.split(",") if part.strip()]
    return text if "string" in kinds else value


def _kind(value: Any) -> str:
    """The name that JSON Schema has for the type of a value."""
    if value is None:
        return "null"
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names[type(value)]
