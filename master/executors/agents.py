"""Attempts are run by agents: each effect becomes a message to its node.

Messages that cannot be sent now are not kept: the inventory after the next handshake corrects what an agent missed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from master.core.attempts.exits import NODE, Exit
from master.core.attempts.launching import LaunchSettings, WayBack, launch_message
from master.core.effects import Ack, Kill, NodeEffect, Pause, Rest, Resume, SeekCheckpoint, Start
from master.core.executor import CoreReports, Reports
from master.core.nodes.facts import Facts
from master.core.nodes.inventory import hosts_of
from master.core.people.run_as import RunAs, WouldBeRootError, account_on, as_the_agent
from master.core.tasks.attempt import Part, part_on
from master.core.tasks.task import ACTIVE, TaskState
from master.engine.engine import Engine
from master.executors.checkpoints import Ask, Checkpoints
from wire import agent as wire
from wire.errors import ConfigError, ForbiddenError
from wire.message import Message

GiveBack = Callable[[str, str], WayBack]
"""Returns the access of an attempt that submits others, given the node's name and the launch id. Raises ConfigError."""
Send = Callable[[str, wire.Launch | wire.Kill | wire.Pause | wire.Ack, str], None]
"""Takes a message to a node, to the agent of this account there, if there is a link to it now."""


class Agents:
    """The executor of a running master. `settings` gives what holds now; `run_as`: which account a task's owner has;
    `give_back`: what those get that submit others; `ask`: puts a short question to a node."""

    def __init__(
        self,
        engine: Engine,
        settings: Callable[[], LaunchSettings],
        send: Send,
        give_back: GiveBack,
        run_as: RunAs = as_the_agent,
        *,
        ask: Ask,
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._send = send
        self._give_back = give_back
        self._run_as = run_as
        self._checkpoints = Checkpoints(engine, ask, run_as)
        self._rests: set[asyncio.TimerHandle] = set()

    def perform(self, effects: list[NodeEffect]) -> None:
        """See `Executor`."""
        acks: dict[tuple[str, str], list[str]] = {}
        for effect in effects:
            if isinstance(effect, Start):
                self._launch(effect)
            elif isinstance(effect, Kill):
                message = wire.Kill(op="kill", launch_id=effect.launch_id, grace_s=self._settings().grace_s)
                self._send(effect.node, message, effect.login)
            elif isinstance(effect, Pause | Resume):
                op = "pause" if isinstance(effect, Pause) else "resume"
                self._send(effect.node, wire.Pause(op=op, launch_id=effect.launch_id), effect.login)
            elif isinstance(effect, Ack):
                acks.setdefault((effect.node, effect.login), []).append(effect.launch_id)
            elif isinstance(effect, SeekCheckpoint):
                self._checkpoints.seek(effect)
            elif isinstance(effect, Rest):
                self._rest(effect)
        # One for each agent, and behind the rest: a launch does not wait for files to be removed.
        for (node, login), launch_ids in acks.items():
            self._send(node, wire.Ack(op="ack", launch_ids=launch_ids), login)

    def close(self) -> None:
        """See `Executor`."""
        self._checkpoints.close()
        for timer in self._rests:
            timer.cancel()
        self._rests.clear()

    def _launch(self, effect: Start) -> None:
        part = _due(effect)
        if part is None:
            return
        node = self._engine.core.inventory.nodes.get(effect.node)
        names = node.watch.names() if node is not None else {}
        facts = node.facts if node is not None else None
        try:
            account = None if part.login else self._account(effect, facts)
            back = self._give_back(effect.node, part.launch_id) if effect.task.token else None
        except WouldBeRootError as error:
            self._refuse(effect.node, part, error, NODE)
        except (ConfigError, ForbiddenError) as error:  # no node is at fault
            self._refuse(effect.node, part, error, "")
        else:
            hosts = hosts_of(self._engine.core.inventory, effect.task)
            settings = self._settings()
            place, known = effect.task.array, self._engine.core.arrays.known
            array = None if place is None else known.get(place.id)
            its = node.facts_of(part.login) if node is not None else None
            message = launch_message(
                effect.task,
                part,
                settings,
                names,
                run_as=account,
                back=back,
                hosts=hosts,
                array=array,
                protocol=its.protocol if its is not None else 1,
            )
            self._send(effect.node, message, part.login)

    def _account(self, effect: Start, facts: Facts | None) -> str | None:
        """Return the account as which the node's own agent is to run the task. Raises WouldBeRootError; and
        ForbiddenError for a task that would run as root because its owner runs the master, if not all of it was said
        with an admin's rights."""
        task = effect.task
        account = self._run_as(task.owner)
        is_kept_apart = account is not None or not self._engine.core.people.is_shared
        if not is_kept_apart and not task.by_admin and facts is not None and facts.is_root:
            raise ForbiddenError(Message("needs_word_of_admin_as_root", node=effect.node, owner=task.owner))
        return account_on(effect.node, facts, account)

    def _refuse(self, node: str, part: Part, error: Exception, fault: str) -> None:
        """As if the node had said so: nothing is sent there."""
        why = Exit(part.launch_id, "not_started", time.time(), error=str(error), fault=fault)
        # Not before this change is done with.
        asyncio.get_running_loop().call_soon(lambda: self._reports(node, part.login).exited(why, time.time()))

    def _reports(self, node: str, login: str) -> Reports:
        return CoreReports(self._engine.core, node, login, tell=self._engine.event)

    def _rest(self, effect: Rest) -> None:
        def over() -> None:
            self._rests.discard(timer)
            self._reports(effect.node, effect.login).rested()

        timer = asyncio.get_running_loop().call_later(effect.seconds, over)
        self._rests.add(timer)


def _due(effect: Start) -> Part | None:
    """The part that is to be started; None if that is over: while the disk refused writes, its task may have come to
    its end. Of several parts some may run already."""
    task = effect.task
    part = part_on(task.allocation, effect.node)
    if part is None or part.ended_at is not None or task.state not in ACTIVE:
        return None
    return part if task.state is TaskState.STARTING or (len(task.allocation) > 1 and not part.pid) else None
