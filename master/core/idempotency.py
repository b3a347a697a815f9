"""The results of requests, so that a request that is sent again gets the same result. Pure."""

from __future__ import annotations

import msgspec

from master.core.outcome import Pending

ANSWERS_KEPT = 100_000


class KeptResults:
    """`given`: the result by request_id, the oldest first."""

    def __init__(self, pending: Pending) -> None:
        self.given: dict[str, msgspec.Raw] = {}
        self._pending = pending

    def remember(self, request_id: str, result: msgspec.Raw) -> None:
        """Keep what a request got, so that its retry gets the same. The oldest beyond ANSWERS_KEPT are forgotten."""
        self.given[request_id] = result
        self._pending.answer(request_id, result)
        if len(self.given) > ANSWERS_KEPT:
            del self.given[next(iter(self.given))]
