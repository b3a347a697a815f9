"""The only owner of state: what clients and agents say comes in, whole changes and effects go out.

Pure: no I/O, no clock; `now` (seconds since the epoch) is an argument. Every event first checks, then changes, so an
error leaves nothing half done. What was changed is collected until the engine takes it (`take_outcome`): one Change
for the journal and the effects that may happen only once that Change is durable.

This file is the front: the parts, who is told of whose moves, and under which name others call what a part can do. What
a name does is told where it is defined; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from master.core.answers import Answers
from master.core.book import Book
from master.core.client_events import ClientEvents
from master.core.dependencies import Dependencies
from master.core.dispatch import Dispatch, NewLaunchId
from master.core.gpus import Gpus
from master.core.health import Health
from master.core.inventory import NodeSpec
from master.core.machines import Machines
from master.core.nodes import Nodes
from master.core.notes import Notes
from master.core.outcome import Pending
from master.core.owners import Owners
from master.core.people import People
from master.core.reconcile import Reconciliation
from master.core.remnants import Remnants
from master.core.task import Task
from master.core.telling import Telling
from master.core.waiting import Waiting

NO_PIECES: Mapping[str, msgspec.Raw] = MappingProxyType({})


class InconsistentError(Exception):
    """A defect of ours: what one part keeps is not what the tasks' states say. The message tells all of it."""


class Core:
    """The state and everything that can happen to it. `new_launch_id(task_id, attempt)` makes an id that was never used
    before; `waiting_limit`: how many tasks may wait. `unsaved`: tasks whose newest change could not be written yet,
    filled by whoever writes."""

    def __init__(self, specs: tuple[NodeSpec, ...], new_launch_id: NewLaunchId, *, waiting_limit: int) -> None:
        # The parts, each with those that it stands on.
        self._pending = pending = Pending()
        self._book = book = Book(pending)
        self._answers = answers = Answers(pending)
        self._dependencies = dependencies = Dependencies(book)
        self._waiting = waiting = Waiting(book, pending)
        self._nodes = nodes = Nodes(specs, book, pending)
        self._notes = notes = Notes(nodes, pending)
        gpus = Gpus(book, nodes, notes, pending)
        machines = Machines(book, nodes)
        health = Health(book, nodes, notes, pending)
        remnants = Remnants(nodes, pending)
        self._dispatch = dispatch = Dispatch(
            book, nodes, waiting=waiting, health=health, remnants=remnants, pending=pending, new_launch_id=new_launch_id
        )
        reconciliation = Reconciliation(book, nodes, dispatch, remnants, pending)
        clients = ClientEvents(book, dependencies, waiting, nodes, dispatch, waiting_limit=waiting_limit)
        telling = Telling(book, nodes, dispatch)
        self.people = People(pending)
        owners = Owners(book, self.people)

        # Who is told what happens to tasks, in this order: the last one moves others in turn.
        for listener in (nodes, dispatch, waiting, dependencies):
            book.listen(listener)

        # What may be looked at.
        self.unsaved: set[int] = set()
        self.tasks, self.counts, self.find, self.oldest_ended = book.tasks, book.counts, book.find, book.oldest_ended
        self.backlog, self.standing = waiting.backlog, waiting.standing
        self.queue, self.queued = waiting.queue, waiting.queued
        self.inventory, self.node, self.active = nodes.inventory, nodes.find, nodes.active
        self.answered, self.notes, self.large_logs = answers.given, notes.of, dispatch.large_logs
        self.warnings, self.reason, self.why_it_waits = telling.warnings, telling.reason, telling.why_it_waits
        self.warn, self.warned = telling.warn, telling.warned
        self.warning, self.what_looks_wrong = telling.warning, telling.what_looks_wrong

        # What the engine does.
        self.has_outcome, self.take_outcome, self.number = pending.has_outcome, pending.take, pending.number
        self.remember_answer = answers.remember
        self.plan, self.carry_out, self.woken = dispatch.plan, dispatch.carry_out, dispatch.woken
        self.recall, self.drop_archived = clients.recall, clients.drop_archived

        # What clients ask for tasks.
        self.submit, self.submit_many, self.edit = clients.submit, clients.submit_many, clients.edit
        self.hold, self.release, self.force, self.move = clients.hold, clients.release, clients.force, clients.move
        self.cancel, self.retry, self.remove = clients.cancel, clients.retry, clients.remove

        # What becomes of tasks with their owners.
        self.owners, self.disable_user, self.enable_user = owners.names, owners.disable, owners.enable
        self.claim, self.give_to, self.remove_user = owners.claim, owners.give, owners.remove

        # What people decide about nodes.
        self.drain, self.resume, self.give_up = notes.drain, health.resume, dispatch.give_up
        self.set_stopped, self.set_tokens, self.forget_note = notes.set_stopped, notes.set_tokens, notes.forget
        self.set_aside, self.return_gpu = gpus.set_aside, gpus.give_back

        # What agents tell, and what is found out of them and of the links to them.
        self.started, self.exited, self.log_grows = dispatch.started, dispatch.exited, dispatch.log_grows
        self.reconcile = reconciliation.reconcile
        self.node_state, self.forget_facts, self.node_load = nodes.link_changed, nodes.forget_facts, nodes.load_told
        self.cordon, self.rested, self.reserve = nodes.cordon, health.rested, nodes.reserve
        self.same_machine, self.stranger = machines.same, machines.stranger
        self.adoptable, self.adopted = machines.adoptable, machines.adopted
        self.gpus_seen, self.gpus_expected, self.gpus_unseen = gpus.seen, gpus.expected, gpus.unseen

    @property
    def next_id(self) -> int:
        """The id that the next task gets."""
        return self._book.next_id

    @property
    def touched(self) -> int:
        """How often a task that was there changed or went."""
        return self._pending.touched

    @property
    def plan_needed(self) -> bool:
        """Has something changed since the last plan that may matter to it?"""
        return self._pending.plan_needed

    def load(
        self,
        tasks: Mapping[int, Task],
        answered: Mapping[str, msgspec.Raw],
        next_id: int,
        pieces: Mapping[str, msgspec.Raw] = NO_PIECES,
    ) -> None:
        """Take over what the store found: tasks, answers, and the pieces of state that are not tasks. Called once,
        before any event."""
        self._notes.load(pieces)
        self.people.load(pieces)
        self._answers.given.update(answered)
        self._book.load(tasks, next_id)
        self._dependencies.load()

    def set_nodes(self, specs: tuple[NodeSpec, ...]) -> None:
        """The registry says this now. Nodes come, change, or leave: at once when idle, else after their last task."""
        self._nodes.set(specs)
        self._notes.show()

    def forget_damage(self) -> None:
        """Somebody has seen what the store had to tell of what was lost."""
        self._pending.piece("damage", msgspec.Raw(b"[]"))

    # -- checking ---------------------------------------------------------------------------------------------

    def sanity_check(self) -> None:
        """Raises InconsistentError where the parts differ from what the tasks' states say. Looks at every task: for
        tests, and for what was loaded."""
        parts = (self._book, self._nodes, self._dispatch, self._waiting, self._dependencies)
        found = [told for part in parts for told in part.discrepancies()]
        if found:
            raise InconsistentError("; ".join(found))
