"""The verbs for logging in over a connection: with a password, a token, or a link that works once. The entry point of
verbs then decides the rights of the user."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
import time
from asyncio import sleep
from collections.abc import Awaitable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from master.core.people.people import DAY_S, SCREEN_S, SESSION_S, WALL_SCOPES, Role, Scope, Token, User
from master.people import tokens
from master.people.passwords import weakness
from master.verbs.access import Caller, Via, by_relay, by_service, by_task, by_token, why_barred
from master.verbs.base import Context, Done, Nothing
from master.verbs.quotas import AccountView, ShareView, account_view, share_view
from wire.errors import BadRequestError, ConflictError, DirectoryError, ForbiddenError, UnauthenticatedError
from wire.message import Message

IDLE_S = 12 * 3600.0
"""A browser's ends after so long without use."""
REFUSED_S = 0.5
"""With a directory, a log-in is refused after a multiple of this, from the question on."""
NOTED_S = 3600.0
"""That it is used is noted so often."""

UserName = Annotated[str, Meta(max_length=64, examples=["wang"])]
Secret = Annotated[str, Meta(max_length=4096, examples=["correct horse battery"])]
Label = Annotated[str, Meta(max_length=80)]


class LogIn(msgspec.Struct, forbid_unknown_fields=True):
    """auth.login: a user's `name` and `password`. `label`: from which program or machine, for the list of log-ins."""

    name: UserName
    password: Secret
    label: Label = ""


class Shown(msgspec.Struct, forbid_unknown_fields=True):
    """auth.token: a token as it was made, `mst_ID_SECRET`."""

    token: Annotated[str, Meta(max_length=200, examples=["mst_7f3a_SECRET"])]


class Redeem(msgspec.Struct, forbid_unknown_fields=True):
    """auth.redeem: the secret of a link that an admin made, and the `password` that its user wants to have."""

    link: Annotated[str, Meta(max_length=200)]
    password: Secret
    label: Label = ""


class Relay(msgspec.Struct, forbid_unknown_fields=True):
    """auth.relay: the address that somebody comes `from`, and the uid of the `account` of the master's machine that
    they have there; absent for another machine."""

    origin: Annotated[str, Meta(max_length=64, examples=["192.168.36.20"])] = msgspec.field(name="from")
    account: Annotated[int, Meta(ge=0, le=0xFFFFFFFF)] | None = None


class BeginSession(msgspec.Struct, forbid_unknown_fields=True):
    """auth.session: `label`: in which browser, for the list of log-ins."""

    label: Label = ""


class Who(msgspec.Struct, frozen=True):
    """The caller: name (`user`, null without a log-in), `role`, `scopes`, the kind of log-in (`via`), and groups.
    `until`: the end of access (seconds since the epoch, null: no end).
    `is_shared`: whether users were ever added. `quotas`: the bounds of the caller's tasks, and their use. `barred`:
    why the caller has no access, where that is known (a disabled or expired user, a Unix account that is no user's);
    `user` is null then. `share`: of the caller's tasks in the queue; null without a user."""

    user: str | None
    display: str
    role: Role
    scopes: list[Scope]
    via: Via
    groups: list[str]
    until: float | None
    is_shared: bool
    quotas: list[AccountView]
    barred: str | None
    share: ShareView | None


class LoggedIn(msgspec.Struct, frozen=True):
    """A log-in: the `token` that stands for it, told this once, its `id`, and when it ends (seconds since the
    epoch)."""

    user: str
    role: Role
    id: str
    token: str
    until: float


async def login(context: Context, params: LogIn) -> LoggedIn:
    """Show a password, and get a token for it. One message for all that can be wrong: nobody learns whether there is
    such a user."""
    user = context.core.people.named(params.name)
    await confirm_password(context, params.name, params.password, user)
    return _begin_session(context, context.core.people.find(params.name), params.label)


