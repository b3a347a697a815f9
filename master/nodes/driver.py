"""The interface of the drivers that connect a link to its node, how connecting may fail, and what each kind of driver
means for the rest of the master. The drivers themselves are in `master.drivers`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, Protocol, runtime_checkable

import msgspec

from master.core.nodes.inventory import NodeState
from wire.message import Message

Patience = Literal["short", "long"]
DriverName = Literal["ssh", "local", "report"]


class DriverTraits(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a driver's nodes. `is_over_ssh`: the master logs in there, at an address, as a user;
    `dials_in`: their agents come by themselves, with a token; `is_this_machine`: they are the master's machine;
    `shares_our_files`: each path leads there to the same file as here; `has_our_account`: the agent is a process of the
    master's, so it has its account and its Python."""

    is_over_ssh: bool = False
    dials_in: bool = False
    is_this_machine: bool = False
    shares_our_files: bool = False
    has_our_account: bool = False


TRAITS: Mapping[DriverName, DriverTraits] = MappingProxyType(
    {
        "ssh": DriverTraits(is_over_ssh=True),
        "local": DriverTraits(is_this_machine=True, shares_our_files=True, has_our_account=True),
        "report": DriverTraits(dials_in=True),
    }
)
"""By `driver` in the registry."""


class CannotConnectError(Exception):
    """The driver cannot reach the agent: `why` is for the admin, with the cure. `patience`: of `backoff.BACKOFF_S`."""

    def __init__(self, why: Message, patience: Patience = "short") -> None:
        super().__init__(why)
        self.why = why
        self.patience = patience


class UnknownHostKeyError(CannotConnectError):
    """The machine's host key is not one that we know. Only a person may decide: `muster node trust`."""

    def __init__(self, why: Message) -> None:
        super().__init__(why, "long")


class Driver(Protocol):
    """How a connection to a node's agent is made. `version`: the digest of the archive that it starts agents from."""

    version: str

    async def connect(self, protocol: asyncio.Protocol) -> None:
        """Connect, starting the agent if it does not run. Raises CannotConnectError."""

    async def close(self) -> None:
        """Give up what the last connection left behind; another `connect` may follow."""


@runtime_checkable
class AwaitedDriver(Protocol):
    """A driver of an agent that comes by itself. There is nothing to try again, only somebody to wait for."""

    def away(self, heard_at: float) -> NodeState:
        """Return the state of the node until then. `heard_at`: when the node was last heard, monotonic seconds."""

    def look_at_token(self) -> None:
        """Act on a change of the agent's token."""


@runtime_checkable
class SeenDriver(Protocol):
    """A driver that knows how the node's machine calls the master."""

    def sees_us_as(self) -> str:
        """Return HOST, or HOST:PORT of the data port; "" if it is not known. IPv6 with a port is in brackets."""


class OfferedKey(msgspec.Struct, frozen=True):
    """A host key. `fingerprint`: `SHA256:…`, as `ssh-keygen -l` prints it."""

    type: str
    base64: str
    fingerprint: str


@runtime_checkable
class KeyedDriver(Protocol):
    """A driver to a machine that proves who it is with a host key."""

    async def offered_key(self) -> OfferedKey:
        """The key that the machine shows now. Raises NodeUnreachableError."""

    def known_key(self) -> str | None:
        """The fingerprint that we expect."""

    def pin(self, key: OfferedKey) -> None:
        """Expect this key from now on. Raises OSError."""
