"""Asks the master what a person, or a screen, wants to know, while nobody waits for it."""

from __future__ import annotations

from queue import SimpleQueue

from client.answers import SUSPECT
from client.live.worker import Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol, TypeAlias

    from client.address import Address
    from client.api import Client
    from client.live.worker import Source, Tell

    Question: TypeAlias = Callable[[Client], Any]

    class Answers(Source, Protocol):
        """An asker, or what a test puts in its place."""

        def ask(self, to: str, question: Question) -> None:
            """Ask, and tell the answer with the mark `to`."""


class Asker(Worker):
    """One question at a time.

    Each answer is sent on as {"method": "answer", "params": {"to": what `ask` was given, "result" or "error", a
    MusterError}}.
    """

    def __init__(self, address: Address, token: str | None, tell: Tell) -> None:
        super().__init__("asker", address, token)
        self._tell = tell
        self._questions: SimpleQueue[tuple[str, Callable[[Client], Any]] | None] = SimpleQueue()

    def ask(self, to: str, question: Question) -> None:
        """Ask, and tell the answer with the mark `to`."""
        self._questions.put((to, question))

    def end(self) -> None:
        """Break off the question under way."""
        super().end()
        self._questions.put(None)

    def _run(self) -> None:
        from wire.errors import MusterError

        while True:
            asked = self._questions.get()
            if asked is None or self.ended.is_set():
                return
            to, question = asked
            client = self.client()
            try:
                answer: dict[str, Any] = {"to": to, "result": question(client)}
            except (MusterError, *SUSPECT) as error:
                answer = {"to": to, "error": self.told_of(error)}
            finally:
                client.close()
            if not self.ended.is_set():
                self._tell({"method": "answer", "params": answer})
