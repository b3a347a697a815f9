"""The account as which a command runs on a node: its owner's, where there is one and the agent there can become it.
Pure.

The function that is passed in decides which account an owner has. Owned here is what follows from the answer on a node.
"""

from __future__ import annotations

from collections.abc import Callable

from master.core.nodes.facts import Facts
from master.core.people.people import People
from wire.agent import RUNS_AS
from wire.message import Message

RunAs = Callable[[str], str | None]
"""The account of a task's owner; None: the owner's tasks run as the agents' own."""


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
