"""The ledger of what is held: the nodes by name, and the cluster as a whole.

Pure: no I/O, no clock. Callers give it what the registry says and which tasks hold what; it answers whether a request
could ever be met. `node` describes a node, and the table of resources what can be asked for; choosing among nodes is
the scheduler's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from master.config.settings import Scheduling
from master.core.nodes.facts import Facts, NodeState
from master.core.nodes.leases import Lease
from master.core.nodes.node import LEAVING, UNSAID, Node, NodeSpec
from master.core.nodes.resources import Cluster, Need, give_back, row_of, take
from master.core.people.run_as import RunAs, as_the_agent
from master.core.tasks.attempt import Part
from master.core.tasks.request import Request, request_of
from master.core.tasks.task import Task
from wire.message import NONE, Message, names

__all__ = [
    "ANOTHER", "LEAVING", "NAMES", "TOLD", "Facts", "Inventory", "Node", "NodeSpec", "NodeState", "Request", "obstacle",
    "request_of",
]  # fmt: skip

ANOTHER = Message("another_node")
EXCLUDED = Message("is_excluded")
NAMES = 6
"""How many names, or ranges of them, stand before one obstacle."""
TOLD = 3
"""How many nodes a one-line reason names."""


def obstacle(node: Node, request: Request) -> Message | None:
    """Why a node could never take the request, even when empty, to be said of `nodes`; None if it could."""
    if request.only and node.name not in request.only:
        return ANOTHER
    if node.name in request.exclude:
        return EXCLUDED
    if LEAVING in node.cordons:
        return Message("is_leaving")
    return _beyond(request.needs_on(node.name) if request.gpus_on else request.needs, node)


def _beyond(needs: tuple[Need, ...], place: Node | Cluster) -> Message | None:
    for need in needs:
        why = row_of(need.resource).why_never(need, place)
        if why is not None:
            return why
    return None


def hosts_of(inventory: Inventory, task: Task) -> list[str]:
    """Where the parts of a task's attempt reach each other; if all are on one machine, over its loopback."""
    nodes = [inventory.node_for_ledger(part.node) for part in task.allocation]
    machines = {node.facts.identity if node.facts else node.name for node in nodes}
    return ["127.0.0.1"] * len(nodes) if len(machines) == 1 else [node.host for node in nodes]


def _closest_first(whys: Iterable[Message]) -> list[Message]:
    """Return them in their order, but of those that say the same of different amounts the largest first."""
    kinds: dict[str, list[Message]] = {}
    for why in whys:
        kinds.setdefault(why.key, []).append(why)
    return [why for alike in kinds.values() for why in sorted(alike, key=_amount, reverse=True)]


def _amount(why: Message) -> int:
    """Return how much there is, as a refusal tells it; 0 where it tells no amount."""
    told = [why.args, *(value.args for value in why.args.values() if isinstance(value, Message))]
    amounts = (args.get(name) for args in told for name in ("most", "count", "mib"))
    return next((amount for amount in amounts if isinstance(amount, int)), 0)


