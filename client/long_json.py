"""JSON of any length. Long texts are read and written by msgspec, which takes a fifth of the time. Loading msgspec
takes a third of the time of a short command, so Python's own module reads and writes short texts.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LONG = 1 << 22
"""Bytes from which on loading msgspec pays."""
MANY = 1_000
"""Rows that come to about as much."""


def loads(text: bytes) -> Any:
    """Return the value of the JSON text. Raises ValueError."""
    if len(text) < LONG:
        return json.loads(text.decode())  # of bytes it would first find out in which of five encodings they are
    import msgspec

    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None


def dumps(value: Any) -> str:
    """The value on one line."""
    if not isinstance(value, list) or len(value) < MANY:
        return json.dumps(value, ensure_ascii=False)
    import msgspec

    return msgspec.json.encode(value).decode()
