"""Which nodes there are, what is held on each, and what keeps new tasks away from one.

Pure. It follows the registry and the links, books what tasks take and give back, and owns the cordons. A node that
leaves the registry while tasks run there stays, without taking new ones, until the last has ended. Why a node is
cordoned by people stands in the `notes`, what its machine is in `machines`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from master.core.attempts.exhaustion import CardUse
from master.core.nodes.accounts import OWN, AccountAgent
from master.core.nodes.inventory import LEAVING, TOLD, Facts, Inventory, Node, NodeSpec, NodeState, Request
from master.core.nodes.node import Restriction
from master.core.nodes.node_clock import UNKNOWN, NodeClock
from master.core.nodes.resources import LICENCE
from master.core.outcome import Pending
from master.core.people.run_as import RunAs
from master.core.tasks.attempt import Part, part_on
from master.core.tasks.task import ACTIVE, Task
from master.core.tasks.task_table import TaskTable
from master.core.tasks.transitions import State
from wire.errors import ImpossibleError, NotFoundError
from wire.message import Message, Several

TWIN, SAME = "twin", "same"
"""The kinds of the cordons of an entry whose machine has another name, too: that of an entry that leaves, and that of
one that is served."""


_LAST = float("inf")
NONE_OWNED: Mapping[str, int] = MappingProxyType({})


class Nodes:
    """`inventory`: the nodes by name, and what is held on them."""

    def __init__(
        self,
        specs: tuple[NodeSpec, ...],
        task_table: TaskTable,
        pending: Pending,
        licences: Mapping[str, int] = NONE_OWNED,
    ) -> None:
        self.inventory = Inventory(specs, {LICENCE + name: count for name, count in licences.items()})
        self._task_table = task_table
        self._pending = pending
        self._alive: set[int] = set()

    def get(self, name: str) -> Node | None:
        """The node, if there is one: it may have left the registry a moment ago."""
        return self.inventory.nodes.get(name)

    def find(self, name: str) -> Node:
        """The node, or NotFoundError."""
        node = self.inventory.nodes.get(name)
        if node is None:
            known = list(self.inventory.nodes)
            told = Several(tuple(known[:TOLD]), len(known), max(0, len(known) - TOLD))
            raise NotFoundError(Message("unknown_node", node=name, nodes=told))
        return node

    def active(self) -> list[Task]:
        """The tasks that may be alive on a node, the longest running first, those about to start last."""
        tasks = [self._task_table.tasks[task_id] for task_id in sorted(self._alive)]
        tasks.sort(key=lambda task: task.started_at or _LAST)  # of equals the older stays the first
        return tasks

    def peak_mib(self, name: str, task_id: int) -> int | None:
        """The most memory that a task was seen to use of one GPU there, in MiB, since it began; None if nobody saw."""
        node = self.inventory.nodes.get(name)
        return node.watch.peak_mib.pop(task_id, None) if node is not None else None

    def card_use(self, name: str, task: Task) -> CardUse | None:
        """Return the known use of the memory of the GPU there that the task came closest to filling; None if nothing is
        known."""
        node, part = self.inventory.nodes.get(name), part_on(task.allocation, name)
        if node is None or part is None:
            return None
        seen = [node.watch.card_use(gpu, task.id, part.launch_id) for gpu in part.gpus]
        return max(
            (use for use in seen if use is not None), key=lambda use: (use.own + use.others) / use.total, default=None
        )

    def check_possible(self, request: Request) -> None:
        """Raises ImpossibleError for what no node could ever meet."""
        never = self.inventory.why_never(request)
        if never is not None:
            raise ImpossibleError(never)

    # -- what tasks hold --------------------------------------------------------------------------------------

    def concerns(self, before: State, after: State) -> bool:
        """Attempts that begin or are over."""
        return (before in ACTIVE) is not (after in ACTIVE)

    def moved(self, task: Task, _before: State, after: State) -> None:
        """An attempt takes its GPUs, CPUs or slot when it is sent, and gives them back when it is over."""
        if after in ACTIVE:
            self._alive.add(task.id)
            self.inventory.take(task)
        else:
            self._alive.discard(task.id)
            self._give_back(task)

    def part_over(self, task: Task, part: Part) -> None:
        """One part of an attempt of several is over, and gives back what it held."""
        self.inventory.give_back_part(task, part)
        self._vacated(part.node)

    def _give_back(self, task: Task) -> None:
        self.inventory.give_back(task)
        for part in task.allocation:
            if not part.is_free:
                self._vacated(part.node)

    def _vacated(self, name: str) -> None:
        self._pending.node_for_plan(name)
        node = self.inventory.nodes.get(name)
        if node is not None and LEAVING in node.cordons and not node.active:
            self._drop(name)

    # -- links ------------------------------------------------------------------------------------------------

    def link_changed(
        self, name: str, state: NodeState, why: Message | str | None = None, facts: Facts | None = None
    ) -> None:
        """The link to a node changed, and why; a text is what somebody else said. Its tasks keep their GPUs whatever
        happens to the link."""
        node = self.inventory.nodes.get(name)
        if isinstance(why, str):
            why = Message("link_said", said=why)
        reason = None if why is None else str(why)
        if node is not None and ((node.state, node.reason) != (state, reason) or facts is not None):
            node.state, node.reason, node.link_says = state, reason, why
            node.facts = facts or node.facts
            node.accounts.is_untold = node.facts is not None and node.facts.runs_as is None
            self.inventory.note_root(node)
            self._pending.node_for_plan(name)

    def account_changed(
        self, name: str, login: str, state: NodeState, why: Message | None = None, facts: Facts | None = None
    ) -> None:
        """The link to the agent of an account there changed, and why. Its tasks keep what they hold, and the node's
        other agents are none the wiser."""
        node = self.inventory.nodes.get(name)
        if node is None:
            return
        agent = node.accounts.agents.setdefault(login, AccountAgent())
        if (agent.state, agent.why) != (state, why) or facts is not None:
            agent.state, agent.why, agent.facts = state, why, facts or agent.facts
            self._pending.node_for_plan(name)

    def keep_apart(self, run_as: RunAs) -> None:
        """From now on this says whose tasks run as which account, where nodes have accounts for them."""
        self.inventory.keep_apart(run_as)
        for name in self.inventory.nodes:
            self._pending.node_for_plan(name)

    def want_account(self, name: str, login: str) -> None:
        """Something is to be started over this account: its agent is waited for from now on."""
        node = self.inventory.nodes[name]
        if login not in node.accounts.agents:
            node.accounts.agents[login] = AccountAgent()
        self._pending.node_for_plan(name)

    def forget_account(self, name: str, login: str) -> None:
        """Nothing of this account is there, and nobody talks to its agent any more."""
        node = self.inventory.nodes.get(name)
        if node is not None and node.accounts.agents.pop(login, None) is not None:
            self._pending.node_for_plan(name)

    def forget_facts(self, name: str) -> None:
        """The next machine that answers in this node's name may be another one: nothing is planned for it before it has
        said which machine it is."""
        node = self.inventory.nodes[name]
        node.state, node.facts = NodeState.CONNECTING, None
        node.accounts.agents.clear()
        node.reason = node.link_says = None
        node.clock, node.clock_offset = NodeClock(), None
        self._pending.node(name)

    def load_told(self, name: str, load: list[float] | None, clock_offset: float) -> None:
        """The node's load averages, and how far its clock is ahead of ours, in seconds. Not worth a record, nor a
        notification: samples tell whoever listens."""
        node = self.inventory.nodes.get(name)
        if node is not None:
            node.load, node.clock_offset = load, clock_offset

    def clock_told(self, name: str, told: float, sent: float | None, heard: float) -> None:
        """A node's clock showed `told` in a message that was heard at `heard`; `sent`: in the answer to one of ours
        that was sent then."""
        node = self.inventory.nodes.get(name)
        if node is not None and sent is None:
            node.clock.said(told, heard)
        elif node is not None and sent is not None:
            node.clock.answered(told, sent, heard)
            node.clock_offset = node.clock.ahead

    def clock_of(self, name: str) -> NodeClock:
        """Return the measured error of a node's clock."""
        node = self.inventory.nodes.get(name)
        return UNKNOWN if node is None else node.clock

    def cordon(self, name: str, kind: str, reason: Message | None, login: str = OWN) -> None:
        """Keep new tasks away from a node for this reason, or with None no longer for it; `login`: only those that
        would run over this account of it."""
        node = self.inventory.nodes.get(name)
        if node is not None and login != OWN:
            if node.accounts.cordon(login, kind, reason):
                self._pending.node_for_plan(name)
            return
        cordons = node.cordons if node else {}
        if node is None or cordons.get(kind) == reason:
            return
        if reason is None:
            del cordons[kind]
        else:
            cordons[kind] = reason
        self._pending.node_for_plan(name)

    def hold_left(self, name: str, left: Mapping[int, Message]) -> None:
        """Give these GPUs to nobody: what nobody owns any more was given them, and is alive."""
        node = self.inventory.nodes.get(name)
        if node is not None and node.left != left:
            node.left = dict(left)
            node.count_free()
            self._pending.node_for_plan(name)

    def restrict(self, name: str, restriction: Restriction | None) -> None:
        """Let the node take the tasks of some owners only, or with None of all."""
        node = self.inventory.nodes.get(name)
        if node is not None and node.restriction != restriction:
            node.restriction = restriction
            self._pending.node_for_plan(name)

    def keep_from_root(self, owner: str | None) -> None:
        """This owner's tasks run as root where an agent is root, None for nobody's: only an admin's are taken there."""
        self.inventory.root_owner = owner
        for name, node in self.inventory.nodes.items():
            before = node.root_owner
            self.inventory.note_root(node)
            if node.root_owner != before:
                self._pending.node_for_plan(name)

    def tokens_told(self, name: str, why_not: Message | None) -> None:
        """Whether tasks on the node can get tokens, and why not if they cannot."""
        node = self.inventory.nodes.get(name)
        if node is not None and node.no_tokens != why_not:
            node.no_tokens = why_not
            self._pending.node_for_plan(name)

    # -- the registry -----------------------------------------------------------------------------------------

    def set(self, specs: tuple[NodeSpec, ...]) -> None:
        """The registry says this now. Nodes come, change, or leave: at once when idle, else after their last task."""
        before = self.inventory.nodes
        wanted = {spec.name: spec for spec in specs}
        for name in [name for name in before if name not in wanted]:
            if before[name].active:
                self.cordon(name, LEAVING, Message("leaving"))
            else:
                self._drop(name)
        after = {}
        for name, spec in wanted.items():
            known = name in before
            after[name] = before[name] if known else self.inventory.new_node(spec)
            if not known or before[name].spec != spec:
                after[name].respec(spec)
                self._pending.node(name)
        # The registry's order is the order of every list; what is leaving comes last.
        self.inventory.nodes = {**after, **{name: node for name, node in before.items() if name not in after}}
        for name in wanted:
            self.cordon(name, LEAVING, None)
            self._look_for_twin(name)
        self._pending.plan_needed = True

    def _drop(self, name: str) -> None:
        del self.inventory.nodes[name]
        self._pending.node(name)
        for other in self.inventory.nodes:
            self._look_for_twin(other)
            same = self.inventory.nodes[other].cordons.get(SAME)
            if same is not None and same.args["node"] == name:
                self.cordon(other, SAME, None)

    def _look_for_twin(self, name: str) -> None:
        """Keep tasks from a node that was renamed while tasks run under its old name: it has the same GPUs."""
        nodes = self.inventory.nodes
        address = nodes[name].spec.address
        twins = [
            twin.name
            for twin in nodes.values()
            if address and twin.spec.address == address and twin.name != name and LEAVING in twin.cordons
        ]
        twin = Message("machine_was", node=twins[0]) if twins else None
        self.cordon(name, TWIN, twin if LEAVING not in nodes[name].cordons else None)

    def discrepancies(self) -> list[str]:
        """Where what is booked on the nodes differs from what the active tasks hold."""
        due = Inventory(tuple(node.spec for node in self.inventory.nodes.values()))
        found = []
        if (alive := {task.id for task in self._task_table.tasks.values() if task.state in ACTIVE}) != self._alive:
            found.append(f"tasks {sorted(alive ^ self._alive)} are alive, or are not, otherwise than is known")
        for task in self._task_table.tasks.values():
            if task.state in ACTIVE:
                try:
                    due.take(task)
                except ValueError as error:
                    found.append(str(error))
        held, wanted = _amounts(self.inventory.cluster.held), _amounts(due.cluster.held)
        if held != wanted:
            found.append(f"of the cluster {held} is booked, and tasks hold {wanted}")
        for name in due.nodes.keys() | self.inventory.nodes.keys():
            found += _difference(name, self.inventory.nodes.get(name), due.nodes.get(name))
        return found


def _difference(name: str, node: Node | None, due: Node | None) -> list[str]:
    if node is None or due is None:
        return [f"tasks hold something of node {name}, which is not there"]
    booked = (node.gpu_holders, _amounts(node.held), node.active, _leased(node))
    wanted = (due.gpu_holders, _amounts(due.held), due.active, _leased(due))
    found = [f"node {name}: {booked} is booked (GPUs, amounts, tasks, allocations), and tasks hold {wanted}"]
    free = [gpu for gpu in due.free_gpus if node.why_closed(gpu) is None]
    free_told = [f"node {name}: GPUs {node.free_gpus} count as free, and {free} are"]
    return (found if booked != wanted else []) + (free_told if node.free_gpus != free else [])


def _leased(node: Node) -> dict[int, object]:
    """Return the GPUs that allocations hold there, and the tasks that use them."""
    return {number: (lease.gpus, lease.gpu_holders) for number, lease in node.leases.items()}


def _amounts(held: Mapping[str, int]) -> dict[str, int]:
    """Return the amounts that are greater than 0."""
    return {resource: amount for resource, amount in held.items() if amount}
