"""The failure of an audit. It is never tried again: a task lost once is lost, even if the next run loses none."""

from __future__ import annotations

from collections.abc import Sequence


class VerdictError(AssertionError):
    """An audit found something that must never happen: a task lost, started twice, or a GPU held by two."""


def nothing_found(problems: Sequence[object], how_to_repeat: str = "") -> None:
    """Raises VerdictError with the problems that an audit found, and with how to repeat its run."""
    if problems:
        raise VerdictError("\n".join([*map(str, problems), *([how_to_repeat] if how_to_repeat else [])]))
