"""Text of others, made harmless for whoever looks at it: on a terminal, or in a log that is read line by line. Pure."""

from __future__ import annotations

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def harmless(text: str) -> str:
    """The text on one line, with control and formatting characters shown as escapes, so that no name can act on the
    terminal that shows it, nor look like a line of its own."""
    if text.isprintable():
        return text
    from unicodedata import category  # noqa: PLC0415  (most text needs none, and it would be loaded at every command)

    return "".join(char if category(char) not in _HIDDEN else _escape(char) for char in text)


def _escape(char: str) -> str:
    return repr(char)[1:-1] if not char.isprintable() else char
