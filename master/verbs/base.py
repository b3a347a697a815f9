"""What a verb is, and what it may use.

A verb is a function of a Context and its typed parameters; it gives the result, or something to await for it (for
work that may block, which it does in a thread). The table of all verbs is `master.verbs.table`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from master.config import Config
from master.core.core import Core
from master.drivers.report import Desk
from master.engine import Engine
from master.files.service import Files
from master.nodes.fleet import Fleet
from master.peer import Peer


class Surroundings(Protocol):
    """The parts of the running master that verbs use, besides the engine."""

    conda: str
    root: str
    log_folder: str
    server_log: str
    config: Config
    fleet: Fleet
    files: Files
    desk: Desk

    def info(self) -> dict[str, Any]:
        """What `server.info` answers, less what the core knows."""

    def stop(self) -> None:
        """End the master; tasks run on."""


class Context(msgspec.Struct, frozen=True):
    """One call: who calls, and what may be used to answer. `now`: seconds since the epoch."""

    engine: Engine
    master: Surroundings
    peer: Peer
    now: float

    @property
    def core(self) -> Core:
        """The state; changed only through `engine`."""
        return self.engine.core

    @property
    def user(self) -> str:
        """The name of the caller."""
        return self.peer.user or ""


class Verb(msgspec.Struct, frozen=True):
    """A verb: what it takes and what it does. `role` is the least role that may call it."""

    params: type
    handle: Callable[[Context, Any], Any]
    role: str = "user"


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""
