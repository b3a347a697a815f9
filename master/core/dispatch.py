"""Attempts: where waiting tasks go, and what the agents tell of them. Pure; the engine calls it.

What an agent says is a fact, and nothing else is: a broken link ends no attempt, and silence is never read as a death.
"""

from __future__ import annotations

from master.core.attempt import Exit, Seen, verdict
from master.core.effects import Ack, Kill, Start
from master.core.inventory import TOLD, Facts, NodeState
from master.core.ledger import Ledger
from master.core.scheduler import plan
from master.core.task import Allocation, Launch, Task, TaskState


class Dispatch(Ledger):
    """The ledger, with attempts being sent out and coming back."""

    # -- what the planner decides -----------------------------------------------------------------------------

    def plan(self) -> int:
        """Start all that fits. The number of tasks started."""
        self.plan_needed = False
        placements = plan(self.backlog, self.inventory)
        for placement in placements:
            self._start(self.tasks[placement.task_id], Allocation(placement.node, placement.gpus))
        return len(placements)

    def _start(self, task: Task, allocation: Allocation) -> None:
        node = self.inventory.nodes[allocation.node]
        if node.facts is None:
            raise ValueError(f"{node.name} is online and has not said what it is")
        task.attempt += 1
        launch_id = self._new_launch_id(task.id, task.attempt)
        task.launch = Launch(launch_id, node.name, node.facts.boot_id, node.facts.state_id, node.spec.address)
        task.allocation = [allocation]
        task.forced = False
        self._move(task, TaskState.STARTING)
        self.inventory.take(task)
        self._by_launch[launch_id] = task.id
        self._dirty_nodes.add(node.name)
        self._effects.append(Start(node.name, task))

    # -- what agents tell -------------------------------------------------------------------------------------

    def node_state(self, name: str, state: NodeState, reason: str | None = None, facts: Facts | None = None) -> None:
        """The link to a node changed. Its tasks keep their GPUs whatever happens to the link."""
        node = self.inventory.nodes.get(name)
        if node is None:
            return  # it left the registry a moment ago
        if (node.state, node.reason) != (state, reason) or facts is not None:
            node.state, node.reason = state, reason
            node.facts = facts or node.facts
            self._dirty_nodes.add(name)
            self.plan_needed = True

    def forget_facts(self, name: str) -> None:
        """What answers in this node's name next may be another machine: nothing is planned for it before it said what
        it is."""
        node = self.inventory.nodes[name]
        node.state, node.reason, node.facts = NodeState.CONNECTING, None, None
        self._dirty_nodes.add(name)

    def cordon(self, name: str, kind: str, reason: str | None) -> None:
        """Keep new tasks away from a node for this reason, or with None no longer for it."""
        node = self.inventory.nodes.get(name)
        cordons = node.cordons if node else {}
        if node is None or cordons.get(kind) == reason:
            return
        if reason is None:
            del cordons[kind]
        else:
            cordons[kind] = reason
        self._dirty_nodes.add(name)
        self.plan_needed = True

    def node_load(self, name: str, load: list[float] | None, clock_offset: float) -> None:
        """The node's load averages, and how far its clock is ahead of ours, in seconds. Not worth a record, nor a
        notification: samples tell whoever listens."""
        node = self.inventory.nodes.get(name)
        if node is not None:
            node.load, node.clock_offset = load, clock_offset

    def reconcile(self, name: str, seen: list[Seen], now: float) -> None:
        """An agent said what it has. Adopt what runs, take over what ended, send again what cannot have been claimed,
        give up what may have been lost with the machine, and end what nobody owns."""
        if name not in self.inventory.nodes:
            return
        known = {attempt.launch_id: attempt for attempt in seen}
        for task_id in sorted(self.inventory.node_for_ledger(name).active):
            task = self.tasks[task_id]
            if task.launch is not None:
                self._reconcile_one(task, task.launch, known.pop(task.launch.launch_id, None), now)
        self._end_remnants(name, list(known.values()))

    def _end_remnants(self, name: str, unowned: list[Seen]) -> None:
        # What was given up may be alive, and on a GPU that is free in our books: nothing new before it is dead.
        node = self.inventory.nodes.get(name)
        if node is None:
            return  # its last task ended just now, and it was leaving
        node.remnants = {attempt.launch_id for attempt in unowned if attempt.exit is None}
        for attempt in unowned:
            self._effects.append((Ack if attempt.exit else Kill)(name, attempt.launch_id))
        self._tell_remnants(name)

    def _tell_remnants(self, name: str) -> None:
        node = self.inventory.nodes[name]
        left = len(node.remnants)
        text = f"{left} attempt{'s' if left > 1 else ''} that nobody owns any more must end first" if left else None
        self.cordon(name, "remnants", text)

    def _forget_remnant(self, name: str, launch_id: str) -> None:
        node = self.inventory.nodes.get(name)
        if node is not None and launch_id in node.remnants:
            node.remnants.discard(launch_id)
            self._tell_remnants(name)

    def stranger(self, name: str, facts: Facts) -> str | None:
        """Why what answers in a node's name cannot speak for the attempts that were started there; None if it can.

        Another state folder knows nothing of them. They are over if the machine restarted; if it did not, or if it is
        another machine (the address was changed in the registry), they may be alive and would be given up for nothing.
        """
        node = self.inventory.nodes.get(name)
        if node is None:
            return None
        launches = {task_id: self.tasks[task_id].launch for task_id in sorted(node.active)}
        alive: dict[int, Launch] = {
            task_id: launch
            for task_id, launch in launches.items()
            if launch is not None and _may_be_alive(launch, facts, node.spec.address)
        }
        if not alive:
            return None
        ids = ", ".join(map(str, list(alive)[:TOLD])) + ("…" if len(alive) > TOLD else "")
        address = next(iter(alive.values())).address
        cure = f"or give them up with `muster node lost {name}`"
        if address and address != node.spec.address:
            return (
                f"{node.spec.address} is not where tasks {ids} were started ({address}): put that back until they have "
                f"ended, {cure}"
            )
        return (
            f"its agent has another state folder than that in which tasks {ids} were started, and the machine has not "
            f"restarted since: put the folder back, {cure}"
        )

    def _reconcile_one(self, task: Task, launch: Launch, attempt: Seen | None, now: float) -> None:
        if attempt is not None and attempt.exit is not None:
            self.exited(launch.node, attempt.exit, now)
        elif attempt is not None:
            if attempt.started_at is not None:
                self.started(launch.node, launch.launch_id, attempt.started_at)
            if task.cancel_requested:
                self._effects.append(Kill(launch.node, launch.launch_id))
        elif not self._claim_would_be_there(launch):
            self._end(
                task,
                TaskState.LOST,
                now,
                f"node_rebooted: {launch.node} restarted, or its state folder was replaced, during the attempt",
            )
        elif task.state is not TaskState.STARTING:
            self._end(task, TaskState.LOST, now, f"the agent on {launch.node} has no record of it any more")
        elif task.cancel_requested:
            self._effects.append(Kill(launch.node, launch.launch_id))
        else:
            self._effects.append(Start(launch.node, task))

    def _claim_would_be_there(self, launch: Launch) -> bool:
        facts = self.inventory.nodes[launch.node].facts
        return facts is not None and (facts.boot_id, facts.state_id) == (launch.boot_id, launch.state_id)

    def started(self, node: str, launch_id: str, at: float) -> None:
        """The attempt runs. Told again after a reconnect: then nothing changes."""
        task = self._of_launch(node, launch_id)
        if task is not None and task.state is TaskState.STARTING:
            task.started_at = at
            self._move(task, TaskState.RUNNING)

    def exited(self, node: str, exit_: Exit, now: float) -> None:
        """The attempt is over and its tree is dead. An unknown one is only acknowledged."""
        task = self._of_launch(node, exit_.launch_id)
        if task is not None:
            state, reason = verdict(exit_)
            task.started_at = exit_.started_at if exit_.started_at is not None else task.started_at
            task.exit_code = exit_.code
            self._end(task, state, exit_.at or now, reason)
        else:
            self._forget_remnant(node, exit_.launch_id)
        self._effects.append(Ack(node, exit_.launch_id))

    def _of_launch(self, node: str, launch_id: str) -> Task | None:
        """The task of an attempt, for the node that it was sent to: no other has a word in it."""
        task_id = self._by_launch.get(launch_id)
        task = None if task_id is None else self.tasks[task_id]
        return task if task is not None and task.launch is not None and task.launch.node == node else None


def _may_be_alive(launch: Launch, facts: Facts, address: str) -> bool:
    """May an attempt run on although the agent that answers cannot know of it?"""
    if launch.state_id == facts.state_id:
        return False
    return launch.boot_id == facts.boot_id or bool(launch.address and launch.address != address)
