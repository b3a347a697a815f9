"""The messages between the master and a helper: each call has a connection of its own, with frames of msgpack, each
after its length. Owns the shapes and how an error is sent; both ends block, in threads."""

from __future__ import annotations

import socket
import struct
from typing import Any, TypeVar

import msgspec

from master.config.conf_file import FileOwner
from master.files.errors import NotEmptyError
from master.files.needed import Needed
from master.files.owners import Who
from wire.errors import MusterError, from_code
from wire.message import revived

T = TypeVar("T")

LARGEST = 64 << 20
"""Bytes of a frame: a list of 10,000 entries, or 8 MiB of a file, and what tasks need."""
READY = b"ready"
CALL = b"call"
"""Sent together with the connection of a call."""
_LENGTH = struct.Struct(">I")


class BrokenError(Exception):
    """The other end is gone, or says what nobody says here."""


class Place(msgspec.Struct, frozen=True):
    """A `Needed`, as it crosses."""

    path: str
    key: str
    args: dict[str, Any]

    @classmethod
    def of(cls, needed: Needed) -> Place:
        """The other way is `needed`."""
        return cls(needed.path, needed.why.key, needed.why.plain_args())

    def needed(self) -> Needed:
        """Return the `Needed` that this was made of."""
        return Needed(self.path, revived(self.key, self.args))


class Setup(msgspec.Struct, frozen=True):
    """The first message to a helper, after it has changed its account: as `Files` and `Owners` take it."""

    root: str
    visible: tuple[str, ...]
    files: dict[str, FileOwner]
    log_folder: str
    needed: list[Place]


class Call(msgspec.Struct, frozen=True):
    """One call: an operation, whose call it is as far as `files` of conf.json goes, and what the operation takes.
    `upload_bytes`: how many the upload may have that it is about, if it is about one."""

    op: str
    who: Who
    args: dict[str, Any]
    needed: list[Place] = []
    upload_bytes: int = 0


class Tick(msgspec.Struct, frozen=True, tag=True):
    """It goes on."""


class Begins(msgspec.Struct, frozen=True, tag=True):
    """A draft is about to be made, see `Drafts`. `working`: it lives as long as the call."""

    path: str
    name: str
    working: bool


class Over(msgspec.Struct, frozen=True, tag=True):
    """A draft is in its place, or gone."""

    name: str


class Done(msgspec.Struct, frozen=True, tag=True):
    """The last word: what came of it."""

    result: msgspec.Raw


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The last word: why not."""

    code: str
    key: str | None
    args: dict[str, Any]
    text: str

    @classmethod
    def of(cls, error: MusterError) -> Failed:
        """The other way is `error`."""
        return cls(error.code, error.key, error.values, str(error))

    def error(self) -> MusterError:
        """Return the error that this was made of, as far as callers use it. Raises BrokenError."""
        if self.key is None:
            return from_code(self.code, self.text)
        kind = NotEmptyError if self.key == "not_empty" else type(from_code(self.code, ""))
        try:
            return kind(revived(self.key, self.args))
        except ValueError as error:
            raise BrokenError(str(error)) from None


Answer = Tick | Begins | Over | Done | Failed


def send(connection: socket.socket, value: msgspec.Struct) -> None:
    """Say it. Raises OSError."""
    data = msgspec.msgpack.encode(value)
    connection.sendall(_LENGTH.pack(len(data)) + data)


def receive(connection: socket.socket, kind: type[T]) -> T:
    """Hear one. Raises BrokenError, OSError."""
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    if length > LARGEST:
        raise BrokenError(f"a frame of {length} bytes")
    try:
        return msgspec.msgpack.decode(_exactly(connection, length), type=kind)
    except (msgspec.DecodeError, ValueError) as error:
        raise BrokenError(str(error)) from None


def _exactly(connection: socket.socket, count: int) -> bytearray:
    data = bytearray(count)
    view = memoryview(data)
    while view:
        taken = connection.recv_into(view)
        if not taken:
            raise BrokenError("it is gone")
        view = view[taken:]
    return data
