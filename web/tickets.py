"""Tickets: a browser that downloads sends no key along, so a page asks for an address that works once, for half a
minute, from where it was asked for."""

from __future__ import annotations

import re
import secrets
import time
from collections import OrderedDict
from typing import NamedTuple
from urllib.parse import unquote

from web.callers import Shown
from wire.errors import BadRequestError, NotFoundError
from wire.message import Message

LIFE_S = 30.0
KEPT, KEPT_OF_ONE = 1000, 50
"""Of all users, and of one."""
_LOG = re.compile(r"tasks/([0-9]{1,18})/log")
_SERVER_LOG = "server/log"
_FILES = "files/"
_ZIP = "?zip=1"


class Ticket(NamedTuple):
    """For whom, and for what: the log of a `task` or the master's, the file at `path`, or the folder there as a ZIP."""

    shown: Shown
    user: str
    until: float
    task: int | None
    path: str
    is_zip: bool = False
    is_server_log: bool = False


class Tickets:
    """Those that nobody has used yet. Times are of a monotonic clock."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, Ticket] = OrderedDict()

    def make(self, shown: Shown, what: str, user: str) -> str:
        """Return a ticket of this user for `files/PATH`, `files/PATH?zip=1`, `tasks/ID/log` or `server/log`. Raises
        BadRequestError for anything else."""
        until = time.monotonic() + LIFE_S
        if log := _LOG.fullmatch(what):
            ticket = Ticket(shown, user, until, int(log[1]), "")
        elif what == _SERVER_LOG:
            ticket = Ticket(shown, user, until, None, "", is_server_log=True)
        elif what.startswith(_FILES):
            path = unquote(what.removeprefix(_FILES).removesuffix(_ZIP))
            ticket = Ticket(shown, user, until, None, path, what.endswith(_ZIP))
        else:
            raise BadRequestError(Message("no_ticket_for", path=what))
        name = secrets.token_urlsafe(32)
        self._open[name] = ticket
        own = [one for one, ticket in self._open.items() if ticket.user == user]
        if len(own) > KEPT_OF_ONE:
            del self._open[own[0]]
        elif len(self._open) > KEPT:
            self._open.popitem(last=False)
        return name

    def take(self, name: str, address: str) -> Ticket:
        """The ticket, which is used up. Raises NotFoundError."""
        ticket = self._open.pop(name, None)
        if ticket is None or time.monotonic() > ticket.until or ticket.shown.origin != address:
            raise NotFoundError(Message("no_ticket"))
        return ticket
