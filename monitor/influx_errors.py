"""Errors of a write to InfluxDB, by what the writer does about them."""

from __future__ import annotations


class InfluxError(Exception):
    """A write failed; the message is InfluxDB's own, in one line."""


class UnavailableError(InfluxError):
    """It cannot be reached or can do nothing now. `after_s`: when to come again, if it said so."""

    def __init__(self, said: str, after_s: float = 0.0) -> None:
        super().__init__(said)
        self.after_s = after_s


class DeniedError(InfluxError):
    """It does not accept the token, or the token may not do this."""


class RefusedError(InfluxError):
    """It will never take these points. `points`: how many of them it named; None for all of them."""

    def __init__(self, said: str, points: int | None = None) -> None:
        super().__init__(said)
        self.points = points


class MissingError(InfluxError):
    """There is no such bucket, database or organisation."""
