"""The verbs about the tokens with which agents dial in, and the archive that such an agent runs from."""

from __future__ import annotations

import base64
import socket
from typing import Any, Literal

import msgspec

from master.core.cordon import Token
from master.drivers import node_tokens
from master.tls.policy import listens_outside
from master.verbs.base import Context, Nothing
from wire.errors import BadRequestError, ConflictError

_ANY = ("", "0.0.0.0", "::")  # noqa: S104  (names of it, nothing is bound here)


class NodeToken(msgspec.Struct, forbid_unknown_fields=True):
    """node.token: `make` the first one, `rotate` it, or `revoke` all of them."""

    name: str
    action: Literal["make", "rotate", "revoke"] = "make"


def token(context: Context, params: NodeToken) -> dict[str, Any]:
    """Make a node's token, which is told this once, or take it away; with what its agent needs besides."""
    core, desk = context.core, context.master.desk
    config = context.master.fleet.configs.get(params.name)
    core.node(params.name)
    if config is None or config.driver != "report":
        raise BadRequestError(
            f"node {params.name} has the driver `{config.driver if config else 'none'}`: only an agent that dials in "
            f"needs a token (`muster node edit {params.name} driver=report`)"
        )
    if not desk.tls.is_on and params.action != "revoke":
        raise BadRequestError(
            f"{context.master.config.path} says `tls: off`, and agents dial in over TLS only: no token would open"
        )
    fingerprint = desk.tls.fingerprint() if desk.tls.is_on else None
    tokens = node_tokens.valid(desk.tokens(params.name), context.now)
    text, after = _after(context, params, tokens)
    context.engine.client_change(lambda: core.set_tokens(params.name, after), grows=params.action == "make")
    context.engine.reply(lambda _error: context.master.fleet.tokens_changed(params.name))
    until = [one.until for one in after if one.until is not None]
    return {
        "name": params.name,
        "token": text,
        "old_until": max(until, default=None),
        "master": _address(context),
        "outside": listens_outside(context.master.config.bind),
        "authority": fingerprint,
        "archive": {"version": desk.version, "sha256": desk.sha256, "size": len(desk.archive)},
    }


def _after(context: Context, params: NodeToken, tokens: tuple[Token, ...]) -> tuple[str | None, tuple[Token, ...]]:
    """The new token as text, and those that the node has then. Raises ConflictError."""
    if params.action == "revoke":
        if not tokens:
            raise ConflictError(f"node {params.name} has no token")
        return None, ()
    newest = next((one for one in tokens if one.until is None), None)
    if params.action == "make" and newest is not None:
        raise ConflictError(
            f"node {params.name} has a token, which was shown when {newest.by or 'somebody'} made it; "
            f"`muster node token {params.name} --rotate` makes another"
        )
    text, fresh = node_tokens.make(context.user, context.now)
    return text, node_tokens.rotated(tokens, fresh, context.now)


def archive(context: Context, _params: Nothing) -> dict[str, Any]:
    """The agent, as one file that Python runs. It holds no secret."""
    desk = context.master.desk
    content = base64.b64encode(desk.archive).decode("ascii")
    return {"version": desk.version, "sha256": desk.sha256, "content": content}


def _address(context: Context) -> str:
    """Where other machines find the data port, as far as we know: HOST:PORT."""
    config = context.master.config
    host = socket.gethostname() if config.bind in _ANY else config.bind
    return f"[{host}]:{config.ports.data_port}" if ":" in host else f"{host}:{config.ports.data_port}"
