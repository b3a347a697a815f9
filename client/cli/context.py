"""The context of every command: its options, the connection, opened at the first use, and the output functions.

stdout carries the answer and nothing else; everything about the answer goes to stderr.
"""

from __future__ import annotations

import json
import sys

from client.address import Address, find
from client.api import Client
from client.caller import token_for
from client.cli.screen.terminal import note, said_yes
from client.long_json import dumps
from client.refusals import coded_error
from wire.harmless import harmless, harmless_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from wire.message import Message

_INDENTED_ROWS = 100


class Context:
    """One run of one command."""

    def __init__(self, options: Namespace, done: list[str] | None = None) -> None:
        self.options = options
        self.done: list[str] = [] if done is None else done
        """The changes that were made, as sentences. They are reported if the answer itself cannot be written."""
        self.json: bool = options.json
        self._client: Client | None = None

    @property
    def address(self) -> Address:
        """Where the master is, without asking it."""
        return self.client.address

    @property
    def client(self) -> Client:
        """The connection to the master; made here, opened by its first call."""
        if self._client is None:
            where = self.find()
            self._client = Client(where, token_for(where, self.options.token))
            self._client.session.on_retry = _RetryNotice()
            self._client.session.on_unnamed = _UnnamedNotice(str(where))
        return self._client

    def find(self, host: str | None = None, *, closed: bool = True) -> Address:
        """Where the master is: at `host` (HOST[:PORT]), or where the options say; see `client.address.find`. An unknown
        authority is asked about."""
        options = self.options
        where = find(None if host else options.conf, host or options.master, options.socks, closed=closed)
        where.end.fingerprint, where.end.ask_authority = options.ca_fingerprint or "", _ask_authority
        if where.trust is not None:
            where.trust.wanted = options.ca_fingerprint or where.trust.wanted
            where.trust.ask = _ask_authority
        elif options.ca_fingerprint and not where.is_here:
            raise coded_error("bad_request", "fingerprint_in_plain", at=str(where))
        return where

    def close(self) -> None:
        """Close the connection, if one was made."""
        if self._client is not None:
            self._client.close()

    def print_json(self, value: Any) -> None:
        """Print the one JSON document of this run."""
        tty = sys.stdout.isatty()
        short = tty and (not isinstance(value, list) or len(value) <= _INDENTED_ROWS)
        text = json.dumps(value, ensure_ascii=False, indent=2) if short else dumps(value)
        sys.stdout.write((harmless_json(text) if tty else text) + "\n")

    def say(self, text: str) -> None:
        """A line of the answer, for people; silent with --json."""
        if not self.json:
            sys.stdout.write(text + "\n")

    def note(self, told: str | Message) -> None:
        """A line about the answer, on stderr."""
        note(told if isinstance(told, str) else harmless(str(told)))


def _ask_authority(shown: str) -> bool:
    """Whether somebody at the terminal trusts a master that is not known here yet."""
    if not sys.stdin.isatty():
        return False
    return said_yes(
        f"The master shows an authority that is not known here yet:\n  {shown}\n"
        "`muster status` on its own machine tells which is right. Trust it from now on?"
    )


class _RetryNotice:
    """Says once that the connection broke and that we go on trying."""

    def __init__(self) -> None:
        self.said = False

    def __call__(self, why: str) -> None:
        if not self.said:
            note(f"the connection to the master broke ({why}); trying again …")
        self.said = True


class _UnnamedNotice:
    """Says once that the master does not tell which lab it is of."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._said = False

    def __call__(self) -> None:
        if not self._said:
            note(
                f"note: the master at {self._where} is of an earlier version, which does not say which lab it is of: "
                "`muster status --json` names its conf.json"
            )
        self._said = True
