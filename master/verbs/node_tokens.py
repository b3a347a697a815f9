"""The verbs about the tokens with which agents dial in, and the archive that such an agent runs from."""

from __future__ import annotations

import socket
from typing import Literal

import msgspec

from master.core.nodes.notes import Token
from master.nodes import node_tokens
from master.tls.policy import listens_outside
from master.verbs.base import Context, Nothing
from master.verbs.nodes import NodeName
from wire.errors import BadRequestError, ConflictError
from wire.message import Message

_ANY = ("", "0.0.0.0", "::")  # noqa: S104  (names of it, nothing is bound here)


class NodeToken(msgspec.Struct, forbid_unknown_fields=True):
    """node.token: `make` the first one, `rotate` it, or `revoke` all of them."""

    name: NodeName
    action: Literal["make", "rotate", "revoke"] = "make"


class Brought(msgspec.Struct, frozen=True):
    """The archive of this master's agent: its version, and its size in bytes."""

    version: str
    sha256: str
    size: int


class TokenTold(msgspec.Struct, frozen=True):
    """A node's `token`, told this once (null: it was taken away), and until when the one before it opens (`old_until`,
    seconds since the epoch). The agent also needs `master`, the HOST:PORT to dial, and `authority`, the fingerprint of
    the certificate it pins (null without TLS). `outside`: other machines can reach that port."""

    name: str
    token: str | None
    old_until: float | None
    master: str
    outside: bool
    authority: str | None
    archive: Brought


class Archive(msgspec.Struct, frozen=True):
    """The agent as one file that Python runs: `content` is base64."""

    version: str
    sha256: str
    content: bytes


def token(context: Context, params: NodeToken) -> TokenTold:
    """Make a node's token, which only this answer shows, or take it away; with what its agent needs besides."""
    core, reports = context.core, context.master.reports
    config = context.master.fleet.configs.get(params.name)
    core.node(params.name)
    if config is None or not config.traits.dials_in:
        raise BadRequestError(Message("needs_no_token", node=params.name, driver=config.driver if config else "none"))
    if not reports.tls.is_on and params.action != "revoke":
        raise BadRequestError(Message("token_without_tls", path=str(context.master.config.path)))
    fingerprint = reports.tls.fingerprint() if reports.tls.is_on else None
    tokens = node_tokens.valid(reports.tokens(params.name), context.rights_now)
    text, after = _after(context, params, tokens)
    context.change(lambda: core.set_tokens(params.name, after), grows=params.action == "make")
    context.engine.reply(lambda _error: context.master.fleet.agents.tokens_changed(params.name))
    until = [one.until for one in after if one.until is not None]
    return TokenTold(
        name=params.name,
        token=text,
        old_until=max(until, default=None),
        master=_address(context),
        outside=listens_outside(context.master.config.bind),
        authority=fingerprint,
        archive=Brought(reports.version, reports.archive.checksum, len(reports.archive.data)),
    )


def _after(context: Context, params: NodeToken, tokens: tuple[Token, ...]) -> tuple[str | None, tuple[Token, ...]]:
    """The new token as text, and those that the node has then. Raises ConflictError."""
    if params.action == "revoke":
        if not tokens:
            raise ConflictError(Message("no_token", node=params.name))
        return None, ()
    newest = next((one for one in tokens if one.until is None), None)
    if params.action == "make" and newest is not None:
        raise ConflictError(Message("token_is_there", node=params.name, by=newest.by or "somebody"))
    text, fresh = node_tokens.make(context.user, context.now)
    return text, node_tokens.rotated(tokens, fresh, context.rights_now)


def archive(context: Context, _params: Nothing) -> Archive:
    """The agent, as one file that Python runs. It holds no secret."""
    reports = context.master.reports
    return Archive(reports.version, reports.archive.checksum, reports.archive.data)


def _address(context: Context) -> str:
    """Where other machines find the data port, as far as we know: HOST:PORT."""
    config = context.master.config
    tls = context.master.reports.tls
    host = socket.gethostname() if config.bind in _ANY else config.bind
    host = tls.callable_as(host) if tls.is_on else host
    return f"[{host}]:{config.ports.data_port}" if ":" in host else f"{host}:{config.ports.data_port}"
