"""The verbs about users: their roles, data and log-ins. For admins, but for one's own
password."""

from __future__ import annotations

import os
import secrets
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from master.core.people.people import LINK_S, Language, Role, User
from master.core.people.quota import KEYS, Use
from master.core.people.quotas import Key
from master.core.tasks.task import ENDED, TaskState
from master.durable.archive_index import Wanted
from master.edited_files.ownership import user_name
from master.nodes.same_account import of_other_machines
from master.people import desktop_names
from master.people.desktop_names import check_claim, check_is_not_one
from master.secrets.visible_secrets import check_not_visible
from master.verbs.access import Caller
from master.verbs.auth import Secret, UserName, check_password, confirm_password, sha256
from master.verbs.base import Context, Done, Nothing
from master.verbs.quotas import QuotaChanges, QuotaView, UseView, quota_view, use_view
from wire.errors import BadRequestError, ConflictError, ForbiddenError, StorageError
from wire.message import Message

ALL_ENDED = tuple(state.value for state in sorted(ENDED))
Said = Annotated[str, Meta(max_length=200)]


class OneUser(msgspec.Struct, forbid_unknown_fields=True):
    """A user by name."""

    name: UserName


class AddUser(OneUser, forbid_unknown_fields=True):
    """user.add: `name` is the user's name here, `display` the full name. The user logs in with a `password`, or
    without one by a link (user.link), a token (token.new) or, on the master's machine, by the Unix account. Access ends
    at `expires_at` (seconds since the epoch). `again`: this is the removed user of the same name, and gets that user's
    tasks."""

    role: Role = "user"
    display: Said = ""
    mail: Said = ""
    language: Language = ""
    expires_at: float | None = None
    password: Secret | None = None
    again: bool = False


class EditUser(OneUser, forbid_unknown_fields=True):
    """user.edit: new values of a user: `role`, `display`, `mail`, `language`, `expires_at`; and the bounds of the
    user's tasks at one time, null for no bound: `max_total_gpus` in use, `max_manual_gpus` in named allocations,
    `max_gpus_per_task`, `max_running` tasks."""

    changes: Annotated[dict[str, Any], Meta(examples=[{"role": "viewer"}])]


class _Changes(QuotaChanges, frozen=True, forbid_unknown_fields=True):
    role: Role | msgspec.UnsetType = msgspec.UNSET
    display: Said | msgspec.UnsetType = msgspec.UNSET
    mail: Said | msgspec.UnsetType = msgspec.UNSET
    language: Language | msgspec.UnsetType = msgspec.UNSET
    expires_at: float | msgspec.UnsetType | None = msgspec.UNSET


class DisableUser(OneUser, forbid_unknown_fields=True):
    """user.disable: `cancel` also cancels running and waiting tasks."""

    cancel: bool = False


class SetPassword(msgspec.Struct, forbid_unknown_fields=True):
    """user.password: the new `password` of the user `name`, one's own where none is named; then the `old` one, too.
    Null removes the password."""

    password: Secret | None
    name: UserName | None = None
    old: Secret | None = None


class Claim(msgspec.Struct, forbid_unknown_fields=True):
    """user.claim: the tasks of the user `name`, who owned some before there were users, are the user `to`'s."""

    name: UserName
    to: UserName


class UserView(msgspec.Struct, frozen=True):
    """A user. `quota`: the bounds of the user's tasks at one time, `use`: their use. `has_password`; `log_ins` and
    `tokens`: their numbers; `is_owner_only`: nobody added this user, who owned tasks before there were users. Times in
    seconds since the epoch."""

    id: int
    name: str
    display: str
    role: Role
    mail: str
    language: Language
    groups: list[str]
    mentors: list[str]
    added_at: float
    added_by: str
    expires_at: float | None
    disabled: str | None
    has_password: bool
    is_owner_only: bool
    log_ins: int
    tokens: int
    quota: QuotaView
    use: UseView


class Disabled(msgspec.Struct, frozen=True):
    """The results for a user's tasks: held until the user is enabled, still running, or cancelled."""

    held: list[int]
    running: list[int]
    cancelled: list[int]


class Link(msgspec.Struct, frozen=True):
    """A `link` that lets the user choose a password once, told this once, and until when (seconds since the epoch)."""

    name: str
    link: str
    until: float


class Claimed(msgspec.Struct, frozen=True):
    """How many tasks have another owner now."""

    count: int


