"""Where the log of a task lies, and whether there can be one. Pure.

A log that nobody placed lies in the log folder, as `ID.log`; that of a part that has an account of its own in a folder
of that account's beneath, as `ACCOUNT/ID.log`. Others may write in the log folder: what lies at the place of a log that
no attempt can have begun is none.
"""

from __future__ import annotations

from master.core.tasks.attempt import Attempt, Part
from master.core.tasks.task import FIRST_FOREIGN_ID, Task
from wire.pattern import Pattern

_ACCOUNT = Pattern(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}")
_NOT_BEGUN = frozenset({"not_started", "not_started_anywhere"})


def is_account(name: str) -> bool:
    """Is it a name as agents take it? It is that of a folder, too."""
    return _ACCOUNT.fullmatch(name) is not None


def log_of(path: str, rank: int) -> str:
    """The log of a part of an attempt, by that of the first part: `12.log`, `12.1.log`."""
    if not rank:
        return path
    folder, slash, name = path.rpartition("/")
    stem, dot, ending = name.rpartition(".")
    return f"{folder}{slash}{stem}.{rank}.{ending}" if dot else f"{path}.{rank}"


def placed_log(task: Task, folder: str) -> str:
    """Where its log was to lie before an attempt had it in a folder of its account's. `folder`: that of logs which
    nobody placed."""
    above, _, name = task.log_path.rpartition("/")
    beneath, _, last = above.rpartition("/")
    is_moved = beneath == folder and name == f"{task.id}.log" and last in _accounts(task)
    return f"{beneath}/{name}" if is_moved else task.log_path


def account_log(task: Task, account: str, folder: str) -> str:
    """Where the log of an attempt of this account lies, "" for one that has none of its own; it may have been placed
    elsewhere."""
    if is_placed(task, folder) or not is_account(account):
        return placed_log(task, folder)
    return f"{folder}/{account}/{task.id}.log"


def launch_log(task: Task, part: Part, folder: str) -> str:
    """Where the agent that starts this part of the present attempt is to make its log. An agent which becomes the
    part's account makes that account's folder itself, and says so once the part runs."""
    return log_of(account_log(task, part.login, folder), task.allocation.index(part))


def part_log(task: Task, rank: int, folder: str) -> str:
    """Where the log of a part of the newest attempt lies, as far as is known."""
    parts = _newest(task)
    if not rank or rank >= len(parts) or _account(parts[rank]) == _account(parts[0]):
        return log_of(task.log_path, rank)
    return log_of(account_log(task, _account(parts[rank]), folder), rank)


def is_owners_log(task: Task, account: str, told: str, folder: str) -> bool:
    """Can the log of an attempt that ran as this account be where its node says? The node is believed nothing else:
    what it names is read for the owner."""
    return told == account_log(task, account, folder) != placed_log(task, folder)


def is_placed(task: Task, folder: str) -> bool:
    """Did somebody say where its log is to lie? `folder`: that of logs which nobody placed."""
    return placed_log(task, folder) != f"{folder}/{task.id}.log"


def may_have_log(task: Task, folder: str, rank: int = 0) -> bool:
    """Can there be a log that is the task's? A file that its owner named counts; else an attempt must have begun, and
    a later part of it must be known to run."""
    if is_placed(task, folder) or task.id >= FIRST_FOREIGN_ID:  # those an old system may have started
        return True
    if rank:
        return any(part.pid for attempt in task.attempts for part in attempt.parts[rank : rank + 1])
    return any(_may_have_begun(attempt) for attempt in task.attempts)


def _may_have_begun(attempt: Attempt) -> bool:
    is_over_unbegun = attempt.asked_end is not None or attempt.reason_key in _NOT_BEGUN
    return attempt.started_at is not None or (attempt.ended_at is not None and not is_over_unbegun)


def _newest(task: Task) -> list[Part]:
    return task.allocation or (task.earlier[-1].parts if task.earlier else [])


def _account(part: Part) -> str:
    return part.run_as or part.login


def _accounts(task: Task) -> set[str]:
    return {_account(part) for attempt in task.attempts for part in attempt.parts}
