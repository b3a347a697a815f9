"""The contract of an executor: a way to run the attempts of some nodes.

Down to it go effects (`Executor`), each to the executor of its node and only after the change that it belongs to is
durable. Up from it come reports (`Reports`): each names the launch id of its attempt, and the node and account whose
part of the task it is. The core and everything above it deal with all executors by these two alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from master.core.attempts.agent_messages import Started
from master.core.attempts.exits import Exit, Seen
from master.core.core import Core
from master.core.effects import NodeEffect
from master.core.nodes.accounts import OWN
from master.core.nodes.inventory import Facts, NodeState
from wire.message import Message

Change = Callable[[], None]


class Executor(Protocol):
    """Carries out effects. It promises what the core builds on: an attempt is begun at most once, ever; its end is
    reported until it is acknowledged."""

    def perform(self, effects: list[NodeEffect]) -> None:
        """Carry these out, in this order. They are for nodes of this executor."""

    def close(self) -> None:
        """Carry nothing out any more. Running attempts keep running."""


def perform(effects: list[NodeEffect], executor_of: Callable[[str], Executor]) -> None:
    """Give each effect to the executor of its node; those of one executor together, in their order."""
    executors: dict[int, tuple[Executor, list[NodeEffect]]] = {}
    for effect in effects:
        executor = executor_of(effect.node)
        executors.setdefault(id(executor), (executor, []))[1].append(effect)
    for executor, its in executors.values():
        executor.perform(its)


class Reports(Protocol):
    """The reports of an executor on one node, or on one account of it. `now` and `at`: seconds since the epoch."""

    def connecting(self, facts: Facts) -> None:
        """The node answers, and is so; its attempts are not known yet. `facts.runs_as` is the executor's promise: as
        long as it makes none, the core gives the node nothing of owners who must be kept apart."""

    def joined(self, seen: list[Seen], now: float) -> None:
        """The node has exactly these attempts. Tasks are sent to it only after `online`."""

    def online(self) -> None:
        """The node takes tasks."""

    def gone(self, state: NodeState, why: Message) -> None:
        """Nobody reaches the node now. Its attempts keep their GPUs, since they may be running."""

    def started(self, fact: Started, now: float) -> None:
        """An attempt runs, or stands still (`fact.paused`)."""

    def exited(self, fact: Exit, now: float) -> None:
        """An attempt is over, and its process tree with it; or it could not be begun."""

    def unproven(self, launch_id: str, pids: tuple[int, ...]) -> None:
        """These processes may be of an attempt whose record was lost; nobody can prove it."""

    def rested(self) -> None:
        """The time of an effect `Rest` is over."""

    def checkpoint_seen(self, launch_id: str, newest: float | None, now: float) -> None:
        """The newest checkpoint of an attempt was written then, as `SeekCheckpoint` asked; None: there is none."""


def _at_once(change: Change) -> None:
    change()


class CoreReports:
    """Reports to the core. `tell` makes a change of the core: the engine's `event`, which commits it, or at once."""

    def __init__(self, core: Core, node: str, login: str = OWN, *, tell: Callable[[Change], None] = _at_once) -> None:
        self._core = core
        self._node = node
        self._login = login
        self._tell = tell

    def connecting(self, facts: Facts) -> None:
        """See `Reports`."""
        self._link_changed(NodeState.CONNECTING, None, facts)

    def joined(self, seen: list[Seen], now: float) -> None:
        """See `Reports`."""
        self._tell(lambda: self._core.reconcile(self._node, seen, now, self._login))

    def online(self) -> None:
        """See `Reports`."""
        self._link_changed(NodeState.ONLINE)

    def gone(self, state: NodeState, why: Message) -> None:
        """See `Reports`."""
        self._link_changed(state, why)

    def _link_changed(self, state: NodeState, why: Message | None = None, facts: Facts | None = None) -> None:
        if self._login == OWN:
            self._tell(lambda: self._core.node_state(self._node, state, why, facts))
        else:
            self._tell(lambda: self._core.account_state(self._node, self._login, state, why, facts))

    def started(self, fact: Started, now: float) -> None:
        """See `Reports`."""
        self._tell(lambda: self._started(fact, now))

    def _started(self, fact: Started, now: float) -> None:
        core, node, launch_id = self._core, self._node, fact.launch_id
        core.started(
            node,
            launch_id,
            fact.at,
            now,
            pid=fact.pid,
            pid_start=fact.pid_start,
            run_as=fact.run_as,
            log_path=fact.log_path,
            login=self._login,
        )
        core.log_grows(node, launch_id, fact.log_bytes, fact.log_limit, self._login)
        core.stands(node, launch_id, stands=fact.paused, login=self._login)

    def exited(self, fact: Exit, now: float) -> None:
        """See `Reports`."""
        self._tell(lambda: self._core.exited(self._node, fact, now, self._login))

    def unproven(self, launch_id: str, pids: tuple[int, ...]) -> None:
        """See `Reports`."""
        self._tell(lambda: self._core.unproven(self._node, launch_id, pids, self._login))

    def rested(self) -> None:
        """See `Reports`."""
        self._tell(lambda: self._core.rested(self._node, self._login))

    def checkpoint_seen(self, launch_id: str, newest: float | None, now: float) -> None:
        """See `Reports`."""
        self._tell(lambda: self._core.checkpoint_seen(launch_id, newest, now))