def list_users(context: Context, _params: Nothing) -> list[UserView] | Awaitable[list[UserView]]:
    """All users, by name."""
    users = sorted(context.core.people.users.values(), key=lambda user: user.name)
    unused = _unused_desktop_users(context)
    return _told_used(context, users, unused) if unused else _views(context, users)


def _views(context: Context, users: list[User]) -> list[UserView]:
    uses = context.core.quotas.uses()
    return [user_view(context, user, uses) for user in users]


def _unused_desktop_users(context: Context) -> set[str]:
    """Return the names that are users only in case a desktop client comes, in a lab that lets none in from other
    machines, unless they own a task now."""
    core, client = context.core, context.master.config.desktop_client
    if of_other_machines(client):
        return set()
    found = {core.people.named(name) for _, name in desktop_names.named(client)}
    untouched = {one.name for one in found if one is not None and one == User(one.id, one.name, is_owner_only=True)}
    return untouched - core.owners()


async def _told_used(context: Context, users: list[User], unused: set[str]) -> list[UserView]:
    """The users without `unused`, but for those of these who own finished tasks in the monthly files."""
    with suppress(StorageError):
        for name in sorted(unused):
            page = await context.engine.archive.page(Wanted(ALL_ENDED, owners=(name,), limit=0))
            unused = unused - {name} if page.total else unused
        users = [user for user in users if user.name not in unused]
    return _views(context, users)


def add(context: Context, params: AddUser) -> Awaitable[UserView]:
    """Add a user of the lab. From the first one on callers must log in, and each user owns the tasks that they
    submit."""
    master = context.master
    check_not_visible(master.config, tuple(master.fleet.configs.values()), users=True)
    _check_own_account(params.name, params.role)
    _check_desktop_name(context, params.name, params.role)
    if params.password is not None:
        check_password(params.password, params.name)
    return _added(context, params)


def _check_own_account(name: str, role: Role) -> None:
    """Raise BadRequestError for a user with the name of the account that runs the master who is no admin: the name
    would give them the rights that the kernel gives that account."""
    if role != "admin" and name == user_name(os.geteuid()):
        raise BadRequestError(Message("own_account_is_admins", name=name))


def _check_desktop_name(context: Context, name: str, role: Role) -> None:
    """Raise ConflictError for an admin with a name that desktop clients use, which give no password."""
    if role == "admin":
        check_is_not_one(context.master.config.desktop_client, name)


async def _check_former(context: Context, name: str) -> None:
    """Raise ConflictError if a removed user of this name still owns tasks: the new user of the name would get them,
    with their variables and logs. Raises StorageError."""
    core = context.core
    if not core.people.is_shared or core.people.named(name) is not None or name == user_name(os.geteuid()):
        return
    count = sum(task.owner == name for task in core.tasks.values())
    count += (await context.engine.archive.page(Wanted(ALL_ENDED, owners=(name,), limit=0))).total
    if count:
        raise ConflictError(Message("name_of_former", name=name, count=count))


async def _added(context: Context, params: AddUser) -> UserView:
    if not params.again:
        await _check_former(context, params.name)
    phc = "" if params.password is None else await context.master.passwords.hash(params.password)
    fields = {key: getattr(params, key) for key in ("role", "display", "mail", "language", "expires_at")}
    core = context.core

    def change() -> User:
        # The names that the desktop client uses may own tasks later.
        client = context.master.config.desktop_client
        owners = {*core.owners(), client.user, *client.users.values()}
        return core.people.add(params.name, owners, password=phc, at=context.now, by=context.user, **fields)

    return user_view(context, context.change(change))


def edit(context: Context, params: EditUser) -> UserView:
    """Change a user."""
    try:
        said = msgspec.convert(params.changes, _Changes)
    except msgspec.ValidationError as error:
        raise BadRequestError(Message("bad_user_change", said=str(error))) from None
    words = {key: value for key, value in msgspec.structs.asdict(said).items() if value is not msgspec.UNSET}
    changes = {key: value for key, value in words.items() if key not in KEYS}
    if len(changes) < len(words):
        changes["quota"] = said.of(context.core.people.find(params.name).quota)
    _check_own_account(params.name, changes.get("role", "admin"))
    _check_desktop_name(context, params.name, changes.get("role", "user"))
    return user_view(context, context.change(lambda: context.core.edit_user(params.name, context.now, **changes)))


