"""Explains a value that has not the type it should have: the key's path, the value found, the values allowed, and the
nearest right key if one was misspelt. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from wire.message import Message
from wire.pattern import Pattern

SECRET_KEYS = frozenset({"proxy", "token", "urls"})
"""Values of these may hold a password: a message says that they are wrong, never what they are."""

_FOUND_MAX = 60
_AT = Pattern(r"^(?P<what>.*?)(?: - at `(?P<path>\$[^`]*)`)?$", re.DOTALL)
_STEP = Pattern(r"\.(?P<key>[^.\[\]]+)|\[(?P<index>\d+)\]|\[(?P<any>\.\.\.)\]")
_UNKNOWN = Pattern(r"unknown field `(?P<key>.*)`$")
_MISSING = Pattern(r"missing required field `(?P<key>.*)`$")
_EXPECTED = Pattern(r"Expected `(?P<kinds>[^`]*)`(?P<limit>.*?)(?:, got .*)?$", re.DOTALL)
_KINDS: dict[str, Message] = {
    "int": Message("whole_number"), "float": Message("a_number"), "str": Message("a_text"),
    "bool": Message("true_or_false"), "object": Message("an_object"), "array": Message("a_list"),
}  # fmt: skip
_LENGTH = " of length "


def nearest(word: str, known: Iterable[str]) -> str:
    """` (did you mean `x`?)` where something known is near, else nothing."""
    near = _near(word, known)
    return f" (did you mean `{near}`?)" if near else ""


def _near(word: str, known: Iterable[str]) -> str | None:
    import difflib  # noqa: PLC0415  (a start has no use for it)

    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)), None)


def unknown_key(key: str, known: list[str], where: str = "") -> Message:
    """That a key is not known, with the one that was meant where something known is near. `where`: its own path."""
    near = _near(key, known)
    if near is not None:
        return Message("unknown_key_but", where=where, key=key, meant=near, known=tuple(known))
    return Message("unknown_key", where=where, key=key, known=tuple(known))


def explain(message: str, value: Any, kind: Any, prefix: str = "") -> Message:
    """Explain why `value` is not of type `kind`; `message` is msgspec's error. `prefix`: the path of the value in what
    it lies in, such as `[3]`."""
    match = _AT.match(message)
    what, where = (match["what"], match["path"] or "$") if match else (message, "$")
    steps, found, info = _follow(where, value, msgspec.inspect.type_info(kind))
    key = (prefix + "".join(steps)).lstrip(".")
    if unknown := _UNKNOWN.search(what):
        return unknown_key(unknown["key"], _field_names(_unwrapped(info)), key)
    if missing := _MISSING.search(what):
        return Message("missing_key", where=key, key=missing["key"])
    return Message("wrong_value", where=key, found=shown(key, found), expected=_allowed(what, info))


def _follow(where: str, value: Any, info: Any) -> tuple[list[str], Any, Any]:
    """Walk msgspec's path through the value and its type. A `[...]` is some key of an object: the last one is named
    by trying, since msgspec does not say which.
    """
    steps: list[str] = []
    for step in _STEP.finditer(where):
        info = _unwrapped(info)
        if step["key"] is not None:
            steps.append(f".{step['key']}")
            value = value.get(step["key"]) if isinstance(value, dict) else None
            info = _field_type(info, step["key"])
        elif step["index"] is not None:
            steps.append(f"[{step['index']}]")
            value = value[int(step["index"])] if isinstance(value, list) else None
            info = getattr(info, "item_type", None) or getattr(info, "value_type", None)
        else:
            info = getattr(info, "value_type", None)
            name = _offender(value, info)
            steps.append(f".{name}")
            value = value.get(name) if isinstance(value, dict) else None
    return steps, value, info


def _offender(value: Any, info: Any) -> str:
    if isinstance(value, dict) and isinstance(info, msgspec.inspect.StrType):
        return next((str(key) for key, item in value.items() if not isinstance(item, str)), "…")
    return "…"


def _parts(info: Any) -> list[Any]:
    """The types that a value may have, without the wrappers that msgspec puts around them."""
    while isinstance(info, msgspec.inspect.Metadata):
        info = info.type
    return [part for kind in info.types for part in _parts(kind)] if hasattr(info, "types") else [info]


def _unwrapped(info: Any) -> Any:
    """The part of a union that has an inside, else its first."""
    parts = _parts(info)
    return next((part for part in parts if isinstance(part, msgspec.inspect.StructType)), parts[0])


def _field_type(info: Any, key: str) -> Any:
    for field in getattr(info, "fields", ()):
        if field.encode_name == key:
            return field.type
    return None


def _field_names(info: Any) -> list[str]:
    return [field.encode_name for field in getattr(info, "fields", ())]


def _allowed(what: str, info: Any) -> Message | str:
    """Return what may stand there; of another fault than a wrong type the words of msgspec."""
    parts = _parts(info)
    literals = [value for part in parts if isinstance(part, msgspec.inspect.LiteralType) for value in part.values]
    if literals:
        insides = [_KINDS["object"] for part in parts if isinstance(part, msgspec.inspect.StructType)]
        return _any_of([*map(json.dumps, literals), *insides])
    match = _EXPECTED.match(what)
    if match is None:
        return what
    kinds = _any_of([_KINDS.get(kind.strip(), kind.strip()) for kind in match["kinds"].split("|")])
    limit = match["limit"]
    if limit.startswith(_LENGTH):
        return Message("of_length", what=kinds, bound=limit.removeprefix(_LENGTH))
    return Message("within_bound", what=kinds, bound=limit.strip()) if limit else kinds


def _any_of(kinds: list[Message | str]) -> Message | str:
    return kinds[0] if len(kinds) == 1 else Message("one_of_texts", texts=tuple(kinds))


def shown(key: str, found: Any) -> Message | str:
    """A value that is wrong, as a message shows it: not whole where it is long, not at all where it may be secret."""
    if SECRET_KEYS & set(re.split(r"[.\[\]]", key)):
        return Message("not_shown")
    if isinstance(found, list | dict) and len(found) > _FOUND_MAX:
        return Message("with_entries", what=_KINDS["array" if isinstance(found, list) else "object"], count=len(found))
    text = json.dumps(found[:_FOUND_MAX] if isinstance(found, str) else found, ensure_ascii=False, default=str)
    return text if len(text) <= _FOUND_MAX else text[: _FOUND_MAX - 1] + "…"
