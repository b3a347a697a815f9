"""Bytes in a request that are not UTF-8, as Python keeps them: in a file name, a word or a variable."""

from __future__ import annotations

from client.refusals import coded_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def not_text(params: Any) -> Exception:
    """The error for a request that cannot be sent, which names the place in it and the byte."""
    place, text = _first(params, "") or ("the request", "")
    return coded_error("bad_request", "bytes_not_utf8", where=place, text=shown(text))


def shown(text: str) -> str:
    """The text for people, with the bytes that are not UTF-8 as escapes."""
    return f"'{text.encode(errors='surrogateescape').decode(errors='backslashreplace')}'"


def _first(value: Any, place: str) -> tuple[str, str] | None:
    """Where the first such text is, and the text."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return place or "the request", value
        return None
    if isinstance(value, dict):
        parts = [(key, f"a name in {place}" if place else "a name") for key in value]
        parts += [(one, f"{place}.{key}" if place else key) for key, one in value.items()]
    elif isinstance(value, (list, tuple)):
        parts = [
            (one, f"{place}, word {at}" if place == "command" else f"{place}[{at}]") for at, one in enumerate(value, 1)
        ]
    else:
        return None
    return next((found for one, where in parts if (found := _first(one, where)) is not None), None)
