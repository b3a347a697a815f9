"""The account as which a command runs on a node: its owner's, where there is one and the agent there can become it.
Pure.

The function that is passed in decides which account an owner has. Owned here is what follows from the answer on a node,
and where the log of such a command lies.
"""

from __future__ import annotations

from collections.abc import Callable

from master.core.nodes.facts import Facts
from master.core.people.people import People
from master.core.tasks.task import Task
from wire.agent import RUNS_AS
from wire.message import Message
from wire.pattern import Pattern

RunAs = Callable[[str], str | None]
"""The account of a task's owner; None: the owner's tasks run as the agents' own."""

_ACCOUNT = Pattern(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}")


class WouldBeRootError(Exception):
    """The agent is root and would run the command as root; `why` says what to do."""

    def __init__(self, why: Message) -> None:
        super().__init__(str(why))
        self.why = why


def as_their_owners(people: People, ours: str) -> RunAs:
    """Once there are users, each has the account of the same name; but for the one who runs the master (`ours`), whose
    tasks run as the agents' account, as they did when there were no users."""

    def run_as(owner: str) -> str | None:
        return owner if people.is_shared and owner != ours else None

    return run_as


def as_the_agent(_owner: str) -> str | None:
    """No owner has an account of their own: all run as the agent's."""
    return None


def account_on(node: str, facts: Facts | None, account: str | None) -> str | None:
    """Return the account that the agent of a node has to become for a command whose owner has this account. None: its
    own, for it is not root, and all that it runs is its own account's. Raises WouldBeRootError."""
    if account is None or facts is None or facts.can_run_as:
        return account
    if facts.uid not in (0, None):
        return None
    if facts.protocol < RUNS_AS:
        raise WouldBeRootError(Message("agent_without_run_as", node=node, account=account))
    raise WouldBeRootError(Message("agent_cannot_become", node=node, account=account))


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


def placed_log(task: Task) -> str:
    """Where its log was to lie before an attempt ran as its owner, which put it into a folder of the owner's."""
    folder, _, name = task.log_path.rpartition("/")
    above, _, last = folder.rpartition("/")
    owners = {part.run_as for attempt in task.attempts for part in attempt.parts}
    return f"{above}/{name}" if last and last in owners and name == f"{task.id}.log" else task.log_path


def is_owners_log(task: Task, account: str, told: str) -> bool:
    """Can a log be there that was placed as this task's is, of an attempt that ran as this account? A node is believed
    nothing else: what it names is read for the owner."""
    folder, _, name = placed_log(task).rpartition("/")
    return name == f"{task.id}.log" and told == f"{folder}/{account}/{name}" and is_account(account)
