"""The columns that text takes on a terminal, and text cut, filled or wrapped to fit them."""

from __future__ import annotations


def width(text: str) -> int:
    """Columns that the text takes: East Asian wide characters two, combining ones none (UAX 11)."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def cut(text: str, room: int) -> str:
    """The text in at most `room` columns, ending in `…` if something had to go."""
    if width(text) <= room:
        return text
    if room <= 0:
        return ""
    if text.isascii():
        return text[: room - 1] + "…"
    used = 0
    for index, char in enumerate(text):
        used += width(char)
        if used > room - 1:
            return text[:index] + "…"
    return text


def fit(text: str, size: int, *, right: bool = False) -> str:
    """The text in exactly `size` columns: cut with `…`, or filled with blanks."""
    text = cut(text, size)
    blanks = " " * (size - width(text))
    return blanks + text if right else text + blanks


def wrapped(text: str, size: int) -> list[str]:
    """The text in pieces of at most `size` columns; an empty text is one empty piece."""
    if width(text) <= size:
        return [text]
    pieces, begin, used = [], 0, 0
    for index, char in enumerate(text):
        wide = width(char)
        if used + wide > size and index > begin:
            pieces.append(text[begin:index])
            begin, used = index, 0
        used += wide
    return [*pieces, text[begin:]]
