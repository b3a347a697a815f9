"""The only owner of state: what clients and agents say comes in, whole changes and effects go out.

Pure: no I/O, no clock; `now` (seconds since the epoch) is an argument. Every event first checks, then changes, so an
error leaves nothing half done. Changes are collected until the engine takes them (`take_outcome`): one Change for the
journal and the effects that may happen only once that Change is durable.

This file is the front: the name under which others call each operation of the parts (`parts`). Each operation is
described where it is defined; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from master.config.settings import Settings
from master.core.attempts.adoption import Adoption
from master.core.attempts.dispatch import Dispatch, NewLaunchId
from master.core.attempts.giving_up import GivingUp
from master.core.attempts.pausing import Pausing
from master.core.attempts.reconcile import Reconciliation
from master.core.attempts.unknown_attempts import UnknownAttempts
from master.core.attempts.unproven import UnprovenAttempts
from master.core.client_events import ClientEvents
from master.core.explanations import Explanations
from master.core.idempotency import KeptResults
from master.core.nodes.facts import RunsAs
from master.core.nodes.gpus import Gpus
from master.core.nodes.health import Health
from master.core.nodes.idle import IdleTasks
from master.core.nodes.inventory import Facts, NodeSpec, NodeState
from master.core.nodes.machines import Machines
from master.core.nodes.nodes import NONE_OWNED, Nodes
from master.core.nodes.notes import Notes
from master.core.operation import operation
from master.core.outcome import Pending
from master.core.parts import Parts
from master.core.people.marks import END_ACCESS
from master.core.people.owned import OwnTasks
from master.core.people.owners import Owners
from master.core.people.quotas import Quotas
from master.core.people.rights_end import RightsEnd
from master.core.people.shares import Shares
from master.core.people.task_access import TaskAccess
from master.core.planning.allocation_size import AllocationSize
from master.core.planning.allocations import Allocations
from master.core.planning.forecast import Hold
from master.core.planning.reservations import Reservation
from master.core.tasks.arrays import Arrays
from master.core.tasks.task import Task
from master.core.tasks.task_table import TaskTable
from master.core.tasks.waiting import Waiting
from wire.message import Message

NOTHING_SAID = Settings()
NO_PIECES: Mapping[str, msgspec.Raw] = MappingProxyType({})


class InconsistentError(Exception):
    """A defect of ours: what one part keeps is not what the tasks' states say. The message tells all of it."""


