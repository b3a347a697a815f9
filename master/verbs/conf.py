"""The verbs about the two files that people write, conf.json and the registry: read as they are, and replaced whole,
also by what they were before.

Owns which parts of them may be changed remotely, and the answer to a change. `config` and `registry` define their
content, `replaced_file` replaces a file, `kept_files` keeps the earlier one, and `file_secrets` knows which secrets are
in them.
"""

from __future__ import annotations

import asyncio
import difflib
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from master.config import conf_changes, config
from master.edited_files import json_file, replaced_file
from master.nodes import registry_file
from master.nodes.registry import MISSING_CURE, NodeConfig
from master.nodes.same_account import check_company
from master.people.desktop_names import check_names
from master.secrets.file_secrets import masked, unmasked
from master.secrets.inline_secrets import check_conf, check_registry
from master.secrets.visible_secrets import check_not_visible
from master.verbs import kept_files
from master.verbs.auth import Secret, confirm_password
from master.verbs.base import Context
from master.verbs.kept_files import KeptFile
from wire.errors import BadRequestError, ConfigError, ConflictError, ForbiddenError
from wire.file_fault import fault, fault_of
from wire.message import Message

FIXED = (
    "tls",
    "local_admin",
    "local_users",
    "run_as_allowed",
    "accounts",
    "ldap",
    "psw_file",
    "slaver_file",
    "task_info",
    "hooks",
)
"""Keys of conf.json that say who is who, which files and accounts are the master's, or what it runs: changed on its
machine."""
MOST = 4 << 20
MOST_LINES = 5000
Name = Literal["conf", "registry"]


class OneFile(msgspec.Struct, forbid_unknown_fields=True):
    """conf.read: conf.json (`conf`), or the list of nodes (`registry`)."""

    name: Name


class WriteFile(OneFile, forbid_unknown_fields=True):
    """conf.write: the whole `text`, in the place of the file of this `version`; a mark like `******** 1` stands for the
    secret that it stood for in the text that was read. Or, instead of a text, an earlier version that was `kept`, by
    its name, secrets and all. With `dry_run` it is only looked at. `password`: one's own, where one has one."""

    version: Annotated[str, Meta(max_length=100)]
    text: Annotated[str, Meta(max_length=MOST)] | None = None
    kept: Annotated[str, Meta(max_length=300)] | None = None
    dry_run: bool = False
    password: Secret | None = None


class FileText(msgspec.Struct, frozen=True):
    """A file's `path`, its `text` with marks for secrets, and its `version`. `fixed`: keys that cannot be changed from
    afar."""

    name: Name
    path: str
    text: str
    version: str
    fixed: list[str]


class FileWritten(msgspec.Struct, frozen=True):
    """The result of a change: the `diff`, lines as `diff -u` has them, `changed` keys or nodes, and when that `counts`:
    now, or from the next `start` of the master. `at_start`: the keys of conf.json that count from the start, while the
    others count now. `version`: that of the file now; `kept`: where the one before lies, null where nothing was
    written."""

    name: Name
    diff: list[str]
    changed: list[str]
    counts: Literal["now", "start"]
    version: str
    kept: str | None
    at_start: list[str] = []


async def read(context: Context, params: OneFile) -> FileText:
    """conf.json or the registry, as it lies on the disk."""
    path, cure = _place(context, params.name)
    data = await asyncio.to_thread(json_file.read_bytes, path, cure=cure)
    return FileText(params.name, str(path), _shown(data, path), _version(data), _fixed(params.name))


async def kept(context: Context, params: OneFile) -> list[KeptFile]:
    """The earlier versions of conf.json or the registry that changes from afar have replaced, the newest first."""
    path, _ = _place(context, params.name)
    return await asyncio.to_thread(kept_files.kept, _before(context), path.name)


async def write(context: Context, params: WriteFile) -> FileWritten:
    """Replace conf.json or the registry, once it was looked at; the file before is kept."""
    if (params.text is None) == (params.kept is None):
        raise BadRequestError(Message("text_or_kept"))
    if not params.dry_run:
        await _confirm(context, params.password)
    path, cure = _place(context, params.name)
    if params.dry_run:
        before = await asyncio.to_thread(json_file.read_bytes, path, cure=cure)
        after = await asyncio.to_thread(_changed, context, params, path, before)
        return _told(context, params.name, path, before, after, kept=None)
    change = _Change(context, params, path)
    context.caller_now()
    await asyncio.to_thread(change.write, cure)
    _forget_removed(context, params.name, change)
    return _told(context, params.name, path, change.before, change.after, kept=change.kept)


class _Change:
    """One change of a file: in a thread, with the file locked. `before` and `after` are its bytes."""

    def __init__(self, context: Context, params: WriteFile, path: Path) -> None:
        self._context = context
        self._params = params
        self._path = path
        self._loop = asyncio.get_running_loop()
        self.before = self.after = b""
        self.kept: str | None = None

    def write(self, cure: Message) -> None:
        """Do it. Raises as `replaced_file.rewrite` does, and BadRequestError, ForbiddenError."""
        if self._params.name == "conf":
            replaced_file.rewrite(self._path, self._made, cure=cure, keep=self._keep)
        else:
            check = _registry_check(self._context)
            registry_file.write(self._path, self._made, self._keep, check=check, told=self._tell)

    def _made(self, before: bytes) -> bytes:
        self.before = before
        self.after = _changed(self._context, self._params, self._path, before)
        return self.after

    def _keep(self, before: bytes) -> None:
        self.kept = str(kept_files.keep(_before(self._context), self._path.name, before, _version(before)))

    def _tell(self, nodes: tuple[NodeConfig, ...]) -> None:
        self._loop.call_soon_threadsafe(self._context.master.fleet.apply, nodes)


