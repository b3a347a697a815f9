"""The launch that an effect `Start` asks for, or why there must be none: rules for everything that runs attempts.

Pure. An executor asks `Launches.of` and carries out what it returns. How an attempt is begun, and how its end comes
back, is the executor's own matter.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from master.core.attempts.exits import NODE, Exit
from master.core.attempts.launching import LaunchSettings, WayBack, launch_message
from master.core.core import Core
from master.core.effects import Start
from master.core.nodes.facts import Facts
from master.core.nodes.inventory import hosts_of
from master.core.people.run_as import RunAs, WouldBeRootError, account_on
from master.core.tasks.attempt import Part, part_on
from master.core.tasks.task import ACTIVE, TaskState
from wire.agent import Launch
from wire.errors import ConfigError, ForbiddenError
from wire.message import Message

GiveBack = Callable[[str, str], WayBack]
"""Returns the access of an attempt that submits others, given the node's name and the launch id. Raises ConfigError."""


class Ready(msgspec.Struct, frozen=True):
    """This is to be begun: the command, its environment and its limits; `run_as` of the launch is the account that it
    must have, and without it what runs it has the right one. `part`: of the task's attempt."""

    part: Part
    launch: Launch


class Refused(msgspec.Struct, frozen=True):
    """This must not be begun, which is to be reported as its end."""

    part: Part
    why: str
    fault: str

    def exit(self, now: float) -> Exit:
        """Return what is reported: as if the node had said so, where it is at `fault`."""
        return Exit(self.part.launch_id, "not_started", now, error=self.why, fault=self.fault)


class Launches:
    """`settings` gives what holds now; `run_as`: which account a task's owner has; `give_back`: what those get that
    submit others."""

    def __init__(
        self,
        core: Core,
        settings: Callable[[], LaunchSettings],
        give_back: GiveBack,
        run_as: RunAs,
    ) -> None:
        self._core = core
        self._settings = settings
        self._give_back = give_back
        self._run_as = run_as

    def of(self, effect: Start) -> Ready | Refused | None:
        """Return what is to be begun, or why nothing may; None where nothing is to be begun any more."""
        part = _due(effect)
        if part is None:
            return None
        try:
            account = None if part.login else self._account(effect)
            back = self._give_back(effect.node, part.launch_id) if effect.task.token else None
        except WouldBeRootError as error:
            return Refused(part, str(error), NODE)
        except (ConfigError, ForbiddenError) as error:  # no node is at fault
            return Refused(part, str(error), "")
        return Ready(part, self._launch(effect, part, account, back))

    def _launch(self, effect: Start, part: Part, account: str | None, back: WayBack | None) -> Launch:
        core, task = self._core, effect.task
        node = core.inventory.nodes.get(effect.node)
        its = None if node is None else node.facts_of(part.login)
        return launch_message(
            task,
            part,
            self._settings(),
            {} if node is None else node.watch.names(),
            run_as=account,
            back=back,
            hosts=hosts_of(core.inventory, task),
            array=None if task.array is None else core.arrays.known.get(task.array.id),
            protocol=1 if its is None else its.protocol,
        )

    def _account(self, effect: Start) -> str | None:
        """Return the account that the task must have on its node, None if it has the right one there by itself. Raises
        WouldBeRootError; and ForbiddenError for a task that would run as root because its owner runs the master, if not
        all of it was said with an admin's rights."""
        core, task = self._core, effect.task
        facts = _facts(core, effect.node)
        account = self._run_as(task.owner)
        is_kept_apart = account is not None or not core.people.is_shared
        if not is_kept_apart and not task.by_admin and facts is not None and facts.is_root:
            raise ForbiddenError(Message("needs_word_of_admin_as_root", node=effect.node, owner=task.owner))
        return account_on(effect.node, facts, account)


def _facts(core: Core, name: str) -> Facts | None:
    node = core.inventory.nodes.get(name)
    return None if node is None else node.facts


def _due(effect: Start) -> Part | None:
    """The part that is to be started; None if that is over: while the disk refused writes, its task may have come to
    its end. Of several parts some may run already."""
    task = effect.task
    part = part_on(task.allocation, effect.node)
    if part is None or part.ended_at is not None or task.state not in ACTIVE:
        return None
    return part if task.state is TaskState.STARTING or (len(task.allocation) > 1 and not part.pid) else None
