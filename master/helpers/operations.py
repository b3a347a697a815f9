"""The operations on files and logs, by name: the calls of the jail, of its uploads and of the reader of logs, with the
type of each result. The master and a helper do the same. Owns the table, and no rights."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from master.files import jail, log_pieces
from master.files.jail import Entry, Listing
from master.files.log_file import Own
from master.files.needed import Needed
from master.files.owners import Owners, Who
from master.files.service import Seen
from master.files.tree import Tally, Tick
from master.files.upload import Begun


class Bench(NamedTuple):
    """The objects that an operation works on: the files as a user sees them. `sight`, for logs: what the user may see
    of all that lies beneath `/`."""

    seen: Seen
    logs: Logs


class Logs:
    """Logs, for somebody. `owners`: whose what is in the visible folders beneath `root`; in `log_folder` that is said
    otherwise."""

    def __init__(self, owners: Owners, who: Who, root: str, log_folder: str) -> None:
        sight = owners.sight(who)
        self._sight = None if sight is None else sight.from_slash(root, but=log_folder)

    def read(
        self, path: str, offset: int, limit: int, *, collapsed: bool, within: Iterable[str], own: Iterable[str] | None
    ) -> log_pieces.Piece:
        """As `log_pieces.read`."""
        where = (tuple(within), self._sight, None if own is None else Own(*own))
        return log_pieces.read(path, where, offset, limit, collapsed=collapsed)

    def size(self, path: str) -> int:
        """As `log_pieces.size`, wherever it lies."""
        return log_pieces.size(path, (None, None, None))


class Operation(NamedTuple):
    """`of`: whose method it is; `result`: what that gives; `long`: it takes `tick` and `needed`, too."""

    of: Callable[[Bench], Any]
    method: str
    result: Any
    long: bool = False


def _jail(bench: Bench) -> Any:
    return bench.seen.jail


def _uploads(bench: Bench) -> Any:
    return bench.seen.uploads


def _logs(bench: Bench) -> Any:
    return bench.logs


OPERATIONS: dict[str, Operation] = {
    "list": Operation(_jail, "list", Listing),
    "stat": Operation(_jail, "stat", Entry),
    "read": Operation(_jail, "read_piece", jail.Piece),
    "write": Operation(_jail, "write", None),
    "make_folder": Operation(_jail, "make_folder", None),
    "make_file": Operation(_jail, "make_file", None),
    "move": Operation(_jail, "move", None, long=True),
    "copy": Operation(_jail, "copy", Tally, long=True),
    "delete": Operation(_jail, "delete", int, long=True),
    "upload_begin": Operation(_uploads, "begin", Begun),
    "upload_piece": Operation(_uploads, "piece", int),
    "upload_commit": Operation(_uploads, "commit", Entry),
    "upload_cancel": Operation(_uploads, "cancel", None),
    "remove_draft": Operation(_uploads, "remove_abandoned", bool),
    "read_log": Operation(_logs, "read", log_pieces.Piece),
    "log_size": Operation(_logs, "size", int),
}


def perform(bench: Bench, op: str, args: dict[str, Any], tick: Tick, needed: Iterable[Needed]) -> Any:
    """Do it. Raises MusterError, and KeyError for what is no operation."""
    operation = OPERATIONS[op]
    more = {"tick": tick, "needed": needed} if operation.long else {}
    return getattr(operation.of(bench), operation.method)(**args, **more)
