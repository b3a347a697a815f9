"""Secrets in conf.json and the registry, for who is shown the files: a mark stands for each, and is taken back for it.

A mark is the secret's number in its file, so that it means something only beside that very file. It is taken for a
secret only under a key of the same name: moved under another, the secret could be read. Owns which keys hold one; like
`inline_secrets`, which refuses files that others may read, it never puts one into words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from master.edited_files import json_text
from master.secrets.inline_secrets import TOKEN_FILE
from wire.errors import BadRequestError
from wire.message import Message

_MARK = re.compile(r"\*{8} ([0-9]{1,6})")


class _Place(NamedTuple):
    """A text under a key that may hold a secret: where it stands, with its quotes."""

    key: str
    begin: int
    end: int


def masked(text: str) -> str:
    """The file's text with a mark for each secret."""
    for number, place in reversed(list(enumerate(_secrets(text), 1))):
        text = f'{text[: place.begin]}"******** {number}"{text[place.end :]}'
    return text


def unmasked(text: str, before: str) -> str:
    """The text with the secrets of the file as it was in the place of their marks. Raises BadRequestError for a mark
    that means none, or stands where its secret did not."""
    secrets = list(_secrets(before))
    for place in reversed(list(_places(text))):
        found = _MARK.fullmatch(json.loads(text[place.begin : place.end]))
        if found is None:
            continue
        secret = secrets[int(found[1]) - 1] if 0 < int(found[1]) <= len(secrets) else None
        if secret is None or secret.key != place.key:
            raise BadRequestError(Message("mark_elsewhere", key=place.key))
        text = text[: place.begin] + before[secret.begin : secret.end] + text[place.end :]
    return text


def _secrets(text: str) -> Iterator[_Place]:
    return (place for place in _places(text) if _is_secret(place.key, json.loads(text[place.begin : place.end])))


def _is_secret(key: str, value: str) -> bool:
    if key == "influx.token":
        return bool(value) and not value.startswith(TOKEN_FILE)
    if key == "proxy":
        try:
            return bool(urlsplit(value).password)
        except ValueError:
            return True
    return key == "notify.urls" or (key == "influx.url" and "@" in value)


def _places(text: str) -> Iterator[_Place]:
    """All texts under keys that may hold a secret, in their order."""
    begin = json_text.start(text)
    for part in json_text.parts(text, begin) if text[begin : begin + 1] in ("{", "[") else []:
        if not part.key and text[part.value] == "{":
            yield from _texts(text, part.value, {"proxy": "proxy"})
        elif part.key == "influx" and text[part.value] == "{":
            yield from _texts(text, part.value, {"token": "influx.token", "url": "influx.url"})
        elif part.key == "notify" and text[part.value] == "{":
            for inner in json_text.parts(text, part.value):
                if inner.key == "urls" and text[inner.value] == "[":
                    items = json_text.parts(text, inner.value)
                    yield from (_Place("notify.urls", one.value, one.end) for one in items if text[one.value] == '"')


def _texts(text: str, at: int, keys: dict[str, str]) -> Iterator[_Place]:
    for part in json_text.parts(text, at):
        if part.key in keys and text[part.value] == '"':
            yield _Place(keys[part.key], part.value, part.end)
