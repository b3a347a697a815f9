"""The only owner of state: what clients and agents say comes in, whole changes and effects go out.

Pure: no I/O, no clock; `now` (seconds since the epoch) is an argument. Every event first checks, then changes, so an
error leaves nothing half done. Changes are collected until the engine takes them (`take_outcome`): one Change for the
journal and the effects that may happen only once that Change is durable.

This file is the front: the parts, which of them are notified of which moves, and the name under which others call each
operation. Each operation is described where it is defined; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

import msgspec

from master.core.adoption import Adoption
from master.core.allocation_size import AllocationSize
from master.core.allocations import Allocations
from master.core.answers import Answers
from master.core.arrays import Arrays
from master.core.barred import BarredOwners
from master.core.book import Book
from master.core.client_events import ClientEvents
from master.core.dependencies import Dependencies
from master.core.dispatch import Dispatch, NewLaunchId
from master.core.endings import Endings
from master.core.giving_up import GivingUp
from master.core.gpus import Gpus
from master.core.health import Health
from master.core.identities import Identities
from master.core.idle import IdleTasks
from master.core.inventory import Facts, NodeSpec, NodeState
from master.core.learned import Learned
from master.core.machines import Machines
from master.core.marks import END_ACCESS
from master.core.nodes import NONE_OWNED, Nodes
from master.core.notes import Notes
from master.core.outcome import Pending
from master.core.outgrown import OutgrownShares
from master.core.own_account import OwnAccountNodes
from master.core.owned import OwnTasks
from master.core.owners import Owners
from master.core.pausing import Pausing
from master.core.people import People
from master.core.projects import Projects
from master.core.quotas import Quotas
from master.core.reconcile import Reconciliation
from master.core.refusals import Refusals
from master.core.remnants import Remnants
from master.core.reservations import Hold, Reservation
from master.core.rights_end import RightsEnd
from master.core.strays import StrayTasks
from master.core.task import Task
from master.core.task_access import TaskAccess
from master.core.telling import Telling
from master.core.tuning import Tuning
from master.core.unknown_attempts import UnknownAttempts
from master.core.unproven import UnprovenAttempts
from master.core.waiting import Waiting
from master.settings import Settings
from wire.message import Message

NOTHING_SAID = Settings()
NO_PIECES: Mapping[str, msgspec.Raw] = MappingProxyType({})


class InconsistentError(Exception):
    """A defect of ours: what one part keeps is not what the tasks' states say. The message tells all of it."""


