"""What a program that was written for a former OpenAPI document would find broken in a newer one. Pure.

`/api/v1` only ever grows: a request that was right stays right, an answer keeps what it always had, and nobody needs
more rights than before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

RANKS = ("anyone", "viewer", "user", "admin")
LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems")
UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")
JSON = "application/json"


class Comparison:
    """Of two whole documents."""

    def __init__(self, former: Mapping[str, Any], newer: Mapping[str, Any]) -> None:
        self._former = former
        self._newer = newer
        self._seen: set[tuple[str, str, bool]] = set()

    def breaks(self) -> Iterator[str]:
        """What was removed or narrowed, each in a line."""
        for path, methods in self._former["paths"].items():
            for method, told in methods.items():
                where = f"{method.upper()} {path}"
                now = self._newer["paths"].get(path, {}).get(method)
                if now is None:
                    yield f"{where}: gone"
                else:
                    yield from self._operation(where, told, now)

    def _operation(self, where: str, told: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
        role = "x-muster-role"
        needed, before = now.get(role, "anyone"), told.get(role, "anyone")
        if RANKS.index(needed) > RANKS.index(before):
            yield f"{where}: needs the role {needed}, not {before}"
        yield from self._taken(f"{where} takes", _body(told), _body(now))
        for status, answer in told["responses"].items():
            if status not in now["responses"]:
                yield f"{where}: answers {status} no more"
            elif JSON in answer.get("content", {}):
                yield from self._given(f"{where} gives", _json(answer), _json(now["responses"][status]))

    def _taken(self, where: str, told: Any, now: Any) -> Iterator[str]:
        """Each value that was right is right."""
        before, after = self._ways(told, self._former), self._ways(now, self._newer)
        for kind, way in before.items():
            if kind not in after:
                yield f"{where}: {kind} no more"
                continue
            yield from self._narrower(where, way, after[kind])
            yield from self._inside(where, way, after[kind], is_given=False)

    def _given(self, where: str, told: Any, now: Any) -> Iterator[str]:
        """Whoever reads it finds all that was always there, of a kind that it could be."""
        before, after = self._ways(told, self._former), self._ways(now, self._newer)
        for kind, way in after.items():
            if kind not in before:
                yield f"{where}: may be {kind} now"
            else:
                yield from self._inside(where, before[kind], way, is_given=True)

    def _inside(self, where: str, told: Any, now: Any, *, is_given: bool) -> Iterator[str]:
        step = self._given if is_given else self._taken
        if "properties" in told:
            needed = set(now.get("required", ())), set(told.get("required", ()))
            lost = needed[1] - needed[0] if is_given else needed[0] - needed[1]
            yield from (f"{where}.{name}: {'not always' if is_given else 'must be'} there" for name in sorted(lost))
            for name, field in told["properties"].items():
                if name not in now.get("properties", {}):
                    yield f"{where}.{name}: gone"
                elif self._is_new(told, name, is_given=is_given):
                    yield from step(f"{where}.{name}", field, now["properties"][name])
        for key, sign in (("items", "[]"), ("additionalProperties", "{}")):
            if isinstance(told.get(key), dict) and isinstance(now.get(key), dict):
                yield from step(f"{where}{sign}", told[key], now[key])

    def _is_new(self, told: Mapping[str, Any], name: str, *, is_given: bool) -> bool:
        """Was this field not compared yet? What refers to itself, or is referred to often, is compared once."""
        key = str(id(told)), name, is_given
        if key in self._seen:
            return False
        self._seen.add(key)
        return True

    @staticmethod
    def _narrower(where: str, told: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
        if "enum" in now and not set(now["enum"]) >= set(told.get("enum", (None,))):
            yield f"{where}: of {told.get('enum', 'any')} only {now['enum']}"
        for key in LOWER:
            if now.get(key, float("-inf")) > told.get(key, float("-inf")):
                yield f"{where}: {key} {now[key]}"
        for key in UPPER:
            if now.get(key, float("inf")) < told.get(key, float("inf")):
                yield f"{where}: {key} {now[key]}"
        if now.get("pattern", told.get("pattern")) != told.get("pattern"):
            yield f"{where}: pattern {now['pattern']}"

    def _ways(self, schema: Any, document: Mapping[str, Any]) -> dict[str, Any]:
        """What a value may be, by its kind; of several of a kind the second is told from the first by its place."""
        found: dict[str, Any] = {}
        for one in schema.get("anyOf", [schema]):
            way = one
            while "$ref" in way:
                way = document["components"]["schemas"][way["$ref"].rpartition("/")[2]]
            kinds = way.get("type", "string" if "enum" in way else "anything")
            for kind in [kinds] if isinstance(kinds, str) else kinds:
                found[kind if kind not in found else f"{kind} {len(found) + 1}"] = way
        return found


def _body(operation: Mapping[str, Any]) -> Any:
    """What a request may say as JSON; nothing where it says something else, or nothing."""
    content: Mapping[str, Any] = operation.get("requestBody", {}).get("content", {})
    return content.get(JSON, {}).get("schema", {"type": "object"})


def _json(answer: Mapping[str, Any]) -> Any:
    return answer["content"][JSON]["schema"]