class Core:
    """The state and everything that can happen to it. `new_launch_id(task_id, attempt)` makes an id that was never used
    before; `conf`: what conf.json says of what can be set at run time; `licences`: how many of which there are.
    `unsaved`: tasks whose newest change could not be written yet, filled by whoever writes."""

    # Tasks and nodes, as they are.
    find = operation(TaskTable.find)
    oldest_ended = operation(TaskTable.oldest_ended)
    queue = operation(Waiting.queue)
    queued = operation(Waiting.queued)
    node = operation(Nodes.find)
    active = operation(Nodes.active)
    why_not_ended = operation(UnprovenAttempts.why_not_ended)

    # Operations of the engine.
    has_outcome = operation(Pending.has_outcome)
    take_outcome = operation(Pending.take)
    number = operation(Pending.number)
    plan = operation(Dispatch.plan)
    carry_out = operation(Dispatch.carry_out)
    woken = operation(Dispatch.woken)
    large_ended = operation(Shares.large_ended)
    recall = operation(ClientEvents.recall)
    drop_archived = operation(ClientEvents.drop_archived)
    remember_answer = operation(KeptResults.remember)

    # Requests of clients about tasks.
    check_room = operation(Shares.check)
    check_count = operation(Shares.check_count)
    share_of = operation(Shares.of)
    whole_share = operation(Shares.whole)
    near_shares = operation(Shares.near)
    submit = operation(ClientEvents.submit)
    submit_many = operation(ClientEvents.submit_many)
    edit = operation(ClientEvents.edit)
    submit_array = operation(ClientEvents.submit_array)
    edit_array = operation(Arrays.edit)
    hold = operation(ClientEvents.hold)
    release = operation(ClientEvents.release)
    force = operation(ClientEvents.force)
    move = operation(ClientEvents.move)
    pause = operation(Pausing.pause)
    resume_task = operation(Pausing.resume)
    cancel = operation(ClientEvents.cancel)
    retry = operation(ClientEvents.retry)
    remove = operation(ClientEvents.remove)
    release_allocation = operation(Allocations.release)

    # Changes of owners and projects, and their effect on tasks.
    owners = operation(Owners.names)
    disable_user = operation(Owners.disable)
    enable_user = operation(Owners.enable)
    claim = operation(Owners.claim)
    give_to = operation(Owners.give)
    remove_user = operation(Owners.remove)
    edit_user = operation(Owners.edit)
    tasks_of = operation(OwnTasks.of)
    edit_project = operation(Quotas.edit_project)
    token_holder = operation(TaskAccess.holder)

    # Reports of agents, and people's decisions about nodes.
    stands = operation(Pausing.told)
    reconcile = operation(Reconciliation.reconcile)
    unproven = operation(UnprovenAttempts.told)

    # Explanations.
    warn = operation(IdleTasks.warn)
    why_it_waits = operation(Explanations.why_it_waits)
    wait = operation(Explanations.wait)
    ends_of = operation(Explanations.ends_of)
    reason = operation(Explanations.reason)
    warned = operation(Explanations.warned)
    some_may_be_warned = operation(Explanations.some_may_be_warned)
    warning = operation(Explanations.warning)
    what_looks_wrong = operation(Explanations.what_looks_wrong)
    holders_of = operation(Explanations.holders_of)
    would_start = operation(Explanations.would_start)

    # Allocations and rights.
    grow_allocation = operation(AllocationSize.grow)
    shrink_allocation = operation(AllocationSize.shrink)
    end_rights = operation(RightsEnd.look)
    accept_clock = operation(RightsEnd.accept)

    # Attempts whose records the lab lost.
    unknown_on = operation(UnknownAttempts.on)
    end_unknown = operation(UnknownAttempts.end)
    dismiss_unknown = operation(UnknownAttempts.dismiss)
    adopt = operation(Adoption.adopt)

    # The plan.
    plan_input = operation(Dispatch.plan_input)
    preview = operation(Dispatch.preview)

    # Decisions of people about nodes.
    drain = operation(Notes.drain)
    resume = operation(Health.resume)
    give_up = operation(GivingUp.node)
    give_up_account = operation(GivingUp.account)
    silent_accounts = operation(GivingUp.silent)
    set_stopped = operation(Notes.set_stopped)
    set_tokens = operation(Notes.set_tokens)
    forget_note = operation(Notes.forget)
    set_as_owners = operation(Notes.set_as_owners)
    set_aside = operation(Gpus.set_aside)
    return_gpu = operation(Gpus.give_back)

    # Reports of agents, and findings about them and about the links to them.
    checkpoint_seen = operation(Dispatch.checkpoint_seen)
    started = operation(Dispatch.started)
    exited = operation(Dispatch.exited)
    was_started = operation(Dispatch.was_started)
    is_unknown_attempt = operation(UnknownAttempts.is_listed)
    log_grows = operation(Dispatch.log_grows)
    clock_told = operation(Nodes.clock_told)
    clock_of = operation(Nodes.clock_of)
    cordon = operation(Nodes.cordon)
    rested = operation(Health.rested)
    restrict = operation(Nodes.restrict)
    same_machine = operation(Machines.same)
    stranger = operation(Machines.stranger)
    tokens_told = operation(Nodes.tokens_told)
    adoptable = operation(Machines.adoptable)
    adopted = operation(Machines.adopted)
    late_machine = operation(Machines.late)
    unaccounted = operation(Machines.unaccounted)
    account_state = operation(Nodes.account_changed)
    forget_account = operation(Nodes.forget_account)
    keep_apart = operation(Nodes.keep_apart)
    keep_from_root = operation(Nodes.keep_from_root)
    want_account = operation(Nodes.want_account)
    account_elsewhere = operation(Machines.elsewhere)
    gpus_seen = operation(Gpus.seen)
    gpus_expected = operation(Gpus.expected)
    gpus_unseen = operation(Gpus.unseen)

    def __init__(
        self,
        specs: tuple[NodeSpec, ...],
        new_launch_id: NewLaunchId,
        conf: Settings = NOTHING_SAID,
        *,
        licences: Mapping[str, int] = NONE_OWNED,
        log_folder: str = "",
    ) -> None:
        self._parts = parts = Parts(specs, new_launch_id, conf, licences=licences, log_folder=log_folder)
        self._by_class = {type(part).__name__: part for part in vars(parts).values()}

        self.unsaved: set[int] = set()
        self.tasks, self.counts = parts.task_table.tasks, parts.task_table.counts
        waiting, nodes = parts.waiting, parts.nodes
        self.backlog, self.queue_order, self.later = waiting.backlog, waiting.queue_order, waiting.later
        self.inventory, self.notes, self.warnings = nodes.inventory, parts.notes.of, parts.idle.told
        self.answered, self.projects, self.clock = parts.answers.given, parts.projects.known, parts.people.clock
        self.tuning, self.people, self.own_account = parts.tuning, parts.people, parts.own_account
        self.arrays, self.dependencies, self.quotas = parts.arrays, parts.dependencies, parts.quotas
        self.learned, self.allocations = parts.learned, parts.allocations

    def part(self, name: str) -> object:
        """Return the part of the class of this name."""
        return self._by_class[name]

    def still_idle(self, task_id: int, launch_id: str, now: float) -> None:
        """See `IdleTasks.still`."""
        self._parts.idle.still(task_id, launch_id, now, self._parts.dispatch.kill)

    @property
    def settings(self) -> Settings:
        """Return the settings that hold now."""
        return self.tuning.settings

    @property
    def next_id(self) -> int:
        """The id that the next task gets."""
        return self._parts.task_table.next_id

    @property
    def reservations(self) -> tuple[Reservation, ...]:
        """For which tasks room is kept."""
        return self._parts.dispatch.reservations

    @property
    def holds(self) -> Mapping[str, Hold]:
        """Return the resources that are kept for tasks that have a reservation, by node."""
        return self._parts.dispatch.holds

    @property
    def touched(self) -> int:
        """How often a task that was there changed or went."""
        return self._parts.pending.touched

    @property
    def plan_needed(self) -> bool:
        """Has something changed since the last plan that may matter to it?"""
        return self._parts.pending.plan_needed

    @property
    def has_many(self) -> bool:
        """Have so many tasks come or changed since somebody took the changes that to write them takes a while?"""
        return self._parts.pending.has_many

    def load(
        self,
        tasks: Mapping[int, Task],
        answered: Mapping[str, msgspec.Raw],
        next_id: int,
        pieces: Mapping[str, msgspec.Raw] = NO_PIECES,
    ) -> None:
        """Take over what the store found: tasks, answers, and the pieces of state that are not tasks. Called once,
        before any event."""
        parts = self._parts
        self.tuning.load(pieces)
        parts.notes.load(pieces)
        self.people.load(pieces)
        self.own_account.load(pieces)
        parts.projects.load(pieces)
        self.arrays.load(pieces)
        parts.answers.given.update(answered)
        parts.task_table.load(tasks, next_id)
        parts.shares.load(tasks.values())
        parts.identities.load(pieces, self.inventory.nodes)
        self.arrays.count(tasks.values())
        parts.unstarted_tasks.load(tasks.values())
        parts.dispatch.load(pieces)
        parts.unknown_attempts.load(pieces)
        self.dependencies.load()
        self.learned.load(tasks.values())

    def set_nodes(self, specs: tuple[NodeSpec, ...]) -> None:
        """The registry says this now. Nodes come, change, or leave: at once when idle, else after their last task."""
        self._parts.nodes.set(specs)
        self._parts.identities.follow(self.inventory.nodes)
        self._parts.notes.show()
        self._parts.unknown_attempts.show()
        self.own_account.forget_all_but(spec.name for spec in specs)

    def forget_facts(self, name: str) -> None:
        """The next machine that answers in this node's name may be another one: nothing is planned for it before it has
        said which machine it is."""
        self._parts.nodes.forget_facts(name)
        self._parts.identities.leads_elsewhere(self.inventory.nodes[name])

    def node_state(
        self, name: str, state: NodeState, why: Message | str | None = None, facts: Facts | None = None
    ) -> None:
        """The link to a node changed, and why; a text is what somebody else said. Its tasks keep their GPUs whatever
        happens to the link."""
        self._parts.nodes.link_changed(name, state, why, facts)
        if facts is not None:
            self.runs_as_told(name, facts.runs_as)
        if state is not NodeState.ONLINE:
            self._parts.identities.lost_link(name)

    def runs_as_told(self, name: str, runs_as: RunsAs | None) -> None:
        """Tasks of a node run so, by what its executor says, or by what is known before that has said anything."""
        self.own_account.told(name, runs_as)
        self._parts.nodes.restrict(name, self.own_account.restriction(name))

    def node_load(self, name: str, load: list[float] | None, clock_offset: float) -> None:
        """A node's agent was heard: its load averages, and how far its clock is ahead of ours, in seconds."""
        self._parts.nodes.load_told(name, load, clock_offset)
        self._parts.identities.heard(name)

    def forget_damage(self) -> None:
        """Somebody has seen what the store had to tell of what was lost."""
        self._parts.pending.piece("damage", msgspec.Raw(b"[]"))

    def end_access(self) -> None:
        """End all access but passwords: the store was put back, or a part of it was lost. So there may be attempts of
        which it tells nothing."""
        self.people.end_all()
        self._parts.unknown_attempts.records_were_lost()
        self._parts.pending.piece(END_ACCESS, msgspec.Raw(b"null"))

    # -- checking ---------------------------------------------------------------------------------------------

    def sanity_check(self) -> None:
        """Raises InconsistentError where the parts differ from what the tasks' states say. Looks at every task: for
        tests, and for what was loaded."""
        parts = self._parts
        checked = (
            parts.task_table, parts.nodes, parts.dispatch, parts.arrays, parts.allocations, parts.quotas, parts.waiting,
            parts.dependencies, parts.unstarted_tasks, parts.own_tasks, parts.shares,
        )  # fmt: skip
        found = [told for part in checked for told in part.discrepancies()]
        if found:
            raise InconsistentError("; ".join(found))
