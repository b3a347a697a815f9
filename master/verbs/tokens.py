"""The verbs about a user's tokens, for programs, and log-ins, which are tokens, too."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from master.core.people.people import DAY_S, WALL_SCOPES, Kind, Scope, Token, User
from master.verbs.auth import Label, UserName, new_token
from master.verbs.base import Context
from wire.errors import BadRequestError, ForbiddenError, NotFoundError
from wire.message import Message


class ListTokens(msgspec.Struct, forbid_unknown_fields=True):
    """token.list: of the user `name`, one's own where none is named; `all` users' (admins)."""

    name: UserName | None = None
    all: bool = False


class NewToken(msgspec.Struct, forbid_unknown_fields=True):
    """token.new: for the user `name`, oneself where none is named. `scopes`: what it is confined to, null: all scopes
    of the role. It ends at `expires_at` (seconds since the epoch, null: never). `label`: what it is for."""

    name: UserName | None = None
    scopes: list[Scope] | None = None
    expires_at: float | None = None
    label: Label = ""


class RevokeTokens(msgspec.Struct, forbid_unknown_fields=True):
    """token.revoke: these `tokens`, by id, or with `all` every token and log-in of the user `name` (oneself)."""

    tokens: Annotated[list[str], Meta(examples=[["7f3a91c2"]])] = []
    name: UserName | None = None
    all: bool = False


class TokenView(msgspec.Struct, frozen=True):
    """A token, or a log-in (`kind`), without its secret. `used_on`: the day of its last use, in seconds since the epoch
    (null: never); `from`: the address from which it was made."""

    id: str
    user: str
    kind: Kind
    label: str
    scopes: list[Scope] | None
    made_at: float
    made_by: str
    origin: str = msgspec.field(name="from")
    expires_at: float | None
    used_on: float | None
    is_this: bool


class TokenMade(msgspec.Struct, frozen=True):
    """A new token, told this once."""

    id: str
    token: str
    user: str
    scopes: list[Scope] | None
    expires_at: float | None


class Revoked(msgspec.Struct, frozen=True):
    """The ids of the revoked tokens and log-ins."""

    ids: list[str]


def list_tokens(context: Context, params: ListTokens) -> list[TokenView]:
    """Tokens and log-ins, the oldest first."""
    people = context.core.people
    if params.all:
        if not _is_admin(context):
            raise ForbiddenError(Message("tokens_of_another", name="everybody"))
        users = sorted(people.users.values(), key=lambda user: user.name)
    elif params.name is None and context.caller.user_id == 0:
        users = []  # the account that runs a queue without users: it needs no token
    else:
        users = [_user(context, params.name)]
    return [
        _view(context, user, one) for user in users for one in people.tokens_of(user) if one.opens(context.rights_now)
    ]


def new(context: Context, params: NewToken) -> TokenMade:
    """Make a token. A caller with a token that is confined to scopes, or with a task's token, may not make another."""
    user = _user(context, params.name)
    _check_may_make(context, user)
    scopes = None if params.scopes is None else frozenset(params.scopes)
    if scopes is not None and scopes > WALL_SCOPES:
        raise BadRequestError(Message("wall_stands_alone"))
    if params.expires_at is not None and params.expires_at <= context.rights_now:
        raise BadRequestError(Message("token_would_be_over"))
    text, kept = new_token(context, user, scopes=scopes, expires_at=params.expires_at, label=params.label)
    told = None if scopes is None else sorted(scopes)
    return TokenMade(kept.id, text, user.name, told, kept.expires_at)


def revoke(context: Context, params: RevokeTokens) -> Revoked:
    """Revoke tokens, or log-ins; connections that use them are closed."""
    people = context.core.people
    if params.all:
        ids = [one.id for one in people.tokens_of(_user(context, params.name))]
    else:
        ids = [_own(context, token_id).id for token_id in dict.fromkeys(params.tokens)]
    context.change(lambda: [people.end_token(token_id) for token_id in ids], grows=False)
    return Revoked(ids)


def _user(context: Context, name: str | None) -> User:
    """Return the user whose tokens are meant. Raises ForbiddenError for another's, unless an admin asks."""
    people, caller = context.core.people, context.caller
    if name is None and caller.user_id == 0:
        raise BadRequestError(Message("whose_tokens", name=caller.user))
    user = people.users[caller.user_id] if name is None else people.named(name)
    if (user is None or user.id != caller.user_id) and not _is_admin(context):
        raise ForbiddenError(Message("tokens_of_another", name=name))
    return people.find(name or "") if user is None else user


def _is_admin(context: Context) -> bool:
    """Tell whether the caller may use the tokens of others. An admin's token for the own account may not."""
    return context.caller.role == "admin" and "admin" in context.caller.scopes


def _check_may_make(context: Context, user: User) -> None:
    caller = context.caller
    if caller.via == "task" or not caller.is_kept:
        raise ForbiddenError(Message("token_makes_no_token"))
    if not user.is_enabled(context.rights_now):
        raise BadRequestError(Message("user_is_disabled", name=user.name))


def _own(context: Context, token_id: str) -> Token:
    """The token, if it is the caller's to end: nobody learns of another's whether it is there."""
    token = context.core.people.tokens.get(token_id)
    if token is None or (token.user != context.caller.user_id and not _is_admin(context)):
        raise NotFoundError(Message("no_token_id", id=token_id))
    return token


def _view(context: Context, user: User, token: Token) -> TokenView:
    return TokenView(
        id=token.id,
        user=user.name,
        kind=token.kind,
        label=token.label,
        scopes=None if token.scopes is None else sorted(token.scopes),
        made_at=token.at,
        made_by=token.by,
        origin=token.origin,
        expires_at=token.expires_at,
        used_on=token.used_on * DAY_S or None,
        is_this=token.id == context.caller.token,
    )
