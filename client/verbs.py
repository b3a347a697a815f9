"""The verbs of the master, as this version of Muster knows them: read from the OpenAPI document that comes with it.

Asks no master. Owns which keys a verb is told with; how that is shown is not its business.
"""

from __future__ import annotations

import json
import os

import wire
from client.refusals import coded_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PATH = "/api/v1/rpc/"
_REF = "#/components/schemas/"
_JSON = "application/json"
_TOLD = ("role", "scope", "whose", "rate", "repeatable")


def openapi() -> str:
    """The OpenAPI 3.1 document of all verbs, as JSON. Raises OSError."""
    with open(os.path.join(os.path.dirname(wire.__file__), "openapi.json"), encoding="utf-8") as file:
        return file.read()


class Verbs:
    """All verbs. `names`: as they are called on the wire, in the order of the master's table."""

    def __init__(self) -> None:
        whole = json.loads(openapi())
        self._operations: dict[str, Any] = {
            path.removeprefix(_PATH): item["post"] for path, item in whole["paths"].items() if path.startswith(_PATH)
        }
        self.schemas: dict[str, Any] = whole["components"]["schemas"]
        self.names = list(self._operations)

    def of(self, asked: str | None) -> list[str]:
        """All verbs, the one that was asked for, or those of a noun. Raises UnknownMethodError."""
        wanted = [name for name in self.names if asked in (None, name, name.partition(".")[0])]
        if not wanted:
            raise _unknown(str(asked), self.names)
        return wanted

    def one(self, asked: str) -> str:
        """The one verb of this name. Raises UnknownMethodError."""
        if asked not in self._operations:
            raise _unknown(asked, self.names)
        return asked

    def answer(self, name: str) -> dict[str, Any]:
        """The JSON schema of what a verb answers."""
        schema: dict[str, Any] = self._operations[name]["responses"]["200"]["content"][_JSON]["schema"]
        return schema

    def examples(self, name: str, param: str) -> list[str]:
        """Return the documented examples of a parameter's values."""
        schema = self._operations[name]["requestBody"]["content"][_JSON]["schema"]
        return [str(one) for one in schema["properties"][param].get("examples", ())]

    def brief(self, name: str) -> dict[str, Any]:
        """Return who may call a verb, what it takes (a JSON schema a parameter, with `required`), gives and does."""
        told = self._operations[name]
        schema = told["requestBody"]["content"][_JSON]["schema"]
        params = {key: {"required": key in schema["required"], **one} for key, one in schema["properties"].items()}
        return {
            "verb": name,
            **{key: told[f"x-muster-{key}"] for key in _TOLD},
            "summary": told["summary"],
            "params": params,
            "result": _given(told),
        }

    def whole(self, name: str) -> dict[str, Any]:
        """The same with all that there is to say. `schemas`: the types that parameters and result refer to, by name;
        `example`: a request."""
        told = self._operations[name]
        body = told["requestBody"]["content"][_JSON]
        return {
            **self.brief(name),
            "description": told["description"],
            "params_description": body["schema"]["description"],
            "schemas": self._referred(_given(told), body["schema"]),
            "example": {"jsonrpc": "2.0", "id": 1, "method": name, "params": body["example"]},
        }

    def kinds(self, schema: dict[str, Any]) -> set[str]:
        """The JSON types that a value by this schema may have; empty where it says none."""
        kinds = {
            kind for one in self._choices(schema) for kind in (one.get("type"), *map(_kind_of, one.get("enum", ())))
        }
        return {str(kind) for kind in kinds if kind}

    def items(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema of what a list by this schema holds; empty where it says none."""
        return next((one["items"] for one in self._choices(schema) if isinstance(one.get("items"), dict)), {})

    def _choices(self, schema: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the schema's alternatives, with references resolved."""
        if "$ref" in schema:
            return self._choices(self.schemas[schema["$ref"].removeprefix(_REF)])
        if "anyOf" in schema:
            return [choice for one in schema["anyOf"] for choice in self._choices(one)]
        return [schema]

    def _referred(self, *schemas: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        ahead = list(schemas)
        while ahead:
            one = ahead.pop(0)
            if isinstance(one, dict):
                name = str(one.get("$ref", "")).removeprefix(_REF)
                if name and name not in found:
                    found[name] = self.schemas[name]
                    ahead.append(found[name])
                ahead += one.values()
            elif isinstance(one, list):
                ahead += one
        return found


def _kind_of(value: Any) -> str:
    return "string" if isinstance(value, str) else "integer"


def _given(told: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = told["responses"]["200"]["content"][_JSON]["schema"]
    return schema


def _unknown(asked: str, names: list[str]) -> Exception:
    from difflib import get_close_matches

    close = get_close_matches(asked, names, 1)
    if close:
        return coded_error("unknown_method", "verb_not_known_but", verb=asked, meant=close[0])
    return coded_error("unknown_method", "verb_not_known", verb=asked)
