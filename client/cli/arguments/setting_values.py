"""The value of a setting as people type it, by its unit: `6h`, `2g`, `10%`, `none`.

Owns the syntax; what is allowed is the master's decision.
"""

from __future__ import annotations

import re

from client.cli.arguments import fields
from client.cli.arguments.wrong import wrong

NONE = ("none", "null", "never", "off")
_SIZE = r"([0-9]+(?:\.[0-9]+)?)([kmgtp]?)(?:i?b)?"
_POWERS = " kmgtp"


def read(text: str, unit: str) -> float | str | None:
    """The value on the wire. Raises ArgumentTypeError with what could be typed."""
    said = text.strip()
    if said.lower() in NONE:
        return None
    if unit == "word":
        return said
    if unit == "seconds":
        return 0.0 if re.fullmatch(r"0+(\.0+)?[smhd]?", said) else fields.seconds(said)
    if unit == "bytes":
        return size(said)
    return _share(said) if unit == "share" else fields.number(said)


def size(text: str) -> int:
    """A number of bytes: `2g`, `500M`, `1.5GiB`, `4096`. Raises ArgumentTypeError."""
    match = re.fullmatch(_SIZE, text.strip().lower())
    if not match:
        raise wrong(f"{text!r} is not a size: 4096 (bytes), 500m, 2g")
    return int(float(match[1]) * 1024 ** _POWERS.index(match[2] or " "))


def _share(text: str) -> float:
    match = re.fullmatch(r"([0-9]*\.?[0-9]+)(%?)", text)
    if not match:
        raise wrong(f"{text!r} is not a share: 0.1, or 10%")
    return float(match[1]) / (100 if match[2] else 1)