def _place(context: Context, name: Name) -> tuple[Path, Message]:
    conf = context.master.config
    return (conf.path, config.MISSING_CURE) if name == "conf" else (conf.registry, MISSING_CURE)


def _before(context: Context) -> Path:
    """Where earlier versions lie."""
    return context.master.config.task_info / "before-edits"


def _fixed(name: Name) -> list[str]:
    return list(FIXED) if name == "conf" else []


def _version(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _text(data: bytes, path: Path) -> str:
    try:
        return data.removeprefix(json_file.BOM).decode()
    except UnicodeDecodeError:
        raise fault(path, json_file.NOT_UTF8) from None


def _shown(data: bytes, path: Path) -> str:
    """Raises ConfigError for what is no JSON: what in it is a secret nobody could tell."""
    json_file.parse(data, path)
    return masked(_text(data, path))


async def _confirm(context: Context, password: str | None) -> None:
    """Raise ForbiddenError, or UnauthenticatedError for a wrong one, unless the caller enters the password once more: a
    browser that was left open changes no file. The user who runs the master, and users without a password, need not
    enter one."""
    caller, user = context.caller, context.core.people.named(context.user)
    if caller.via == "owner" or user is None or not (user.password or context.master.directory is not None):
        return
    if password is None:
        raise ForbiddenError(Message("password_again"))
    await confirm_password(context, user.name, password, user)


def _changed(context: Context, params: WriteFile, path: Path, before: bytes) -> bytes:
    """The file as it is to be, looked at as a start would. Raises ConflictError, BadRequestError, ForbiddenError."""
    if _version(before) != params.version:
        raise ConflictError(Message("registry_changed", path=str(path)))
    try:
        after = _wanted(context, params, path, before)
        if params.name == "conf":
            _check_conf(context, path, before, after)
        else:
            registry_file.typed(path, after, _registry_check(context))
    except ConfigError as error:
        raise BadRequestError(fault_of(path, error)) from None
    return after


def _wanted(context: Context, params: WriteFile, path: Path, before: bytes) -> bytes:
    """Return the requested content of the file, whether it is allowed or not. Raises ConfigError if it is not JSON,
    NotFoundError."""
    if params.kept is not None:
        after = kept_files.read(_before(context), path.name, params.kept)
        json_file.parse(after, path)
        return after
    text = params.text or ""
    json_file.parse(text.encode("utf-8", "surrogatepass"), path)
    return (json_file.BOM if before.startswith(json_file.BOM) else b"") + unmasked(text, _text(before, path)).encode()


def _check_conf(context: Context, path: Path, before: bytes, after: bytes) -> None:
    value, was = json_file.parse(after, path), json_file.parse(before, path)
    made = config.config_of(value, path)
    for key in FIXED:
        if value.get(key) != was.get(key):
            raise ForbiddenError(Message("conf_key_fixed", key=key, path=str(path)))
    nodes = tuple(context.master.fleet.configs.values())
    check_conf(made)
    check_company(nodes, made.desktop_client, path)
    check_names(made.desktop_client, context.core.people, path)
    check_not_visible(made, nodes, users=context.core.people.is_shared)


def _registry_check(context: Context) -> Callable[[tuple[NodeConfig, ...]], None]:
    conf, is_shared = context.master.config, context.core.people.is_shared

    def check(nodes: tuple[NodeConfig, ...]) -> None:
        check_company(nodes, conf.desktop_client, conf.path)
        check_not_visible(conf, nodes, users=is_shared)
        check_registry(nodes, conf.registry)

    return check


def _forget_removed(context: Context, name: Name, change: _Change) -> None:
    """Forget the notes of nodes whose entries were removed, as with `node.remove`."""
    gone = _by_name(change.before, change.after)[1] if name == "registry" else []
    for node in gone:
        context.change(lambda node=node: context.core.forget_note(node), grows=False)  # type: ignore[misc]


def _told(context: Context, name: Name, path: Path, before: bytes, after: bytes, *, kept: str | None) -> FileWritten:
    old, new = (masked(_text(data, path)).splitlines() for data in (before, after))
    diff = list(difflib.unified_diff(old, new, path.name, path.name, lineterm=""))[:MOST_LINES]
    changed = _keys(before, after) if name == "conf" else _by_name(before, after)[0]
    later = _at_start(context, path, after, changed) if name == "conf" else []
    return FileWritten(name, diff, changed, "start" if later else "now", _version(after), kept, later)


def _at_start(context: Context, path: Path, after: bytes, changed: list[str]) -> list[str]:
    """Which of the changed keys of conf.json the running master does not have yet, and takes over when it starts."""
    keys = conf_changes.at_start(context.master.config, config.config_of(json_file.parse(after, path), path))
    return [key for key in keys if key.partition(".")[0] in changed]


def _keys(before: bytes, after: bytes) -> list[str]:
    was, now = (json_file.parse(data, Path()) for data in (before, after))
    return sorted(key for key in {*was, *now} if was.get(key) != now.get(key))


def _by_name(before: bytes, after: bytes) -> tuple[list[str], list[str]]:
    """The names of the nodes whose entries differ, and of those that are gone."""
    was, now = _entries(before), _entries(after)
    changed = [name for name in {**was, **now} if was.get(name) != now.get(name)]
    return changed, [name for name in was if name not in now]


def _entries(data: bytes) -> dict[str, Any]:
    value = json_file.parse(data, Path())
    entries = [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
    return {str(one.get("name", "")): one for one in entries}
