"""One node: what the registry and its agent say of it, who may use it, and who holds what of it.

Pure: no I/O, no clock. The table of resources tells what a task needs of it; choosing among nodes is the scheduler's
business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from master.config.settings import Scheduling
from master.core.nodes.accounts import OWN, Accounts
from master.core.nodes.facts import Facts, NodeState
from master.core.nodes.gpu_watch import GpuWatch, Holders
from master.core.nodes.leases import Lease, hold
from master.core.nodes.node_clock import NodeClock
from wire.message import Message

UNSAID = Scheduling()
"""The settings of a lab that sets nothing for all nodes."""
LEAVING = "leaving"
"""The cordon of a node that the registry has no more, while tasks run there."""


NOT_SCHEDULABLE = Message("not_schedulable")
PASSING = frozenset({"gpu_not_free", "gpu_not_free_yet", "gpu_unseen", "gpu_returned"})
"""Why a GPU is not given out that is free as soon as a sample shows it so, by the keys."""

SOON_OVER = frozenset({"folders_looked_at", "remnants"})
"""The reasons of cordons that a new connection begins with and that end by themselves: the first look at the node's
shared folders, and the end of attempts that were given up."""


class NodeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The entry of a node in the registry. `cpus`, `slots` and `tmp_disk_mib` are None where the registry leaves
    them to the node;
    `address` names the machine and the account there (`user@host:port`), empty for this one. `accounts`: over which
    other accounts there the tasks of their owners run (owner, account); None: all run over the one of `address`.
    `is_declared`: its GPUs are believed and never probed."""

    name: str
    address: str = ""
    gpu_models: tuple[str, ...] = ()
    gpu_memory_mib: tuple[int, ...] | None = None
    cpus: int | None = None
    slots: int | None = None
    tmp_disk_mib: int | None = None
    schedulable: bool = True
    accounts: tuple[tuple[str, str], ...] | None = None
    is_declared: bool = False


class Restriction(msgspec.Struct, frozen=True):
    """That a node takes the tasks of some owners only, and why, to be said to others. `as_admin`: and of these only
    tasks that count as an admin's."""

    owners: frozenset[str]
    why: Message
    as_admin: bool = True

    def why_not(self, owner: str, *, by_admin: bool) -> Message | None:
        """Why it does not take a task of this owner; None if it does. `by_admin`: the task counts as an admin's."""
        if owner not in self.owners:
            return self.why
        return Message("needs_word_of_admin") if self.as_admin and not by_admin else None