async def confirm_password(context: Context, name: str, password: str, user: User | None) -> None:
    """Check a password. Raises UnauthenticatedError, and LimitError after too many guesses. Replaces a kept hash that
    is too cheap. A user without a password here is looked up in the lab's directory, if there is one, and so is a name
    that no user has. With a directory, a refusal comes at one of few fixed moments: a directory takes longer for names
    that it has than for others."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        await _confirm(context, name, password, user)
    except (UnauthenticatedError, DirectoryError):
        if context.master.directory is not None:
            await sleep(REFUSED_S - (loop.time() - began) % REFUSED_S)
        raise


async def _confirm(context: Context, name: str, password: str, user: User | None) -> None:
    people, guesses, address = context.core.people, context.master.guesses, _whence(context)
    guesses.check(name, address, time.monotonic())
    kept = "" if user is None else user.password
    try:
        checked = await context.master.passwords.check(password, kept or None)
    except BaseException:  # nothing was compared, or nobody is left to learn of it
        guesses.let_go(name, address, time.monotonic())
        raise
    is_right = checked.ok
    if not is_right and (directory := context.master.directory) is not None:
        try:
            # For a user with a password here the directory is asked, but not believed: without the question, the
            # shorter time would show who has a password here.
            is_right = await directory.check(name, password) and not kept
        except BaseException:
            # Counted, whatever happened, and also where the caller has left: the guess at the password kept here is
            # known to be wrong by now, and the directory may have been asked.
            guesses.failed(name, address, time.monotonic())
            raise
    now = people.named(name)
    is_same = now is not None and user is not None and now.id == user.id and now.password == user.password
    if not is_right or not is_same or now is None or now.is_owner_only:
        guesses.failed(name, address, time.monotonic())
        raise UnauthenticatedError(Message("wrong_password"))
    if (why := why_barred(people, now, time.time())) is not None:
        # The password was right, so this tells the user, and nobody who guesses names. It counts as a failure all the
        # same: the password of a disabled user must not be quicker to guess than another.
        guesses.failed(name, address, time.monotonic())
        raise UnauthenticatedError(why)
    guesses.came_in(name, address, time.monotonic())
    if (rehash := checked.rehash) is not None:
        context.change(lambda: people.edit(name, password=rehash), grows=False)


def token(context: Context, params: Shown) -> Who:
    """Show a token: this connection is its user's from now on."""
    people, guesses, address = context.core.people, context.master.guesses, context.caller.address
    parsed = tokens.parse(params.token)
    if parsed is None:
        raise UnauthenticatedError(Message("no_such_token"))
    service = context.master.services.of(parsed)
    if service is not None and context.become is not None and not context.caller.is_relayed:
        return who(context, context.become(by_service(service, address)))
    launch_id = context.master.task_tokens.launch_of(parsed)
    if launch_id is not None and context.master.task_tokens.is_of(parsed, launch_id):
        return who(context, _become_task(context, launch_id))
    found = people.tokens.get(parsed.id)
    # A right token is accepted, however many tries from there have failed: nobody guesses 256 bits, and nobody shall
    # lock out the programs of others.
    if found is None or not tokens.is_it(parsed.secret, found.sha256):
        name, whence, now = f"mst_{parsed.id}", _whence(context), time.monotonic()
        guesses.check(name, whence, now)
        guesses.failed(name, whence, now)
        raise UnauthenticatedError(Message("no_such_token"))
    caller = _become(context, found)
    now = context.rights_now
    day = int(now // DAY_S)
    is_noted = found.idle_s is None or now - found.seen_at < NOTED_S
    if found.used_on != day or not is_noted:
        context.change(lambda: people.use_token(found, day, now), grows=False)
    return who(context, caller)


def relay(context: Context, params: Relay) -> Done:
    """Call for another user from now on, over this connection, who must log in: only for the console."""
    caller = context.caller
    if caller.via != "service" or caller.user != "web" or context.become is None:
        raise ForbiddenError(Message("relay_for_console"))
    try:
        address = str(ipaddress.ip_address(params.origin))
    except ValueError:
        raise BadRequestError(Message("no_address", said=params.origin)) from None
    context.become(by_relay(address, params.account))
    return Done()


def session(context: Context, params: BeginSession) -> LoggedIn:
    """Begin a browser's log-in with the token that was shown: it may do what that one may, and ends with it."""
    caller = context.caller
    shown = context.core.people.tokens.get(caller.token)
    if not caller.is_relayed or shown is None or shown.parent:
        raise ConflictError(Message("session_of_token"))
    user = context.core.people.users[shown.user]
    return _begin_session(context, user, params.label, shown)


def redeem(context: Context, params: Redeem) -> Awaitable[LoggedIn]:
    """Choose a password with a link that works once, and log in with it; all log-ins from before end."""
    user = _of_link(context, params.link)
    check_password(params.password, user.name)
    return _redeemed(context, params, user)


async def _redeemed(context: Context, params: Redeem, user: User) -> LoggedIn:
    phc = await context.master.passwords.hash(params.password)
    if context.core.people.users.get(user.id) != user:  # somebody was quicker
        raise UnauthenticatedError(Message("no_such_link"))
    people = context.core.people

    def change() -> None:
        people.end_tokens(people.edit(user.name, password=phc, link="", link_until=0.0), frozenset({"session"}))

    context.change(change)
    return _begin_session(context, context.core.people.find(user.name), params.label)


def logout(context: Context, _params: Nothing) -> Done:
    """End the log-in, or the token, of this connection."""
    caller = context.caller
    if not caller.token:
        raise ConflictError(Message("nothing_to_log_out_of"))
    context.change(lambda: context.core.people.end_token(caller.token), grows=False)
    return Done()


def whoami(context: Context, _params: Nothing) -> Who:
    """Return the caller and their rights."""
    return who(context, context.caller)


def who(context: Context, caller: Caller) -> Who:
    """Return the data of the caller for the caller."""
    user = context.core.people.users.get(caller.user_id)
    return Who(
        user=caller.user,
        display="" if user is None else user.display,
        role=caller.role,
        scopes=sorted(caller.scopes),
        via=caller.via,
        groups=sorted(caller.groups),
        until=None if caller.until == float("inf") else caller.until,
        is_shared=context.core.people.is_shared,
        quotas=[] if user is None else [account_view(one) for one in context.core.quotas.accounts_of(user)],
        barred=None if caller.barred is None else str(caller.barred),
        share=None if caller.user is None else share_view(context.core.share_of(caller.user)),
    )


def new_token(context: Context, user: User, **fields: Any) -> tuple[str, Token]:
    """A token of this user's, as text and as it is kept; nobody has it before it is durable."""
    people = context.core.people
    token_id = secrets.token_hex(4)
    while token_id in people.tokens:
        token_id = secrets.token_hex(4)
    made = tokens.make(token_id)
    kept = Token(
        token_id, user.id, made.sha256, at=context.now, by=context.user, origin=context.caller.address, **fields
    )
    context.change(lambda: people.add_token(kept))
    return made.text, kept


def check_password(password: str, name: str) -> None:
    """Raise BadRequestError where this cannot be the user's password."""
    why = weakness(password, name)
    if why is not None:
        raise BadRequestError(why)


def sha256(text: str) -> str:
    """Return the digest of a link's secret; only the digest is kept."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _begin_session(context: Context, user: User, label: str, shown: Token | None = None) -> LoggedIn:
    """`shown`: the token that it is made of, which it outlives in nothing."""
    is_screen = shown is not None and shown.scopes == WALL_SCOPES
    now = context.core.clock.rights(time.time())  # where the clock is behind, a log-in would be over before it began
    until = now + (SCREEN_S if is_screen else SESSION_S)
    fields: dict[str, Any] = {}
    if context.caller.is_relayed and not is_screen:  # nobody touches a screen
        fields = {"idle_s": IDLE_S, "seen_at": now}
    if shown is not None:
        until = min(until, shown.ends_at)
        fields |= {"parent": shown.id, "scopes": shown.scopes}
    text, kept = new_token(context, user, kind="session", label=label, expires_at=until, **fields)
    caller = _become(context, kept)
    return LoggedIn(user=user.name, role=caller.role, id=kept.id, token=text, until=caller.until)


def _become(context: Context, kept: Token) -> Caller:
    """Make this token's user the caller from now on. Raises UnauthenticatedError if that user may not log in."""
    if context.become is None:
        raise RuntimeError("a call without a connection cannot log in")
    user = context.core.people.users[kept.user]
    if not kept.opens(context.rights_now):
        raise UnauthenticatedError(Message("no_such_token"))
    if (why := why_barred(context.core.people, user, time.time())) is not None:
        raise UnauthenticatedError(why)
    caller = context.caller
    identify = by_token(kept.id, caller.address, caller.whence, is_relayed=caller.is_relayed, user_id=user.id)
    return context.become(identify)


def _become_task(context: Context, launch_id: str) -> Caller:
    """Likewise, for the token of an attempt."""
    if context.become is None:
        raise RuntimeError("a call without a connection cannot log in")
    identify = by_task(launch_id, context.core.token_holder, context.caller.address, context.caller.whence)
    if identify(context.core.people, context.now).user is None:
        raise UnauthenticatedError(Message("task_token_over"))
    return context.become(identify)


def _whence(context: Context) -> str:
    return context.caller.whence or context.caller.address


def _of_link(context: Context, link: str) -> User:
    kept = sha256(link)
    for user in context.core.people.users.values():
        if user.link and hmac.compare_digest(user.link, kept) and context.rights_now < user.link_until:
            if (why := why_barred(context.core.people, user, time.time())) is not None:
                raise UnauthenticatedError(why)
            return user
    name, whence, now = "\0link", _whence(context), time.monotonic()  # a name that no user can have
    context.master.guesses.check(name, whence, now)
    context.master.guesses.failed(name, whence, now)
    raise UnauthenticatedError(Message("no_such_link"))