class Inventory:
    """All nodes, by name, in the registry's order; `has`: how much the cluster has of what is counted for all of
    them together. `root_owner`: whose tasks run as root where an agent is root; None for nobody's;
    `run_as`: see `keep_apart`."""

    def __init__(self, specs: tuple[NodeSpec, ...] = (), has: Mapping[str, int] = MappingProxyType({})) -> None:
        self.rules = UNSAID
        self.root_owner: str | None = None
        self.run_as: RunAs = as_the_agent
        self.nodes: dict[str, Node] = {spec.name: Node(spec) for spec in specs}
        self.cluster = Cluster(has)

    def set_rules(self, rules: Scheduling) -> None:
        """The lab says this of all nodes now."""
        if rules is not self.rules:
            self.rules = rules
            for node in self.nodes.values():
                node.rules = rules

    def new_node(self, spec: NodeSpec) -> Node:
        """One that was not there, and is not in `nodes` yet."""
        node = Node(spec, self.rules)
        node.accounts.run_as = self.run_as
        return node

    def run_as_somewhere(self) -> RunAs:
        """Return `run_as`; `as_the_agent` where no node runs tasks as their owners, and none that was not heard yet
        may: each node is looked at."""
        may = any(node.accounts.are_used or node.facts is None or node.facts.can_run_as for node in self.nodes.values())
        return self.run_as if may else as_the_agent

    def keep_apart(self, run_as: RunAs) -> None:
        """From now on this says whose tasks run as which account, where nodes have accounts for them."""
        self.run_as = run_as
        for node in self.nodes.values():
            node.accounts.run_as = run_as

    def note_root(self, node: Node) -> None:
        """Note whose tasks run as root on a node, by what its agent said last."""
        node.root_owner = self.root_owner if node.facts is not None and node.facts.is_root else None

    def node_for_ledger(self, name: str) -> Node:
        """The node of an allocation. One that left the registry while it was busy is kept, without taking tasks."""
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = self.new_node(NodeSpec(name=name))
            node.state = NodeState.UNREACHABLE
            node.reason = str(Message("not_registered"))
            node.cordons[LEAVING] = Message("left")
        return node

    def take(self, task: Task) -> None:
        """Book everything that the task holds: on the nodes of its allocation, and of the cluster."""
        request = request_of(task)
        for part in task.allocation:
            if not part.is_free:
                node = self.node_for_ledger(part.node)
                take(node if task.within is None else node.lease(task.within), request.needs, task, part)
                node.active.add(task.id)
                if task.is_allocation:
                    node.lease(task.id).gpus = tuple(part.gpus)
        take(self.cluster, request.shared, task)

    def give_back(self, task: Task) -> None:
        """Undo `take`."""
        for part in task.allocation:
            if not part.is_free:
                self.give_back_part(task, part)
        give_back(self.cluster, request_of(task).shared, task)

    def give_back_part(self, task: Task, part: Part) -> None:
        """Undo `take` on one node."""
        node = self.node_for_ledger(part.node)
        lease = node.leases.get(task.id if task.within is None else task.within)
        give_back(node if task.within is None or lease is None else lease, request_of(task).needs, task, part)
        node.active.discard(task.id)
        if lease is not None:
            lease.gpus = () if task.is_allocation else lease.gpus
            if not lease:
                del node.leases[task.id if task.within is None else task.within]

    def leases(self, allocation: int) -> dict[str, Lease]:
        """Return the leases of an allocation, by node; none before it is granted."""
        held = ((name, node.leases.get(allocation)) for name, node in self.nodes.items() if node.leases)
        return {name: lease for name, lease in held if lease is not None and lease.gpus}

    def why_never(self, request: Request) -> Message | None:
        """Why the request could never be met; None if it could."""
        beyond = _beyond(request.shared, self.cluster) if request.shared else None
        if beyond is not None:
            return Message("asks_beyond", request=request.describe(), beyond=(beyond.of(NONE),), more=0)
        alike: dict[Message, list[str]] = {}
        able = 0
        for node in self.nodes.values():
            why = obstacle(node, request)
            if why is None:
                able += 1
                if able >= request.nodes:
                    return None
                continue
            alike.setdefault(why, []).append(node.name)
        for name in request.only:
            if name not in self.nodes:
                return self.no_such_node(name)
        if not alike and not able:
            return Message("no_nodes")
        told = [why.of(names(alike[why], NAMES)) for why in _closest_first(alike) if why is not ANOTHER]
        if able and not (told and request.only):  # of nodes that are named it is told what is wrong with them
            return Message("too_few_nodes", request=request.describe(), able=able)
        more = max(0, len(told) - TOLD)
        return Message("asks_beyond", request=request.describe(), beyond=tuple(told[:TOLD]), more=more)

    def no_such_node(self, wrong: str) -> Message:
        """That the registry has no node of this name, and which it has."""
        import difflib  # noqa: PLC0415  (a start has no use for it)

        known = list(self.nodes)
        close = difflib.get_close_matches(wrong, known, 1)
        told = names(known, NAMES)
        if close:
            return Message("no_such_node_but", node=wrong, meant=close[0], nodes=told)
        return Message("no_such_node", node=wrong, nodes=told)