class Node:
    """One node: its spec, what is known of it, and what is held on it. `held`: how much, of each resource that has no
    numbers. `rules`: what the lab says of all nodes. `gpu_holders`: of each GPU that is held the tasks, and how many
    MiB each may use; None for all of it. `leases`: the GPUs that allocations hold, by allocation. `no_tokens`:
    why tasks there get no token to submit others with; None: they get one. `root_owner`: whose tasks run as root there,
    so that only those of them are taken that count as an admin's; None for nobody's."""

    __slots__ = (
        "accounts",
        "active",
        "aside",
        "clock",
        "clock_offset",
        "cordons",
        "dismissed",
        "facts",
        "faulted",
        "free_gpus",
        "gpu_holders",
        "held",
        "kept_back",
        "leases",
        "left",
        "link_says",
        "load",
        "no_tokens",
        "orphaned",
        "reason",
        "restriction",
        "rests",
        "root_owner",
        "rules",
        "spec",
        "state",
        "unknown",
        "unknown_gpus",
        "watch",
    )

    def __init__(self, spec: NodeSpec, rules: Scheduling = UNSAID) -> None:
        self.spec = spec
        self.rules = rules
        self.state = NodeState.CONNECTING
        self.reason: str | None = None
        self.link_says: Message | None = None
        """The same for programs, where it has a key."""
        self.facts: Facts | None = None
        self.gpu_holders: dict[int, dict[int, int | None]] = {}
        self.free_gpus: list[int] = list(range(len(spec.gpu_models)))
        self.held: Counter[str] = Counter()
        self.active: set[int] = set()
        self.cordons: dict[str, Message] = {}
        self.orphaned: set[tuple[str, str]] = set()
        """The orphaned attempts that are alive there: launch id, and the account whose agent said so."""
        self.unknown: set[tuple[str, str]] = set()
        self.dismissed: set[tuple[str, str]] = set()
        """Likewise the attempts of unknown origin, which are left alone, see `UnknownAttempts`."""
        self.unknown_gpus: dict[int, Message] = {}
        """The GPUs that these hold, and what to say of each."""
        self.restriction: Restriction | None = None
        self.root_owner: str | None = None
        self.no_tokens: Message | None = None
        self.load: list[float] | None = None
        self.clock_offset: float | None = None
        """As it is shown; what was measured of the clock is `clock`."""
        self.clock = NodeClock()
        self.watch = GpuWatch()
        self.kept_back: dict[int, Message] = {}
        self.left: dict[int, Message] = {}
        """The GPUs that were given to what is alive and nobody's, over an account, and why each is not given out."""
        self.aside: dict[int, str] = {}
        self.faulted: dict[int, str] = {}
        self.rests = 0
        self.leases: dict[int, Lease] = {}
        self.accounts = Accounts()
        self._know_accounts()

    @property
    def name(self) -> str:
        """Its name in the registry."""
        return self.spec.name

    @property
    def cpus(self) -> int:
        """Number of CPUs: the registry's word, else the machine's; 0 while neither is known."""
        return self.spec.cpus if self.spec.cpus is not None else (self.facts.cpus if self.facts else 0)

    @property
    def slots(self) -> int:
        """How many tasks without GPUs and CPUs may run at a time."""
        return self.spec.slots if self.spec.slots is not None else self.cpus

    @property
    def takes_tasks(self) -> bool:
        """May something be started there now?"""
        return self.state is NodeState.ONLINE and not self.cordons and self.spec.schedulable

    @property
    def is_away(self) -> bool:
        """Would it take tasks if there were a connection to it, and what a connection begins with were over?"""
        is_cut = self.state in (NodeState.CONNECTING, NodeState.UNREACHABLE)
        is_closed = any(reason.key not in SOON_OVER for reason in self.cordons.values())
        return (is_cut or bool(self.cordons)) and not is_closed and self.spec.schedulable

    def is_open_as_to_all(self, owner: str, *, by_admin: bool) -> bool:
        """May tasks of this owner be started there, if any may, and is it the same for all others but the one whose
        tasks run as root there? `by_admin`: they count as an admin's."""
        return self.restriction is None and not self.accounts.are_used and (by_admin or owner != self.root_owner)

    def why_not_open_to(self, owner: str, *, by_admin: bool) -> Message | None:
        """Return why no task of this owner may be started there, though others' may; None if this owner's may.
        `by_admin`: it counts as an admin's."""
        closed = self.why_closed_to(owner, by_admin=by_admin)
        if closed is not None:
            return closed
        return self.accounts.why_not(owner, self.boot_id) if self.accounts.are_used else None

    def why_closed_to(self, owner: str, *, by_admin: bool) -> Message | None:
        """Likewise, but for what passes by itself: whose account is the agent's own may be kept away from it, and who
        has no account there has nothing to run as."""
        login = self.accounts.of(owner)
        if login is None:
            return Message("account_not_said") if self.accounts.is_untold else Message("no_account_there", owner=owner)
        if login != OWN:
            return None
        if owner == self.root_owner and not by_admin:
            return Message("needs_word_of_admin_as_root", node=self.name, owner=owner)
        return None if self.restriction is None else self.restriction.why_not(owner, by_admin=by_admin)

    def is_open_to(self, owner: str, *, by_admin: bool) -> bool:
        """May tasks of this owner be started there, if any may? `by_admin`: they count as an admin's."""
        if self.is_open_as_to_all(owner, by_admin=by_admin):
            return True
        return self.why_not_open_to(owner, by_admin=by_admin) is None

    def runs_as_admin(self, owner: str, account: str | None) -> bool:
        """Has what its own agent runs for this owner the rights of root there, or of the account that runs the master?
        `account`: the one that the owner has, None if the agent's is to do."""
        if self.accounts.of(owner) != OWN:
            return False
        is_root = account is None and self.facts is not None and self.facts.is_root
        return is_root or self.restriction is not None

    @property
    def boot_id(self) -> str:
        """The run of the machine in which its own agent is; "" while that has not said so."""
        return self.facts.boot_id if self.facts else ""

    def facts_of(self, login: str) -> Facts | None:
        """Return the facts that the agent of this account there has sent, OWN for the node's own."""
        if login == OWN:
            return self.facts
        agent = self.accounts.agents.get(login)
        return None if agent is None else agent.facts

    def address_of(self, login: str) -> str:
        """Where an account of the machine is (`user@host:port`)."""
        return self.spec.address if login == OWN else f"{login}@{self.spec.address.rpartition('@')[2]}"

    @property
    def closed_because(self) -> str | None:
        """Why it takes no tasks although it could be talked to, as a sentence; None if it takes some."""
        return "; ".join(map(str, self.why_not_open)) or None

    @property
    def why_not_open(self) -> tuple[Message, ...]:
        """Why it takes no tasks although it could be talked to; nothing if it takes some. `cordons` holds the reasons,
        by who gave them (`drained`, `leaving`, `folders` …)."""
        if self.cordons:
            return tuple(self.cordons.values())
        return () if self.spec.schedulable else (NOT_SCHEDULABLE,)

    def respec(self, spec: NodeSpec) -> None:
        """The registry says something else of it now. Resources that are held stay held, also a GPU that it no longer
        has."""
        self.spec = spec
        self._know_accounts()
        self.count_free()

    def _know_accounts(self) -> None:
        self.accounts.logins = None if self.spec.accounts is None else dict(self.spec.accounts)

    def count_free(self) -> None:
        """Work out anew which GPUs may be given out: held by nobody, kept back for no reason (`kept_back`: what the
        last sample shows; `aside`: what is written down; `unknown_gpus`)."""
        count = range(len(self.spec.gpu_models))
        self.free_gpus = [gpu for gpu in count if gpu not in self.gpu_holders and self.why_closed(gpu) is None]

    def why_closed(self, gpu: int) -> Message | None:
        """Why a GPU is not given out although no task holds it; None if it is."""
        aside = self.aside.get(gpu)
        return Message("gpu_aside", said=aside) if aside else self.why_kept_back(gpu)

    def why_closed_for_long(self, gpu: int) -> Message | None:
        """The same, but for what one of the next samples ends: of whoever looks ahead."""
        closed = self.why_closed(gpu)
        return None if closed is not None and closed.key in PASSING else closed

    @property
    def free_soon(self) -> int:
        """Return how many GPUs are free as a whole, or are so when a sample has shown it."""
        kept_back = (gpu for gpu in self.kept_back if gpu not in self.gpu_holders and self.why_closed(gpu) is not None)
        return len(self.free_gpus) + sum(self.why_closed_for_long(gpu) is None for gpu in kept_back)

    def why_kept_back(self, gpu: int) -> Message | None:
        """The same, but for what people set aside."""
        return self.unknown_gpus.get(gpu) or self.left.get(gpu) or self.kept_back.get(gpu)

    @property
    def host(self) -> str:
        """The name or address under which other machines reach it, as far as anybody knows: the registry's, else what
        the machine calls itself."""
        address = self.spec.address.rpartition("@")[2]
        host = address.rpartition(":")[0] if address.count(":") == 1 or "]" in address else address
        return host.strip("[]") or (self.facts.hostname if self.facts else "") or self.name

    @property
    def memory_mib(self) -> int:
        """Memory that tasks may have, in MiB: the machine's word, less what is kept free; 0 while it is not known."""
        return int((self.facts.memory_mib if self.facts else 0) * (1 - self.rules.keep_memory))

    @property
    def tmp_disk_mib(self) -> int | None:
        """Size of the file system of its temporary folder, in MiB: the registry's word, else the agent's; None where
        neither says it."""
        said = self.spec.tmp_disk_mib
        return said if said is not None or self.facts is None else self.facts.tmp_disk_mib

    def gpu_memory_mib(self, gpu: int) -> int | None:
        """How much memory a GPU has: the registry's word, else the driver's; None where nobody knows."""
        said = self.spec.gpu_memory_mib
        if said is not None and gpu < len(said):
            return said[gpu]
        report = self.watch.newest.get(gpu)
        return report.memory_total_mib if report is not None else None

    @property
    def used_gpus(self) -> Holders:
        """Of each GPU that a task uses the tasks, and how many MiB each may use: of those that allocations hold, the
        tasks within."""
        if not self.leases:
            return self.gpu_holders
        leased = {gpu for lease in self.leases.values() for gpu in lease.gpus}
        used: dict[int, dict[int, int | None]] = {
            gpu: held for gpu, held in self.gpu_holders.items() if gpu not in leased
        }
        for lease in self.leases.values():
            used |= lease.gpu_holders
        return used

    def lease(self, allocation: int) -> Lease:
        """Return the lease of an allocation there, even if it holds nothing yet."""
        return self.leases.setdefault(allocation, Lease(self))

    def hold_gpus(self, gpus: Sequence[int], task_id: int, mib: int | None = None) -> None:
        """Book GPUs, or `mib` of each. Raises ValueError, and has booked nothing, for one that is held already, unless
        both are shares: booking twice is a defect, never a state."""
        hold(self.gpu_holders, gpus, task_id, mib, self.name)
        self.free_gpus = [gpu for gpu in self.free_gpus if gpu not in gpus]

    def free_up_gpus(self, gpus: Sequence[int], task_id: int) -> None:
        """Undo `hold_gpus`; where samples tell of their memory, they are kept back until it is free."""
        self.let_go(self.gpu_holders, gpus, task_id)

    def let_go(self, holders: dict[int, dict[int, int | None]], gpus: Sequence[int], task_id: int) -> None:
        """The same for what is written in these holders."""
        for gpu in gpus:
            held = holders.get(gpu, {})
            if task_id in held:
                del held[task_id]
                if not held:
                    del holders[gpu]
                    self.watch.released(gpu, task_id)
        self.kept_back = {**self.watch.settling(), **self.kept_back}  # who else is there is so still
        self.count_free()