def disable(context: Context, params: DisableUser) -> Disabled:
    """Remove the access of a user: end log-ins and tokens, and let no task of the user begin. Running tasks continue,
    unless they are to be cancelled."""
    core = context.core
    done = Disabled([], [], [])

    def change() -> None:
        for task in core.disable_user(params.name, context.user):
            if params.cancel:
                core.cancel(task.id, context.now, by=context.user)
                done.cancelled.append(task.id)
            elif task.state is TaskState.HELD:
                done.held.append(task.id)
            else:
                done.running.append(task.id)

    core.people.find(params.name)
    context.change(change, grows=False)
    return done


def enable(context: Context, params: OneUser) -> UserView:
    """Undo `disable`: held tasks wait again. Log-ins and tokens have ended for good."""
    return user_view(context, context.change(lambda: context.core.enable_user(params.name)))


def remove(context: Context, params: OneUser) -> Done:
    """Remove a user without unfinished tasks. The name stays with finished tasks and in the audit log."""
    context.change(lambda: context.core.remove_user(params.name), grows=False)
    return Done()


def password(context: Context, params: SetPassword) -> Awaitable[Done]:
    """Set a password. All log-ins of that user but the one that asks end."""
    name = params.name or context.user
    known = context.core.people.named(name)
    is_own = known is not None and known.id == context.caller.user_id and context.caller.via != "owner"
    _check_whose_password(context.caller, name, is_own=is_own)
    user = context.core.people.find(name)
    if not context.caller.is_kept or context.caller.via == "task":
        raise ForbiddenError(Message("token_sets_no_password"))
    if params.password is not None:
        check_password(params.password, name)
    elif is_own and context.caller.role != "admin":
        raise BadRequestError(Message("password_needed"))
    return _password_set(context, params, user, is_own=is_own)


def _check_whose_password(caller: Caller, name: str, *, is_own: bool) -> None:
    if not is_own and (caller.role != "admin" or "admin" not in caller.scopes):
        raise ForbiddenError(Message("password_of_another", name=name))


async def _password_set(context: Context, params: SetPassword, user: User, *, is_own: bool) -> Done:
    if is_own and (user.password or context.master.directory is not None):
        await confirm_password(context, user.name, params.old or "", user)
        user = context.core.people.find(user.name)  # its hash may have been made anew
    phc = "" if params.password is None else await context.master.passwords.hash(params.password)
    people = context.core.people

    def change() -> None:
        _check_whose_password(context.caller_now(), user.name, is_own=is_own)
        now = people.named(user.name)
        if now is None or now.id != user.id or (is_own and now.password != user.password):
            raise ConflictError(Message("password_set_meanwhile", name=user.name))
        people.edit(user.name, password=phc, link="", link_until=0.0)
        people.end_tokens(user, frozenset({"session"}), but=context.caller.token)

    context.change(change, grows=False)
    return Done()


def link(context: Context, params: OneUser) -> Link:
    """Make a link with which a user chooses a password; it replaces the one before."""
    user = context.core.people.find(params.name)
    text, until = secrets.token_hex(32), context.rights_now + LINK_S  # no sign that an option begins with
    context.change(lambda: context.core.people.edit(user.name, link=sha256(text), link_until=until))
    return Link(user.name, text, until)


def claim(context: Context, params: Claim) -> Claimed:
    """Give the tasks of somebody who owned them before there were users to a user."""
    check_claim(context.master.config.desktop_client, context.core.people, params.name, params.to)
    return Claimed(len(context.change(lambda: context.core.claim(params.name, params.to), grows=False)))


def user_view(context: Context, user: User, uses: Mapping[Key, Use] | None = None) -> UserView:
    """Return a user as admins see them. `uses`: the present use of quotas, if the caller shows many users."""
    people = context.core.people
    uses = context.core.quotas.uses() if uses is None else uses
    kinds = [token.kind for token in people.tokens_of(user) if token.opens(context.rights_now)]
    return UserView(
        id=user.id,
        name=user.name,
        display=user.display,
        role=user.role,
        mail=user.mail,
        language=user.language,
        groups=sorted(one.name for one in people.groups.values() if user.id in one.members),
        mentors=sorted(one.name for one in people.groups.values() if user.id in one.mentors),
        added_at=user.at,
        added_by=user.by,
        expires_at=user.expires_at,
        disabled=user.disabled,
        has_password=bool(user.password),
        is_owner_only=user.is_owner_only,
        log_ins=kinds.count("session"),
        tokens=kinds.count("token"),
        quota=quota_view(user.quota),
        use=use_view(uses.get(("user", user.name))),
    )
