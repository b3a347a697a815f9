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

from master.config.settings import Settings
from master.core.answers import Answers
from master.core.attempts.adoption import Adoption
from master.core.attempts.dispatch import Dispatch, NewLaunchId
from master.core.attempts.endings import Endings
from master.core.attempts.giving_up import GivingUp
from master.core.attempts.orphaned_attempts import OrphanedAttempts
from master.core.attempts.pausing import Pausing
from master.core.attempts.reconcile import Reconciliation
from master.core.attempts.unknown_attempts import UnknownAttempts
from master.core.attempts.unproven import UnprovenAttempts
from master.core.client_events import ClientEvents
from master.core.explanations import Explanations
from master.core.nodes.gpus import Gpus
from master.core.nodes.health import Health
from master.core.nodes.identities import Identities
from master.core.nodes.idle import IdleTasks
from master.core.nodes.inventory import Facts, NodeSpec, NodeState
from master.core.nodes.machines import Machines
from master.core.nodes.nodes import NONE_OWNED, Nodes
from master.core.nodes.notes import Notes
from master.core.nodes.outgrown import OutgrownShares
from master.core.nodes.refusals import Refusals
from master.core.nodes.strays import StrayTasks
from master.core.outcome import Pending
from master.core.people.barred import BarredOwners
from master.core.people.marks import END_ACCESS
from master.core.people.own_account import OwnAccountNodes
from master.core.people.owned import OwnTasks
from master.core.people.owners import Owners
from master.core.people.people import People
from master.core.people.projects import Projects
from master.core.people.quotas import Quotas
from master.core.people.rights_end import RightsEnd
from master.core.people.task_access import TaskAccess
from master.core.planning.allocation_size import AllocationSize
from master.core.planning.allocations import Allocations
from master.core.planning.learned import Learned
from master.core.planning.reservations import Hold, Reservation
from master.core.tasks.arrays import Arrays
from master.core.tasks.dependencies import Dependencies
from master.core.tasks.task import Task
from master.core.tasks.task_table import TaskTable
from master.core.tasks.waiting import Waiting
from master.core.tuning import Tuning
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
        self._task_table = task_table = TaskTable(pending)
        self._answers = answers = Answers(pending)
        self._waiting = waiting = Waiting(task_table, pending, tuning)
        self.people = people = People(pending)
        self.own_account, self._own_tasks = OwnAccountNodes(people, pending), (own_tasks := OwnTasks(task_table.tasks))
        self._projects, idle = (projects := Projects(pending)), IdleTasks(task_table, tuning, pending)
        self.arrays = arrays = Arrays(task_table, waiting, pending)
        self.dependencies = dependencies = Dependencies(task_table, arrays)
        self.quotas = quotas = Quotas(
            task_table, waiting, people, projects, arrays, idle=idle, tuning=tuning, pending=pending
        )
        self._nodes = nodes = Nodes(specs, task_table, pending, licences)
        self._notes = notes = Notes(nodes, pending, people.clock)
        self._refusals = refusals = Refusals(task_table)
        health, barred = Health(refusals, nodes, notes, pending), BarredOwners(task_table, people, own_tasks)
        self._identities, self._unknown = Identities(pending), (unknown := UnknownAttempts(task_table, nodes, pending))
        orphaned = OrphanedAttempts(task_table, nodes, unknown, pending)
        self.learned = learned = Learned(task_table)
        self.allocations = allocations = Allocations(task_table, nodes.inventory, pending)
        endings = Endings(task_table, waiting, people, arrays, tuning, inventory=nodes.inventory, refusals=refusals)
        self._dispatch = dispatch = Dispatch(
            task_table,
            nodes,
            waiting=waiting,
            endings=endings,
            learned=learned,
            allocations=allocations,
            health=health,
            refusals=refusals,
            orphaned=orphaned,
            unknown=unknown,
            pending=pending,
            quotas=quotas,
            tuning=tuning,
            barred=barred,
            new_launch_id=new_launch_id,
        )
        gpus = Gpus(
            *(task_table, nodes, notes, pending, waiting.backlog),
            outgrown=OutgrownShares(task_table, tuning, dispatch.kill),
            strays=StrayTasks(task_table, tuning, dispatch.kill),
        )
        pausing, unproven = Pausing(task_table, nodes, dispatch, pending), UnprovenAttempts(task_table, nodes, dispatch)
        reconciliation = Reconciliation(
            *(task_table, nodes, dispatch),
            pausing=pausing,
            endings=endings,
            orphaned=orphaned,
            unproven=unproven,
            pending=pending,
        )
        clients = ClientEvents(
            task_table,
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
        explanations = Explanations(
            *(task_table, nodes, dispatch, waiting),
            learned=learned,
            quotas=quotas,
            idle=idle,
            outgrown=gpus.outgrown,
            strays=gpus.strays,
            unproven=unproven,
        )
        owners, access = Owners(task_table, people, own_tasks, barred), TaskAccess(dispatch, people)

        # The listeners of the task store, in the order in which they are notified: the last two move other tasks as
        # well, each in ways that do not concern the other.
        for listener in (
            nodes, dispatch, pausing, quotas, access, waiting, learned, allocations, dispatch.elastic, refusals,
            gpus.outgrown, gpus.strays, idle, unproven, own_tasks, barred, dependencies, arrays
        ):  # fmt: skip
            task_table.listen(listener)

        # State that others may read.
        self.unsaved: set[int] = set()
        self.tasks, self.counts, self.find, self.oldest_ended = (
            task_table.tasks,
            task_table.counts,
            task_table.find,
            task_table.oldest_ended,
        )
        self.backlog, self.queue_order, self.later = waiting.backlog, waiting.queue_order, waiting.later
        self.queue, self.queued, self.projects = waiting.queue, waiting.queued, projects.known
        self.inventory, self.node, self.active = nodes.inventory, nodes.find, nodes.active
        self.answered, self.notes, self.why_not_ended = answers.given, notes.of, unproven.why_not_ended
        self._hand_on_explanations(explanations, idle)

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
            AllocationSize(task_table, allocations, pending, dispatch.look_around),
            RightsEnd(people, owners, notes, pending),
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
        self._hand_on_unknown(Adoption(task_table, nodes, dispatch, unknown, dependencies=dependencies, people=people))
        self.stands, self.reconcile, self.unproven = pausing.told, reconciliation.reconcile, unproven.told
        self._hand_on_nodes(
            nodes,
            notes,
            health=health,
            gpus=gpus,
            machines=Machines(task_table, nodes, self._identities),
            giving_up=GivingUp(task_table, nodes, dispatch, allocations, orphaned),
        )

    def _hand_on_explanations(self, explanations: Explanations, idle: IdleTasks) -> None:
        self.warnings, self.warn = idle.told, idle.warn
        self.still_idle = partial(idle.still, end_attempt=self._dispatch.kill)
        self.why_it_waits, self.wait, self.ends_of = explanations.why_it_waits, explanations.wait, explanations.ends_of
        self.reason = explanations.reason
        self.warned, self.some_may_be_warned = explanations.warned, explanations.some_may_be_warned
        self.warning, self.what_looks_wrong = explanations.warning, explanations.what_looks_wrong
        self.holders_of, self.would_start = explanations.holders_of, explanations.would_start

    def _hand_on(self, sizes: AllocationSize, ends: RightsEnd) -> None:
        self.grow_allocation, self.shrink_allocation = sizes.grow, sizes.shrink
        self.clock, self.end_rights, self.accept_clock = self.people.clock, ends.look, ends.accept

    def _hand_on_unknown(self, adoption: Adoption) -> None:
        self.unknown_on, self.end_unknown, self.adopt = self._unknown.on, self._unknown.end, adoption.adopt
        self.dismiss_unknown = self._unknown.dismiss

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
        return self._task_table.next_id

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
        self._task_table.load(tasks, next_id)
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
            self._task_table, self._nodes, self._dispatch, self.arrays, self.allocations, self.quotas, self._waiting,
            self.dependencies, self._refusals, self._own_tasks,
        )  # fmt: skip
        found = [told for part in parts for told in part.discrepancies()]
        if found:
            raise InconsistentError("; ".join(found))
