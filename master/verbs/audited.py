"""Entries of the audit log for calls: who called, and what the call is about. An entry has nothing else of the call's
parameters: no command, no variable, no content, no secret. `master.verbs.call` says which calls get one."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from master.people.audit import AuditLog
from master.verbs.access import Caller
from master.verbs.clock import ClockAccepted
from master.verbs.convert import OF_PEOPLE
from master.verbs.settings import SettingView
from master.verbs.submit import Batch, Submitted
from master.verbs.tasks import Cancelled
from master.verbs.tokens import Revoked, TokenMade
from wire.errors import MusterError
from wire.pattern import Pattern
from wire.ranges import ids_in_short, names_in_short

_NAMES = ("path", "from", "name", "node", "user", "group")
_LISTS = ("names", "nodes", "tokens")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,63}")
_TOKEN_ID = Pattern(r"[0-9a-f]{1,32}", re.ASCII)
_MOST_TOLD = 1000
_LAUNCH_LENGTH = 64
"""Of a list of names or ids; a line has room for few."""


def note(  # noqa: PLR0917  (the engine calls a partial of it, with what failed)
    audit: AuditLog,
    caller: Caller,
    name: str,
    params: dict[str, Any],
    result: Any,
    knows: Callable[[str], object] = str,
    error: BaseException | None = None,
) -> None:
    """Tell of a call that is over. An error that is none of ours is a caller who did not wait (CancelledError), or a
    defect. `knows`: gives something for the name of a user that there is."""
    if error is None and isinstance(result, Submitted) and not caller.is_root:  # by far the most
        audit.record(caller.user, caller.address, caller.via, name, result.id, task=caller.task)
        return
    by, task = (caller.user, caller.address, caller.via), caller.task
    if error is None and not name.startswith("auth."):
        knows = str  # it was the name of one, at least until now
    if error is not None:
        audit.record(*by, name, about(name, params, None, knows), result=code_of(error), task=task)
    elif caller.is_root and isinstance(result, Submitted | Batch) and params.get("as") is not None:
        filed = result.id if isinstance(result, Submitted) else about(name, params, result, knows)
        told = f"{filed} as {params['as']}"
        audit.record(*by, name, told, task=task)
    elif isinstance(result, Submitted):
        audit.record(*by, name, result.id, task=task)
    elif isinstance(result, Cancelled):
        _note_cancelled(audit, caller, name, result)
    elif not params.get("dry_run"):
        audit.record(*by, name, about(name, params, result, knows), task=task)


def code_of(error: BaseException) -> str:
    """Return the code that stands for an error in the log."""
    if isinstance(error, MusterError):
        return error.code
    return MusterError.code if isinstance(error, Exception) else "left"


def about(verb: str, params: dict[str, Any], result: Any, knows: Callable[[str], object] = str) -> int | str:
    """Return what a call is about, from its parameters, which are not checked yet, and from its result."""
    task_id = params.get("id")
    if type(task_id) is int:
        return task_id
    if isinstance(result, Batch):
        return f"{result.first}-{result.first + result.count - 1}" if result.count > 1 else result.first
    ids = params.get("ids")
    if isinstance(ids, list) and ids:
        return _ids([one for one in ids if type(one) is int])
    if isinstance(result, TokenMade):
        return f"{result.user} {result.id}"
    if isinstance(result, Revoked):
        return names_in_short(result.ids[:_MOST_TOLD])
    if isinstance(result, ClockAccepted):
        return f"{_moment(result.was)} -> {_moment(result.now)}"
    if isinstance(result, SettingView):
        return f"{result.name} = {'none' if result.value is None else result.value}"
    return _named(verb, params, knows)


def _named(verb: str, params: dict[str, Any], knows: Callable[[str], object]) -> str:
    is_of_people = verb.partition(".")[0] in OF_PEOPLE
    for key in _NAMES:
        value = params.get(key)
        if isinstance(value, dict):
            value = value.get("name")
        if isinstance(value, str) and value:
            if is_of_people and not (knows(value) and (_USER.fullmatch(value) or not verb.startswith("auth."))):
                return ""  # who is in a hurry types a password there
            to, account = params.get("to"), params.get("account")
            if verb == "node.lost" and isinstance(account, str):
                return f"{account}@{value}"
            launch_id = params.get("launch_id")
            if isinstance(launch_id, str):
                return f"{launch_id[:_LAUNCH_LENGTH]}@{value}"
            if verb == "node.resume" and params.get("own_account") is True:
                return f"{value} own_account"
            return f"{value} -> {to}" if isinstance(to, str) and (knows(to) or not is_of_people) else value
    for key in _LISTS:
        value = params.get(key)
        if isinstance(value, list):
            # The secret of a token, or a password, may be pasted in the place of its id.
            told = [
                one
                for one in value[:_MOST_TOLD]
                if isinstance(one, str) and (key != "tokens" or _TOKEN_ID.fullmatch(one))
            ]
            if is_of_people and key == "names":
                told = [one for one in told if knows(one)]
            return names_in_short(told)
    return ""


def _moment(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{at:.0f}"  # no calendar goes so far


def _note_cancelled(audit: AuditLog, caller: Caller, name: str, result: Cancelled) -> None:
    """One that names several tasks looks at each by itself."""
    by_code: dict[str, list[int]] = {}
    for task_id, code in result.codes.items():
        by_code.setdefault(code, []).append(task_id)
    by = caller.user, caller.address, caller.via
    if done := [*result.cancelled, *result.signalled]:
        audit.record(*by, name, _ids(done), task=caller.task)
    for code, ids in by_code.items():
        audit.record(*by, name, _ids(ids), result=code, task=caller.task)


def _ids(ids: list[int]) -> int | str:
    if len(ids) == 1:
        return ids[0]
    more = f" and {len(ids) - _MOST_TOLD} more" if len(ids) > _MOST_TOLD else ""
    return f"{ids_in_short(ids[:_MOST_TOLD])}{more}"
