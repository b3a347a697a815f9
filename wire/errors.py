"""Every error that Muster shows to somebody, under one root, each with a code that scripts may rely on.

The codes are part of the contract (`error: CODE: what to do`); the messages are for people and say what to do next.
This module owns the vocabulary only: who catches what is decided at the edges.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # a command line that is refused nothing loads neither
    from typing import Any, ClassVar

    from wire.message import Message


class Told:
    """The sentence of an error that came from afar, with its key and values (see `wire.message.Message`)."""

    def __init__(self, text: str, key: str, args: dict[str, Any]) -> None:
        self.text = text
        self.key = key
        self.args = args

    def __str__(self) -> str:
        return self.text

    def plain_args(self) -> dict[str, Any]:
        """The values, as a message gives them."""
        return self.args


class MusterError(Exception):
    """A defect of ours, of which the master's log tells; and the root of all others. It is made of a sentence, or of a
    `wire.message.Message`, of which the sentence is made when somebody reads it."""

    # `code` is the stable name, `rpc_code` the integer that JSON-RPC wants beside it.

    code: ClassVar[str] = "internal"
    rpc_code: ClassVar[int] = -32603

    @property
    def key(self) -> str | None:
        """The key of its sentence; None where there is only a sentence."""
        key: str | None = getattr(self.args[0], "key", None) if self.args else None
        return key

    @property
    def values(self) -> dict[str, Any]:
        """The values of its sentence, as JSON has them."""
        values: dict[str, Any] = self.args[0].plain_args() if self.key is not None else {}
        return values


class ProtocolError(MusterError):
    """The peer sent something that is not a request: broken JSON, a missing key, a frame beyond the cap."""

    code = "protocol"
    rpc_code = -32700


class UnknownMethodError(MusterError):
    """The verb does not exist (a newer client, or a misspelling)."""

    code = "unknown_method"
    rpc_code = -32601


class BadRequestError(MusterError):
    """The request is understood and wrong: a bad value, an unknown key, a folder that does not exist."""

    code = "bad_request"
    rpc_code = -32602


class NotFoundError(MusterError):
    """The task or node that was named does not exist."""

    code = "not_found"
    rpc_code = -32001


class ConflictError(MusterError):
    """The thing exists but is in a state in which this cannot be done."""

    code = "conflict"
    rpc_code = -32002


class ImpossibleError(MusterError):
    """No node could ever meet what the task asks for."""

    code = "impossible"
    rpc_code = -32003


class UnauthenticatedError(MusterError):
    """The peer is nobody we know."""

    code = "unauthenticated"
    rpc_code = -32004


class ForbiddenError(MusterError):
    """The peer is known and may not do this."""

    code = "forbidden"
    rpc_code = -32005


class LimitError(MusterError):
    """A cap of `limits` in conf.json is reached."""

    code = "limit"
    rpc_code = -32006


class StoreUnavailableError(MusterError):
    """The disk under `task_info` takes no writes at the moment (full, read-only)."""

    code = "store_unavailable"
    rpc_code = -32007


class UnreachableError(MusterError):
    """The master cannot be reached."""

    code = "unreachable"
    rpc_code = -32008


class ConfigError(MusterError):
    """conf.json or the registry is wrong; the message names the file, the key, what was found and what is allowed."""

    code = "config"
    rpc_code = -32009


class StoreCorruptError(MusterError):
    """The queues on disk do not add up; starting would lose something, so we do not start."""

    code = "store_corrupt"
    rpc_code = -32010


class StoreChangedError(StoreCorruptError):
    """A queue file is not what the last master wrote; somebody has to say whether that is meant."""

    code = "store_changed"
    rpc_code = -32016


class LockedError(MusterError):
    """Another master works on this folder."""

    code = "locked"
    rpc_code = -32011


class UntrustedError(MusterError):
    """The other end has not proven to be the master, or is not known yet. Nothing was sent to it."""

    code = "untrusted"
    rpc_code = -32015


class NodeUnreachableError(MusterError):
    """A node cannot be reached, or did not answer; the master can."""

    code = "node_unreachable"
    rpc_code = -32014


class DirectoryError(MusterError):
    """The lab's directory does not say whether a password is right: it cannot be reached, or answers wrongly."""

    code = "directory"
    rpc_code = -32017


class StorageError(MusterError):
    """The disk or network storage under a file is full, takes no writes, fails or does not answer."""

    code = "storage"
    rpc_code = -32013


def every() -> list[type[MusterError]]:
    """All errors that have a code of their own, the root last, in the order in which they stand here."""
    found: list[type[MusterError]] = []
    pending: list[type[MusterError]] = [MusterError]
    while pending:
        kind = pending.pop(0)
        if kind.__module__ == __name__:
            found.append(kind)
            pending += kind.__subclasses__()
    return [*found[1:], MusterError]


def from_code(code: str, message: str | Told | Message) -> MusterError:
    """Build the error whose stable name is `code`; an unknown name (a newer master) gives the root class."""
    return next((kind for kind in every() if kind.code == code), MusterError)(message)
