"""How long an attempt may run: what its owner said, and what the lab allows. Pure; who ends it is the node."""

from __future__ import annotations

from master.config.settings import Scheduling
from wire.errors import BadRequestError
from wire.message import Message


def limit_of(asked: float | None, scheduler: Scheduling) -> float | None:
    """The limit of a task that is submitted now, in seconds; None: none. Raises BadRequestError where more is asked for
    than is allowed."""
    most = scheduler.time_limit_max
    if asked is not None and most and asked > most:
        raise BadRequestError(Message("limit_too_long", asked=asked, most=most))
    return cut(asked or scheduler.time_limit or None, scheduler)


def cut(limit: float | None, scheduler: Scheduling) -> float | None:
    """The limit of an attempt that starts now: what was submitted in another time may have been allowed more."""
    most = scheduler.time_limit_max
    return limit if not most else min(limit or most, most)
