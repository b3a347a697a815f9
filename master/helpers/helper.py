"""A helper that runs: one process with one account's rights. Owns the way of a call to it and back."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import msgspec

from master.files.drafts import Noting
from master.files.place import DRAFT
from master.files.tree import Tick as Goes
from master.helpers.frames import CALL, Begins, BrokenError, Call, Done, Failed, Over, Tick, receive, send
from wire.errors import StorageError
from wire.message import Message

PATIENCE_S = 20.0


class GoneError(Exception):
    """It has ended, and nothing was begun."""


class Helper:
    """`control`: where it takes calls; `patience_s`: so long it may take to take one."""

    def __init__(self, account: str, control: socket.socket, patience_s: float = PATIENCE_S) -> None:
        self.account = account
        self._control = control
        self._patience_s = patience_s

    def call(self, call: Call, drafts: Noting, tick: Goes) -> msgspec.Raw:
        """Have it done, and wait; what it takes for drafts is noted in `drafts`. Raises GoneError, MusterError."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                try:
                    socket.send_fds(self._control, [CALL], [theirs.fileno()])
                except OSError:
                    raise GoneError from None
            ours.settimeout(self._patience_s)
            try:
                send(ours, call)
                receive(ours, Tick)
            except TimeoutError:  # its account stopped it: a second one would take a second place
                raise StorageError(Message("helper_silent", account=self.account, seconds=self._patience_s)) from None
            except (BrokenError, OSError):
                raise GoneError from None
            ours.settimeout(None)
            try:
                return self._hear(ours, drafts, tick)
            except (BrokenError, OSError) as error:
                raise StorageError(Message("helper_ended", account=self.account, said=str(error))) from None

    def _hear(self, connection: socket.socket, drafts: Noting, tick: Goes) -> msgspec.Raw:
        with ExitStack() as working:
            while True:
                answer = receive(connection, Tick | Begins | Over | Done | Failed)  # type: ignore[arg-type]
                tick()
                if isinstance(answer, Done):
                    return answer.result
                if isinstance(answer, Failed):
                    raise answer.error()
                if isinstance(answer, Tick):
                    continue
                name = answer.name.encode()
                if not DRAFT.fullmatch(name):
                    raise BrokenError(f"{answer.name!r} is no draft")
                if isinstance(answer, Over):
                    drafts.forget(name)
                elif answer.working:
                    working.enter_context(drafts.noted(answer.path, name, self.account))
                else:
                    drafts.note(answer.path, name, self.account)

    def close(self) -> None:
        """Let it end, which it does by itself when it sees this; nobody waits for a storage that holds it."""
        self._control.close()
