"""Quotas as `KEY=VALUE` of `muster users|groups|projects edit`: `max_total_gpus=4`, `max_running=none`."""

from __future__ import annotations

from client.cli.arguments import fields, pairs

KEYS = ("max_total_gpus", "max_manual_gpus", "max_gpus_per_task", "max_running")


def value(text: str) -> int | None:
    """The value of such a key: a number, or `none` (or nothing) for no bound. Raises ArgumentTypeError."""
    return None if text.strip().lower() in ("", "none", "null") else fields.whole(text)


def change(text: str) -> tuple[str, int | None]:
    """One of KEYS with its value. Raises ArgumentTypeError."""
    key, equals, said = text.partition("=")
    if not equals or key not in KEYS:
        raise pairs.none_such(text, KEYS)
    return key, value(said)
