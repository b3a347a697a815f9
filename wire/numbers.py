"""Whole numbers in texts that others wrote: header fields, parts of ids, the output of a program."""

from __future__ import annotations

DIGITS = 18
"""So many fit into 64 bits. Python itself refuses to read a number of more than 4,300 digits."""


def whole_number(text: str, digits: int = DIGITS) -> int | None:
    """Return the number that a text of at most so many ASCII digits stands for; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None
