"""The parts of the core: each is built once, with those that it stands on, and listens to the moves of tasks. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from master.config.settings import Settings
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
from master.core.idempotency import KeptResults
from master.core.nodes.gpus import Gpus
from master.core.nodes.health import Health
from master.core.nodes.identities import Identities
from master.core.nodes.idle import IdleTasks
from master.core.nodes.inventory import NodeSpec
from master.core.nodes.machines import Machines
from master.core.nodes.nodes import Nodes
from master.core.nodes.notes import Notes
from master.core.nodes.outgrown import OutgrownShares
from master.core.nodes.strays import StrayTasks
from master.core.nodes.unstarted_tasks import UnstartedTasks
from master.core.outcome import Pending
from master.core.people.barred import BarredOwners
from master.core.people.own_account import OwnAccountNodes
from master.core.people.owned import OwnTasks
from master.core.people.owners import Owners
from master.core.people.people import People
from master.core.people.projects import Projects
from master.core.people.quotas import Quotas
from master.core.people.rights_end import RightsEnd
from master.core.people.shares import Shares
from master.core.people.task_access import TaskAccess
from master.core.planning.allocation_size import AllocationSize
from master.core.planning.allocations import Allocations
from master.core.planning.learned import Learned
from master.core.tasks.arrays import Arrays
from master.core.tasks.dependencies import Dependencies
from master.core.tasks.task_table import TaskTable
from master.core.tasks.waiting import Waiting
from master.core.tuning import Tuning


class Parts:
    """All parts, by name. `new_launch_id(task_id, attempt)` makes an id that was never used before; `conf`: what
    conf.json says of what can be set at run time; `licences`: how many of which there are; `log_folder`: that of logs
    which nobody placed."""

    def __init__(
        self,
        specs: tuple[NodeSpec, ...],
        new_launch_id: NewLaunchId,
        conf: Settings,
        *,
        licences: Mapping[str, int],
        log_folder: str,
    ) -> None:
        self.pending = Pending()
        self.tuning = Tuning(conf, self.pending)
        self.answers = KeptResults(self.pending)
        self._build_tasks()
        self._build_people()
        self._build_nodes(specs, licences)
        self._build_attempts(new_launch_id, log_folder)
        self._build_findings()
        self._build_requests()
        self._listen()

    def _build_tasks(self) -> None:
        pending = self.pending
        self.task_table = TaskTable(pending)
        self.waiting = Waiting(self.task_table, pending, self.tuning)
        self.arrays = Arrays(self.task_table, self.waiting, pending)
        self.dependencies = Dependencies(self.task_table, self.arrays)
        self.learned = Learned(self.task_table)

    def _build_people(self) -> None:
        pending, task_table = self.pending, self.task_table
        self.people = People(pending)
        self.own_account = OwnAccountNodes(self.people, pending)
        self.own_tasks = OwnTasks(task_table.tasks)
        self.barred = BarredOwners(task_table, self.people, self.own_tasks)
        self.shares = Shares(task_table, self.people, self.tuning)
        self.owners = Owners(task_table, self.people, self.own_tasks, self.barred, self.shares)
        self.projects = Projects(pending)
        self.idle = IdleTasks(task_table, self.tuning, pending)
        self.quotas = Quotas(
            *(task_table, self.waiting, self.people, self.projects, self.arrays),
            idle=self.idle,
            tuning=self.tuning,
            pending=pending,
        )

    def _build_nodes(self, specs: tuple[NodeSpec, ...], licences: Mapping[str, int]) -> None:
        pending, task_table = self.pending, self.task_table
        self.nodes = nodes = Nodes(specs, task_table, pending, licences)
        self.notes = Notes(nodes, pending, self.people.clock)
        self.unstarted_tasks = UnstartedTasks(task_table)
        self.health = Health(self.unstarted_tasks, nodes, self.notes, pending)
        self.identities = Identities(pending)
        self.machines = Machines(task_table, nodes, self.identities)
        self.unknown_attempts = UnknownAttempts(task_table, nodes, pending)
        self.orphaned_attempts = OrphanedAttempts(task_table, nodes, self.unknown_attempts, pending)
        self.allocations = Allocations(task_table, nodes.inventory, pending)

    def _build_attempts(self, new_launch_id: NewLaunchId, log_folder: str) -> None:
        task_table, nodes = self.task_table, self.nodes
        self.endings = Endings(
            *(task_table, self.waiting, self.people, self.arrays, self.tuning),
            inventory=nodes.inventory,
            unstarted_tasks=self.unstarted_tasks,
        )
        self.dispatch = dispatch = Dispatch(
            *(task_table, nodes),
            waiting=self.waiting,
            endings=self.endings,
            learned=self.learned,
            allocations=self.allocations,
            health=self.health,
            unstarted_tasks=self.unstarted_tasks,
            orphaned=self.orphaned_attempts,
            unknown=self.unknown_attempts,
            pending=self.pending,
            quotas=self.quotas,
            tuning=self.tuning,
            barred=self.barred,
            new_launch_id=new_launch_id,
            log_folder=log_folder,
        )
        self.pausing = Pausing(task_table, nodes, dispatch, self.pending)
        self.unproven_attempts = UnprovenAttempts(task_table, nodes, dispatch)
        self.reconciliation = Reconciliation(
            *(task_table, nodes, dispatch),
            pausing=self.pausing,
            endings=self.endings,
            orphaned=self.orphaned_attempts,
            unproven=self.unproven_attempts,
            pending=self.pending,
        )

    def _build_findings(self) -> None:
        task_table, dispatch = self.task_table, self.dispatch
        self.outgrown = OutgrownShares(task_table, self.tuning, dispatch.kill)
        self.strays = StrayTasks(task_table, self.tuning, dispatch.kill)
        self.gpus = Gpus(
            *(task_table, self.nodes, self.notes, self.pending, self.waiting.backlog),
            outgrown=self.outgrown,
            strays=self.strays,
        )
        self.explanations = Explanations(
            *(task_table, self.nodes, dispatch, self.waiting),
            learned=self.learned,
            quotas=self.quotas,
            idle=self.idle,
            outgrown=self.outgrown,
            strays=self.strays,
            unproven=self.unproven_attempts,
        )

    def _build_requests(self) -> None:
        task_table, nodes, dispatch = self.task_table, self.nodes, self.dispatch
        self.client_events = ClientEvents(
            *(task_table, self.dependencies, self.waiting, nodes, dispatch),
            arrays=self.arrays,
            allocations=self.allocations,
            learned=self.learned,
            quotas=self.quotas,
            shares=self.shares,
        )
        self.allocation_size = AllocationSize(task_table, self.allocations, self.pending, dispatch.look_around)
        self.task_access = TaskAccess(dispatch, self.people)
        self.rights_end = RightsEnd(self.people, self.owners, self.notes, self.pending)
        self.adoption = Adoption(
            *(task_table, nodes, dispatch, self.unknown_attempts), dependencies=self.dependencies, people=self.people
        )
        self.giving_up = GivingUp(task_table, nodes, dispatch, self.allocations, self.orphaned_attempts)

    def _listen(self) -> None:
        """The listeners of the task table, in the order in which they are notified: the last two move other tasks as
        well, each in ways that do not concern the other."""
        for listener in (
            self.shares, self.nodes, self.dispatch, self.pausing, self.quotas, self.task_access, self.waiting,
            self.learned, self.allocations, self.dispatch.elastic, self.unstarted_tasks, self.outgrown, self.strays,
            self.idle, self.unproven_attempts, self.own_tasks, self.barred, self.dependencies, self.arrays,
        ):  # fmt: skip
            self.task_table.listen(listener)
