"""File names as text on the wire, and back, without loss: JSON holds characters, a name on Linux is any bytes.

Bytes that are not UTF-8 (archives of other systems bring them: GBK, Latin-1) become characters U+EF80 to U+EFFF, one
for each byte 0x80 to 0xFF; so do the bytes of names that really hold such characters, so that two names never look the
same. No byte below 0x80 can be written so: neither `/` nor `.` nor NUL can be smuggled in. Knows nothing of paths'
meaning.
"""

from __future__ import annotations

from wire.pattern import Pattern

_TO_BYTES = {0xEF80 + index: 0xDC80 + index for index in range(0x80)}
_TO_TEXT = {raw: char for char, raw in _TO_BYTES.items()} | {
    char: "".join(chr(0xEF00 + byte) for byte in chr(char).encode()) for char in _TO_BYTES
}
_UNSAFE = Pattern("[\udc80-\udcff\uef80-\uefff]")
_SURROGATE = Pattern("[\ud800-\udfff]")


def to_text(name: bytes) -> str:
    """A name, or a path, as text that JSON can hold."""
    text = name.decode("utf-8", "surrogateescape")
    return text.translate(_TO_TEXT) if not text.isascii() and _UNSAFE.search(text) else text


def to_bytes(text: str) -> bytes:
    """The name that `to_text` gave this text for. Raises ValueError for half of a surrogate pair."""
    if text.isascii():
        return text.encode("ascii")
    if _SURROGATE.search(text):
        raise ValueError("half of a surrogate pair is not a character")
    return text.translate(_TO_BYTES).encode("utf-8", "surrogateescape")
