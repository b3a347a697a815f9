"""Changes to a JSON text that leave the rest of it as somebody wrote it: order, indentation, line ends, spelling.

Owns the positions of values in the text. The text must be JSON already, as `json_file.parse` makes sure; the callers
know its meaning. Every function returns the new text and takes the position where its object or list begins.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

_DECODER = json.JSONDecoder()
_BLANKS = re.compile(r"[ \t\r\n]*")


class Part(msgspec.Struct, frozen=True):
    """A member of an object or an item of a list: where it begins, where its value begins, where it ends.

    `key` and `colon` (the colon with the blanks around it) are empty for an item.
    """

    key: str
    colon: str
    begin: int
    value: int
    end: int


def start(text: str) -> int:
    """Where the document's value begins."""
    return _skip(text, 0)


def parts(text: str, at: int) -> list[Part]:
    """Return the members or items of the object or list that begins at `at`, in order."""
    keyed = text[at] == "{"
    found = []
    here = _skip(text, at + 1)
    while text[here] not in "]}":
        begin, key, colon = here, "", ""
        if keyed:
            key, after = _DECODER.raw_decode(text, here)
            here = _skip(text, _skip(text, after) + 1)
            colon = text[after:here]
        end = _DECODER.raw_decode(text, here)[1]
        found.append(Part(key, colon, begin, here, end))
        here = _skip(text, end)
        if text[here] == ",":
            here = _skip(text, here + 1)
    return found


def append(text: str, at: int, written: str) -> str:
    """With one more part at the end, set apart as the others are."""
    there = parts(text, at)
    if not there:
        close = _skip(text, at + 1)
        return f"{text[: at + 1]}\n  {written}\n{text[close:]}"
    return text[: there[-1].end] + _between(text, at, there) + written + text[there[-1].end :]


def drop(text: str, at: int, index: int) -> str:
    """Without one part, and without the comma that set it apart."""
    there = parts(text, at)
    if index:
        return text[: there[index - 1].end] + text[there[index].end :]
    if len(there) > 1:
        return text[: there[0].begin] + text[there[1].begin :]
    return text[: at + 1] + text[_skip(text, there[0].end) :]


def set_member(text: str, at: int, key: str, value: Any) -> str:
    """With a member of the object changed where it stands, or added as its last."""
    there = parts(text, at)
    for part in there:
        if part.key == key:
            return text[: part.value] + _dump(value, part.colon) + text[part.end :]
    colon = there[0].colon if there else ": "
    return append(text, at, _member(key, colon, value))


def drop_member(text: str, at: int, key: str) -> str:
    """Without a member of the object, if it has it."""
    for index, part in enumerate(parts(text, at)):
        if part.key == key:
            return drop(text, at, index)
    return text


def object_like(text: str, at: int, value: dict[str, Any]) -> str:
    """`value` written the way the object at `at` is laid out."""
    there = parts(text, at)
    if not there:
        return json.dumps(value, ensure_ascii=False)
    members = [_member(key, there[0].colon, item) for key, item in value.items()]
    end = _DECODER.raw_decode(text, at)[1]
    return text[at : there[0].begin] + _between(text, at, there).join(members) + text[there[-1].end : end]


def _between(text: str, at: int, there: list[Part]) -> str:
    """Return the text between two parts; if there is only one, the text before it."""
    if len(there) > 1:
        return text[there[0].end : there[1].begin]
    return "," + (text[at + 1 : there[0].begin] or " ")


def _member(key: str, colon: str, value: Any) -> str:
    return _dump(key, colon) + colon + _dump(value, colon)


def _dump(value: Any, colon: str) -> str:
    comma = "," if colon == ":" else ", "
    return json.dumps(value, ensure_ascii=False, separators=(comma, colon if "\n" not in colon else ": "))


def _skip(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return match.end() if match else at
