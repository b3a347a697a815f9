"""Text of others, made harmless for whoever looks at it: on a terminal, or in a log that is read line by line. Pure."""

from __future__ import annotations

from json import dumps

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def harmless(text: str) -> str:
    """The text on one line, with control and formatting characters shown as escapes, so that no name can act on the
    terminal that shows it, nor look like a line of its own."""
    if text.isprintable():
        return text
    return "".join(_escape(char) if _is_hidden(char) else char for char in text)


def harmless_json(text: str) -> str:
    """JSON that says the same, in which no character acts on the terminal that shows it: JSON leaves DEL, the C1
    controls and what turns the direction of writing as they are. Line ends between its values stay."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(dumps(char)[1:-1] if char != "\n" and _is_hidden(char) else char for char in text)


def _is_hidden(char: str) -> bool:
    from unicodedata import category  # noqa: PLC0415  (most text needs none, and it would be loaded at every command)

    return not char.isprintable() and category(char) in _HIDDEN


def _escape(char: str) -> str:
    return repr(char)[1:-1] if not char.isprintable() else char
