"""The SSH accounts of a node on which nobody is root: whose tasks run over which, and how the agent of each is.

Pure. The node's own agent, of the account that the registry's entry names, is the node's business; here are those
besides. Nothing is known of one before its first task comes: then it is wanted, somebody makes a link to it, and once
nothing of its account is there any more, it is forgotten again.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from master.core.nodes.facts import Facts, NodeState
from master.core.people.run_as import RunAs, as_the_agent
from wire.message import Message

OWN = ""
"""In the place of an account's name: that of the node's own agent."""


class AccountAgent(msgspec.Struct):
    """The agent of one account. `why`: what is wrong with the way to it. `rests`: how often in a row it could start
    nothing; `resting`: why it is let be now."""

    state: NodeState = NodeState.CONNECTING
    why: Message | None = None
    facts: Facts | None = None
    rests: int = 0
    resting: Message | None = None


class Gate(msgspec.Struct, frozen=True):
    """`logins`: accounts of owners, in pairs; `closed`: those over which nothing can be started now; `run_as`: as in
    `Accounts`."""

    logins: frozenset[tuple[str, str]]
    closed: frozenset[str]
    run_as: RunAs

    def of(self, owner: str) -> str | None:
        """As `Accounts.of`."""
        name = self.run_as(owner)
        return OWN if name is None else next((login for one, login in self.logins if one == name), None)


class Accounts:
    """`logins`: the account of each owner who has one; None: all tasks are the node's own agent's. `run_as`: whose
    tasks are to be kept apart at all. `is_untold`: the executor has not said which account tasks get, so nobody who is
    to be kept apart has one there. `agents`: those that are wanted, by account. `cordons`: why nothing new is started
    over an account, by account and kind; they outlast its agent."""

    def __init__(self, run_as: RunAs = as_the_agent) -> None:
        self.logins: Mapping[str, str] | None = None
        self.run_as = run_as
        self.is_untold = False
        self.agents: dict[str, AccountAgent] = {}
        self.cordons: dict[str, dict[str, Message]] = {}

    @property
    def are_used(self) -> bool:
        """Is it a matter of accounts whose tasks can run here?"""
        return self.logins is not None or self.is_untold

    def of(self, owner: str) -> str | None:
        """Return the account over which the tasks of this owner run, OWN where that is the node's own; None if they
        have none."""
        return self.of_account(self.run_as(owner) if self.are_used else None)

    def of_account(self, name: str | None) -> str | None:
        """Likewise of who is to be kept apart as this; None: nobody is."""
        if name is None:
            return OWN
        if self.is_untold:
            return None
        return OWN if self.logins is None else self.logins.get(name)

    def gate(self, boot_id: str) -> Gate | None:
        """Return whose tasks may be started here now, as far as accounts go; None where there are no accounts.
        `boot_id`: of the run of the machine in which the node's own agent is."""
        if not self.are_used:
            return None
        known = self.agents.keys() | self.cordons.keys()
        closed = frozenset(login for login in known if self._why_closed(login, boot_id) is not None)
        logins = {} if self.logins is None or self.is_untold else self.logins
        return Gate(frozenset(logins.items()), closed, self.run_as)

    def why_not(self, owner: str, boot_id: str) -> Message | None:
        """Why nothing can be started over this owner's account now; None if it can, or nobody knows before it is tried.
        `boot_id`: as in `gate`."""
        login = self.of(owner)
        return None if login is None or login == OWN else self._why_closed(login, boot_id)

    def cordon(self, login: str, kind: str, reason: Message | None) -> bool:
        """Start nothing new over this account for this reason, or with None no longer for it; did that change
        anything?"""
        cordons = self.cordons.get(login, {})
        if cordons.get(kind) == reason:
            return False
        others = {one: why for one, why in cordons.items() if one != kind}
        self.cordons[login] = others if reason is None else {**others, kind: reason}
        if not self.cordons[login]:
            del self.cordons[login]
        return True

    def why_cordoned(self, login: str) -> Message | None:
        """Why nothing new is started over this account, whatever the way to its agent; None if it is."""
        cordons = self.cordons.get(login)
        return None if cordons is None else Message("account_closed", account=login, why=tuple(cordons.values()))

    def _why_closed(self, login: str, boot_id: str) -> Message | None:
        cordoned = self.why_cordoned(login)
        if cordoned is not None:
            return cordoned
        agent = self.agents.get(login)
        if agent is None:
            return None
        if agent.resting is not None:
            return agent.resting
        if agent.state is NodeState.ONLINE and agent.facts is not None and agent.facts.boot_id == boot_id:
            return None
        if agent.why is None:
            return Message("account_begins", account=login)
        return Message("account_away", account=login, why=agent.why)

    def is_there(self, login: str) -> bool:
        """Can something be sent to the agent of this account?"""
        agent = self.agents.get(login)
        return login == OWN or (agent is not None and agent.state is NodeState.ONLINE and agent.facts is not None)
