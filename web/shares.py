"""How much each user has of the console at a time: open requests, streams and pages, and the bytes that are kept for
them.

One user cannot take the memory and the descriptors from the others. A request is counted for the address or account
from which it comes until its user is known, then for the user. Owns the counting. A request that is too much is
refused; if its answer has begun, the connection ends.
"""

from __future__ import annotations

from collections import Counter
from contextvars import ContextVar

from starlette.types import Message as Sent
from starlette.types import Scope, Send

from web import problems
from wire.errors import LimitError
from wire.message import Message

MOST_OPEN = 256
"""Of one user, from any address."""
MOST_OF_ORIGIN = 1024
"""Of one address, or one account of this machine, before their users are known: a lab may come from one address."""
MOST_BYTES = 64 << 20
"""Bytes of bodies, and of answers that were not read, of one user. A snapshot of a long queue is megabytes."""
PIECE = 64 << 10
"""Bytes of an answer that are given to the connection at once: the rest stays here, where it is counted."""


class Shares:
    """The counts of all users and origins."""

    def __init__(self) -> None:
        self.open: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()


class Ticket:
    """One request, stream or page. `close` it when it is over."""

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._whose = ""
        self._user = ""
        self._held = 0

    def enter(self, origin: str) -> None:
        """It came from there, and nothing else is known yet. Raises LimitError if too many did."""
        self._count_as(f"at {origin}", MOST_OF_ORIGIN)

    def settle(self, user: str) -> None:
        """Its user is known. Raises LimitError if this user has too many."""
        if user and user != self._user:
            self._count_as(f"user {user}", MOST_OPEN)
            self._user = user

    def _count_as(self, whose: str, most: int) -> None:
        shares = self._shares
        if shares.open[whose] >= most:
            raise LimitError(Message("console_share_open", most=most))
        held = self._held
        self.close()
        self._whose = whose
        shares.open[whose] += 1
        shares.bytes[whose] += held
        self._held = held

    def hold(self, size: int) -> None:
        """So many bytes more are kept for it, or fewer. Raises LimitError if too much is kept for its user already: one
        answer may be longer than what is left, or else nobody could get it."""
        if not self._whose:
            return
        if size > 0 and self._shares.bytes[self._whose] >= MOST_BYTES:
            raise LimitError(Message("console_share_bytes", most=MOST_BYTES))
        self._shares.bytes[self._whose] += size
        self._held += size

    def close(self) -> None:
        """Nothing is kept for it any more."""
        if not self._whose:
            return
        shares, whose, self._whose = self._shares, self._whose, ""
        shares.bytes[whose] -= self._held
        shares.open[whose] -= 1
        self._held = 0
        if not shares.open[whose]:
            del shares.open[whose], shares.bytes[whose]


_LENGTH = b"content-length"
_HTTP: Scope = {"type": "http"}
_TICKET: ContextVar[Ticket | None] = ContextVar("ticket", default=None)


def begin(ticket: Ticket) -> None:
    """From now on this task, and those that it starts, work for this request."""
    _TICKET.set(ticket)


def settle(user: str) -> None:
    """The user of the present request is known. Raises LimitError."""
    ticket = _TICKET.get()
    if ticket is not None:
        ticket.settle(user)


def hold(size: int) -> None:
    """So many bytes more are kept for the present request. Raises LimitError."""
    ticket = _TICKET.get()
    if ticket is not None:
        ticket.hold(size)


def present() -> Ticket | None:
    """Return the ticket of the present request, for what goes on in other tasks."""
    return _TICKET.get()


def counted(send: Send, ticket: Ticket) -> Send:
    """Send an answer in pieces, and count what the client has not read. An answer of known length that is too much is
    refused, because it has not begun yet."""
    begun: list[Sent] = []

    async def sent(said: Sent) -> None:
        if said["type"] == "http.response.start" and any(name.lower() == _LENGTH for name, _ in said["headers"]):
            begun.append(said)
        elif said["type"] == "http.response.body":
            await in_pieces(said)
        else:
            await send(said)

    async def in_pieces(said: Sent) -> None:
        data = said.get("body", b"")
        try:
            ticket.hold(len(data))
        except LimitError as error:
            if not begun:
                raise
            await problems.problem(error)(_HTTP, _nothing, send)
            return
        while begun:
            await send(begun.pop())
        last = max(0, len(data) - 1) // PIECE * PIECE
        for at in range(0, last, PIECE):
            await send({"type": said["type"], "body": data[at : at + PIECE], "more_body": True})
            ticket.hold(-PIECE)
        await send({**said, "body": data[last:]})
        ticket.hold(last - len(data))

    return sent


async def _nothing() -> Sent:
    return {"type": "http.disconnect"}
