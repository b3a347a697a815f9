"""The handshake with an agent: from our hello, its welcome and its inventory to the node being online.

Owns the decision to talk to an agent at all, the records that an agent lacks and is told, and the end of an agent of
another version. The core owns the meaning of attempts for tasks.
"""

from __future__ import annotations

import logging
import time

import msgspec

from master.core.attempts import agent_messages
from master.core.attempts.exits import Seen
from master.core.nodes.accounts import OWN
from master.core.nodes.inventory import Facts
from master.durable import failpoint
from master.nodes.agent_context import AgentContext
from master.nodes.connection import AGENT_CLOSED, Connection, Ending
from master.nodes.heartbeat import Heartbeat
from wire import agent as wire
from wire.message import Message

log = logging.getLogger("muster.link")

RETIRE_S = 5.0
"""An agent that was asked to end for a newer one and is still there after this long is kept as it is."""


class Handshake:
    """Of one connection, which begins with it. `asked_to_retire`: the version of the agent that was asked to end."""

    def __init__(
        self, context: AgentContext, connection: Connection, heartbeat: Heartbeat, over: Ending, asked_to_retire: str
    ) -> None:
        self.asked_to_retire = asked_to_retire
        self._context = context
        self._engine = context.engine
        self._connection = connection
        self._heartbeat = heartbeat
        self._over = over
        self._greeted = False
        self._facts: Facts | None = None
        self._adopting: Facts | None = None
        self._has_told = False
        """Of attempts that the agent did not know, or was in doubt of."""
        self._inventories_to_skip = 0
        self._keeps_pace = False
        self._hello_at = 0.0

    def begin(self) -> None:
        """Say who we are."""
        hello = self._context.identity.hello()
        hello["sampling"] = self._context.sampling
        self._hello_at = time.monotonic()
        self._connection.write(hello)

    def welcomed(self, line: bytes) -> None:
        """The agent says what it is. Raises UnbelievableError."""
        agent_messages.check_due("welcome", due=not self._greeted)
        self._greeted = True
        welcome = agent_messages.as_welcome(line)
        self._keeps_pace = welcome.keeps_pace
        facts = welcome.facts()
        facts = msgspec.structs.replace(facts, runs_as=self._context.hooks.runs_as(facts))
        core, node, login = self._engine.core, self._context.node, self._context.login
        stranger, lost = core.stranger(node, facts, login), core.adoptable(node, facts, login)
        objection = self._context.hooks.objection(facts)
        if objection is not None or (stranger is not None and not lost):
            self._over.end(objection or stranger or AGENT_CLOSED)
        elif login == OWN and (same := self._is_served_as(facts)) is not None:
            self._over.end(same)
        elif facts.version not in (self._context.driver.version, self.asked_to_retire):
            self._retire(facts.version)
        else:
            self._accept(facts, welcome.now, lost)

    def _is_served_as(self, facts: Facts) -> Message | None:
        """Why this is the machine of another entry, which is told."""
        same = self._engine.event(lambda: self._engine.core.same_machine(self._context.node, facts))
        if same is None:
            return None
        other, why = same
        self._context.hooks.on_same(other)
        return why

    def _retire(self, version: str) -> None:
        # Asked once only: an agent that does not know the word goes on as it is, and is understood.
        log.info("node %s: its agent is of version %s and is asked to end for ours", self._context.label, version)
        self.asked_to_retire = version
        self._over.by = time.monotonic() + RETIRE_S
        self._connection.write(wire.Retire(op="retire"))

    def _accept(self, facts: Facts, told_at: float, lost: list[Seen]) -> None:
        failpoint.reach("start.welcomed")
        own = self._context.login == OWN
        late = self._engine.core.late_machine(self._context.node) if own else None
        for warning in (late, facts.login_fault):
            if warning:
                log.warning("node %s: %s", self._context.label, warning)
        self._context.hooks.on_welcome(facts)
        self._context.reports.connecting(facts)
        if own:
            self._measure(told_at)
        self._facts = facts
        if lost:
            self._have_adopted(facts, lost)

    def _measure(self, told: float) -> None:
        """In its answer to our hello the node's clock showed this. That ours may be set meanwhile is no matter. The
        agent of a user's account is not asked: by the node's clock the times of everybody's tasks are corrected."""
        now = time.time()
        if told:
            sent = now - (time.monotonic() - self._hello_at)
            self._engine.core.clock_told(self._context.node, told, sent, now)

    def _have_adopted(self, facts: Facts, lost: list[Seen]) -> None:
        """Its state folder is another one, and what runs there may be alive: the agent is told what we know of it, and
        what it answers counts, not what it says before."""
        told = "node %s: its agent has a new state folder and is told of %d attempts"
        log.warning(told, self._context.label, len(lost))
        self._adopting, self._inventories_to_skip = facts, 1
        self._tell_of(lost)

    def _tell_of(self, lost: list[Seen]) -> None:
        """It answers with an inventory."""
        self._has_told = True
        self._connection.write(wire.Adopt(op="adopt", attempts=[_as_lost(one) for one in lost]))

    def inventoried(self, line: bytes) -> None:
        """The agent says which attempts it has. Raises UnbelievableError."""
        agent_messages.check_due("inventory", due=self._greeted and not self._connection.is_ready)
        seen = self._attempts(line)
        facts = self._adopting
        if facts is None:
            self._account_for(seen)
        elif self._inventories_to_skip:
            self._inventories_to_skip -= 1
        else:
            self._adopting = None
            self._adopted(facts, seen)

    def _attempts(self, line: bytes) -> list[Seen]:
        agent_messages.check_inventory(line)
        attempts = agent_messages.as_inventory(line).attempts
        node = self._context.entry
        agent_messages.check_attempts(len(attempts), len(node.active) if node is not None else 0)
        return [attempt.seen() for attempt in attempts]

    def _adopted(self, facts: Facts, seen: list[Seen]) -> None:
        core, node, login = self._engine.core, self._context.node, self._context.login
        self._engine.event(lambda: core.adopted(node, facts, seen, login))
        stranger = core.stranger(node, facts, login)
        if stranger is None:
            self._account_for(seen)
        else:
            self._over.end(stranger)

    def _account_for(self, seen: list[Seen]) -> None:
        """Before what it has is believed to be all there is: of what ran there and is not among it, and of what it
        knows too little of, it is told what we know."""
        facts, node = self._facts, self._context.node
        missing = [] if facts is None else self._engine.core.unaccounted(node, facts, seen, self._context.login)
        if not missing and not any(one.doubt for one in seen):
            self._reconcile(seen)
        elif not self._has_told:
            told = "node %s: records of attempts are lost there, its agent is told of %d"
            log.warning(told, self._context.label, len(missing))
            self._tell_of(missing)
        else:
            doubted = {one.launch_id for one in [*missing, *(one for one in seen if one.doubt)]}
            self._over.end(Message("attempts_unaccounted", count=len(doubted), name=node))

    def _reconcile(self, seen: list[Seen]) -> None:
        context, core = self._context, self._engine.core
        self._connection.is_ready = True
        self._heartbeat.told(keeps_pace=self._keeps_pace)
        context.reports.joined(seen, time.time())
        if context.entry is None:
            return  # it left the registry meanwhile, or now, with the last of its tasks; the fleet gives the link up
        if context.login == OWN and context.sampling["gpus"] != "declared":
            self._engine.event(lambda: core.gpus_expected(context.node))
        context.hooks.on_inventory()
        context.reports.online()
        context.tried.set()
        failpoint.reach("start.reconciled")


def _as_lost(seen: Seen) -> wire.Lost:
    told = wire.Lost(launch_id=seen.launch_id, pid=seen.pid, pid_start=seen.pid_start, started_at=seen.started_at)
    if seen.run_as:
        told["run_as"], told["log_path"] = seen.run_as, seen.log_path
    return told
