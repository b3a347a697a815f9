"""Samples of nodes on their way from the links to everybody who listens."""

from __future__ import annotations

from collections.abc import Callable

from master.core.attempts.agent_messages import EncodedSample


class Samples:
    """Where the links bring samples. Each listener gets every sample, with the name of its node, in this order."""

    def __init__(self, *listeners: Callable[[str, EncodedSample], None]) -> None:
        self._listeners = list(listeners)

    def listen(self, listener: Callable[[str, EncodedSample], None]) -> None:
        """One more, after the others."""
        self._listeners.append(listener)

    def sample(self, node: str, sample: EncodedSample) -> None:
        """A sample of a node arrived."""
        for listener in self._listeners:
            listener(node, sample)
