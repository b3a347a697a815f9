"""node.trust: which key a node's machine shows, which one we know, and the pinning of one that a person looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from master.verbs.base import Context
from master.verbs.nodes import OneNode
from master.views.nodes import one_line
from wire.errors import ConflictError, NodeUnreachableError, StorageError
from wire.message import Message

if TYPE_CHECKING:
    from master.nodes.driver import OfferedKey


class Trust(OneNode, forbid_unknown_fields=True):
    """node.trust: the `fingerprint` is the one that somebody has looked at; without, nothing is pinned."""

    fingerprint: str | None = None


class Key(msgspec.Struct, frozen=True):
    """A host key, as `ssh-keygen -l` shows it."""

    type: str
    fingerprint: str


class Trusted(msgspec.Struct, frozen=True):
    """The key that a node's machine `offered`, the fingerprint that was `known` (null: none), and whether the offered
    key is `pinned` now."""

    name: str
    offered: Key
    known: str | None
    pinned: bool


async def trust(context: Context, params: Trust) -> Trusted:
    """The host key that a node's machine shows, and the one that is known; pinned if it is the one that is given."""
    fleet, name = context.master.fleet, params.name
    try:
        offered = await fleet.host_keys.offered(name)
    except NodeUnreachableError as error:
        # Not `unreachable`: that says of a command that there is no master.
        raise ConflictError(Message("no_host_key", node=name, said=error.args[0])) from None
    known = await fleet.host_keys.known(name)
    if params.fingerprint is not None:
        _check_fingerprint(name, offered, params.fingerprint)
        if known != offered.fingerprint:
            await _pin(context, name, offered)
    pinned = params.fingerprint is not None or known == offered.fingerprint
    return Trusted(name, Key(offered.type, offered.fingerprint), known, pinned)


def _check_fingerprint(name: str, offered: OfferedKey, expected: str) -> None:
    if offered.fingerprint != expected.strip().rstrip("="):
        raise ConflictError(
            Message("other_host_key", node=name, shown=offered.fingerprint, expected=one_line(expected))
        )


async def _pin(context: Context, name: str, offered: OfferedKey) -> None:
    fleet = context.master.fleet
    if name in fleet.configs and fleet.configs[name].host_key is not None:
        raise ConflictError(Message("host_key_in_registry", node=name, shown=offered.fingerprint))
    try:
        await fleet.host_keys.pin(name, offered)
    except OSError as error:
        raise StorageError(Message("host_key_not_written", path=error.filename, said=error.strerror)) from None