class Core:
    """The state and everything that can happen to it. `new_launch_id(task_id, attempt)` makes an id that was never used
    before; `conf`: what conf.json says of what can be set at run time; `licences`: how many of which there are.
    `unsaved`: tasks whose newest change could not be written yet, filled by whoever writes."""

    def __init__(
        self,
        specs: tuple[NodeSpec, ...],
        new_launch_id: NewLaunchId,
        conf: Settings = NOTHING_SAID,
        *,
        licences: Mapping[str, int] = NONE_OWNED,
    ) -> None:
        # The parts, each with those that it stands on.
        self._pending = pending = Pending()
        self.tuning = tuning = Tuning(conf, pending)
        self._book = book = Book(pending)
        self._answers = answers = Answers(pending)
        self._waiting = waiting = Waiting(book, pending, tuning)
        self.people = people = People(pending)
        self.own_account, self._own_tasks = OwnAccountNodes(people, pending), (own_tasks := OwnTasks(book.tasks))
        self._projects, idle = (projects := Projects(pending)), IdleTasks(book, tuning, pending)
        self.arrays = arrays = Arrays(book, waiting, pending)
        self.dependencies = dependencies = Dependencies(book, arrays)
        self.quotas = quotas = Quotas(
            book, waiting, people, projects, arrays, idle=idle, tuning=tuning, pending=pending
        )
        self._nodes = nodes = Nodes(specs, book, pending, licences)
        self._notes = notes = Notes(nodes, pending, people.clock)
        self._refusals = refusals = Refusals(book)
        health, barred = Health(refusals, nodes, notes, pending), BarredOwners(book, people, own_tasks)
        self._identities, self._unknown = Identities(pending), (unknown := UnknownAttempts(book, nodes, pending))
        remnants = Remnants(book, nodes, unknown, pending)
        self.learned = learned = Learned(book)
        self.allocations = allocations = Allocations(book, nodes.inventory, pending)
        endings = Endings(book, waiting, people, arrays, tuning, inventory=nodes.inventory, refusals=refusals)
        self._dispatch = dispatch = Dispatch(
            book,
            nodes,
            waiting=waiting,
            endings=endings,
            learned=learned,
            allocations=allocations,
            health=health,
            refusals=refusals,
            remnants=remnants,
            unknown=unknown,
            pending=pending,
            quotas=quotas,
            tuning=tuning,
            barred=barred,
            new_launch_id=new_launch_id,
        )
        gpus = Gpus(
            *(book, nodes, notes, pending, waiting.backlog),
            outgrown=OutgrownShares(book, tuning, dispatch.kill),
            strays=StrayTasks(book, tuning, dispatch.kill),
        )
        pausing, unproven = Pausing(book, nodes, dispatch, pending), UnprovenAttempts(book, nodes, dispatch)
        reconciliation = Reconciliation(
            *(book, nodes, dispatch),
            pausing=pausing,
            endings=endings,
            remnants=remnants,
            unproven=unproven,
            pending=pending,
        )
        clients = ClientEvents(
            book,
            dependencies,
            waiting,
            nodes,
            dispatch,
            arrays=arrays,
            allocations=allocations,
            learned=learned,
            quotas=quotas,
            tuning=tuning,
        )
        telling = Telling(
            *(book, nodes, dispatch, waiting),
            learned=learned,
            quotas=quotas,
            idle=idle,
            outgrown=gpus.outgrown,
            strays=gpus.strays,
            unproven=unproven,
        )
        owners, access = Owners(book, people, own_tasks, barred), TaskAccess(dispatch, people)

        # The listeners of the task store, in the order in which they are notified: the last two move other tasks as
        # well, each in ways that do not concern the other.
        for listener in (
            nodes, dispatch, pausing, quotas, access, waiting, learned, allocations, dispatch.elastic, refusals,
            gpus.outgrown, gpus.strays, idle, unproven, own_tasks, barred, dependencies, arrays
        ):  # fmt: skip
            book.listen(listener)

        # State that others may read.
        self.unsaved: set[int] = set()
        self.tasks, self.counts, self.find, self.oldest_ended = book.tasks, book.counts, book.find, book.oldest_ended
        self.backlog, self.standing, self.later = waiting.backlog, waiting.standing, waiting.later
        self.queue, self.queued, self.projects = waiting.queue, waiting.queued, projects.known
        self.inventory, self.node, self.active = nodes.inventory, nodes.find, nodes.active
        self.answered, self.notes, self.why_not_ended = answers.given, notes.of, unproven.why_not_ended
        self._hand_on_telling(telling, idle)

        # Operations of the engine.
        self.has_outcome, self.take_outcome, self.number = pending.has_outcome, pending.take, pending.number
        self.plan, self.carry_out, self.woken = dispatch.plan, dispatch.carry_out, dispatch.woken
        self.recall, self.drop_archived, self.remember_answer = clients.recall, clients.drop_archived, answers.remember

        # Requests of clients about tasks.
        self.submit, self.submit_many, self.edit = clients.submit, clients.submit_many, clients.edit
        self.submit_array, self.edit_array = clients.submit_array, arrays.edit
        self.hold, self.release, self.force, self.move = clients.hold, clients.release, clients.force, clients.move
        self.pause, self.resume_task, self.cancel = pausing.pause, pausing.resume, clients.cancel
        self.retry, self.remove, self.release_allocation = clients.retry, clients.remove, allocations.release
        self._hand_on(
            AllocationSize(book, allocations, pending, dispatch.look_around), RightsEnd(people, owners, notes, pending)
        )

        # Changes of owners and projects, and their effect on tasks.
        self.owners, self.disable_user, self.enable_user = owners.names, owners.disable, owners.enable
        self.claim, self.give_to, self.remove_user, self.edit_user = (
            owners.claim,
            owners.give,
            owners.remove,
            owners.edit,
        )
        self.tasks_of, self.edit_project, self.token_holder = own_tasks.of, quotas.edit_project, access.holder

        # Reports of agents, and people's decisions about nodes.
        self._hand_on_unknown(Adoption(book, nodes, dispatch, unknown, dependencies=dependencies, people=people))
        self.stands, self.reconcile, self.unproven = pausing.told, reconciliation.reconcile, unproven.told
        self._hand_on_nodes(
            nodes,
            notes,
            health=health,
            gpus=gpus,
            machines=Machines(book, nodes, self._identities),
            giving_up=GivingUp(book, nodes, dispatch, allocations, remnants),
        )

    def _hand_on_telling(self, telling: Telling, idle: IdleTasks) -> None:
        self.warnings, self.warn = idle.told, idle.warn
        self.still_idle = partial(idle.still, end_attempt=self._dispatch.kill)
        self.why_it_waits, self.wait, self.ends_of = telling.why_it_waits, telling.wait, telling.ends_of
        self.reason = telling.reason
        self.warned, self.some_may_be_warned = telling.warned, telling.some_may_be_warned
        self.warning, self.what_looks_wrong = telling.warning, telling.what_looks_wrong
        self.holders_of, self.would_start = telling.holders_of, telling.would_start

    def _hand_on(self, sizes: AllocationSize, ends: RightsEnd) -> None:
        self.grow_allocation, self.shrink_allocation = sizes.grow, sizes.shrink
        self.clock, self.end_rights, self.accept_clock = self.people.clock, ends.look, ends.accept

    def _hand_on_unknown(self, adoption: Adoption) -> None:
        self.unknown_on, self.end_unknown, self.adopt = self._unknown.on, self._unknown.end, adoption.adopt

    def _hand_on_nodes(
        self, nodes: Nodes, notes: Notes, *, health: Health, gpus: Gpus, machines: Machines, giving_up: GivingUp
    ) -> None:
        dispatch = self._dispatch
        self.snapshot, self.preview = dispatch.snapshot, dispatch.preview

        # Decisions of people about nodes.
        self.drain, self.resume = notes.drain, health.resume
        self.give_up, self.give_up_account, self.silent_accounts = giving_up.node, giving_up.account, giving_up.silent
        self.set_stopped, self.set_tokens, self.forget_note = notes.set_stopped, notes.set_tokens, notes.forget
        self.set_as_owners, self.set_aside, self.return_gpu = notes.set_as_owners, gpus.set_aside, gpus.give_back

        # Reports of agents, and findings about them and about the links to them.
        self.checkpoint_seen = dispatch.checkpoint_seen
        self.started, self.exited, self.log_grows = dispatch.started, dispatch.exited, dispatch.log_grows
        self.clock_told, self.clock_of = nodes.clock_told, nodes.clock_of
        self.cordon, self.rested, self.reserve = nodes.cordon, health.rested, nodes.reserve
        self.same_machine, self.stranger, self.tokens_told = machines.same, machines.stranger, nodes.tokens_told
        self.adoptable, self.adopted, self.late_machine = machines.adoptable, machines.adopted, machines.late
        self.unaccounted = machines.unaccounted
        self.account_state, self.forget_account = nodes.account_changed, nodes.forget_account
        self.keep_apart, self.keep_from_root = nodes.keep_apart, nodes.keep_from_root
        self.want_account, self.account_elsewhere = nodes.want_account, machines.elsewhere
        self.gpus_seen, self.gpus_expected, self.gpus_unseen = gpus.seen, gpus.expected, gpus.unseen

    @property
    def settings(self) -> Settings:
        """Return the settings that hold now."""
        return self.tuning.settings

    @property
    def next_id(self) -> int:
        """The id that the next task gets."""
        return self._book.next_id

    @property
    def reservations(self) -> tuple[Reservation, ...]:
        """For which tasks room is kept."""
        return self._dispatch.reservations

    @property
    def holds(self) -> Mapping[str, Hold]:
        """Return the resources that are kept for tasks that have a reservation, by node."""
        return self._dispatch.holds

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
        self.tuning.load(pieces)
        self._notes.load(pieces)
        self.people.load(pieces)
        self.own_account.load(pieces)
        self._projects.load(pieces)
        self.arrays.load(pieces)
        self._answers.given.update(answered)
        self._book.load(tasks, next_id)
        self._identities.load(pieces, self.inventory.nodes)
        self.arrays.count(tasks.values())
        self._refusals.load(tasks.values())
        self._dispatch.load(pieces)
        self._unknown.load(pieces)
        self.dependencies.load()
        self.learned.load(tasks.values())

    def set_nodes(self, specs: tuple[NodeSpec, ...]) -> None:
        """The registry says this now. Nodes come, change, or leave: at once when idle, else after their last task."""
        self._nodes.set(specs)
        self._identities.follow(self.inventory.nodes)
        self._notes.show()
        self._unknown.show()
        self.own_account.forget_all_but(spec.name for spec in specs)

    def forget_facts(self, name: str) -> None:
        """The next machine that answers in this node's name may be another one: nothing is planned for it before it has
        said which machine it is."""
        self._nodes.forget_facts(name)
        self._identities.leads_elsewhere(self.inventory.nodes[name])

    def node_state(
        self, name: str, state: NodeState, why: Message | str | None = None, facts: Facts | None = None
    ) -> None:
        """The link to a node changed, and why; a text is what somebody else said. Its tasks keep their GPUs whatever
        happens to the link."""
        self._nodes.link_changed(name, state, why, facts)
        if state is not NodeState.ONLINE:
            self._identities.lost_link(name)

    def node_load(self, name: str, load: list[float] | None, clock_offset: float) -> None:
        """A node's agent was heard: its load averages, and how far its clock is ahead of ours, in seconds."""
        self._nodes.load_told(name, load, clock_offset)
        self._identities.heard(name)

    def forget_damage(self) -> None:
        """Somebody has seen what the store had to tell of what was lost."""
        self._pending.piece("damage", msgspec.Raw(b"[]"))

    def end_access(self) -> None:
        """End all access but passwords: the store was put back, or a part of it was lost. So there may be attempts of
        which it tells nothing."""
        self.people.end_all()
        self._unknown.records_were_lost()
        self._pending.piece(END_ACCESS, msgspec.Raw(b"null"))

    # -- checking ---------------------------------------------------------------------------------------------

    def sanity_check(self) -> None:
        """Raises InconsistentError where the parts differ from what the tasks' states say. Looks at every task: for
        tests, and for what was loaded."""
        parts = (
            self._book, self._nodes, self._dispatch, self.arrays, self.allocations, self.quotas, self._waiting,
            self.dependencies, self._refusals, self._own_tasks,
        )  # fmt: skip
        found = [told for part in parts for told in part.discrepancies()]
        if found:
            raise InconsistentError("; ".join(found))
