"""The verbs about nodes and their agents, as methods: a part of `client.api.Client`, in a file of its own."""

from __future__ import annotations

from client.answers import clear_errors
from client.caller import Caller

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from client.shapes import (
        AgentsDone,
        Node,
        NodeAdded,
        NodeEdited,
        NodePage,
        NodeRemoved,
        Task,
        Trust,
        UnknownAttempt,
    )


@clear_errors
class NodeVerbs(Caller):
    """The calls of a Client about nodes."""

    def nodes(self) -> list[Node]:
        """All nodes, in the registry's order."""
        nodes: list[Node] = self.call("node.list", {})
        return nodes

    def node(self, name: str) -> NodePage:
        """One node."""
        node: NodePage = self.call("node.show", {"name": name})
        return node

    def add_node(self, entry: dict[str, Any]) -> NodeAdded:
        """Write an entry, with the keys that it has there, into the registry."""
        added: NodeAdded = self.call("node.add", {"node": entry}, repeatable=False)
        return added

    def edit_node(self, name: str, changes: dict[str, Any]) -> NodeEdited:
        """Change keys of a node's entry in the registry; None takes a key out."""
        edited: NodeEdited = self.call("node.edit", {"name": name, "changes": changes})
        return edited

    def remove_node(self, name: str) -> NodeRemoved:
        """Take a node out of the registry; a busy one goes when its last task has ended."""
        removed: NodeRemoved = self.call("node.remove", {"name": name}, repeatable=False)
        return removed

    def drain(self, name: str, reason: str = "", gpus: Iterable[int] | None = None) -> Node:
        """Let a node finish what it has and take nothing new; with `gpus` (indices) only these of its GPUs."""
        which = {} if gpus is None else {"gpus": list(gpus)}
        node: Node = self.call("node.drain", {"name": name, "reason": reason, **which})
        return node

    def resume_node(self, name: str, gpus: Iterable[int] | None = None, *, own_account: bool = False) -> Node:
        """Undo `drain`; with `gpus` (indices) return these to the queue, by whomever they were set aside. With
        `own_account` let everybody's tasks run again on a node whose tasks have the master's own account: refused while
        a user who is no admin may log in."""
        which: dict[str, Any] = {} if gpus is None else {"gpus": list(gpus)}
        if own_account:
            which["own_account"] = True
        node: Node = self.call("node.resume", {"name": name, **which}, repeatable=False)
        return node

    def doctor(self, names: Iterable[str] = ()) -> list[dict[str, Any]]:
        """Look closely at these nodes, or at all: for each `name`, `state`, `verdict` and `findings`, a list of
        {check, verdict, told, cure}. Takes up to half a minute."""
        examined: list[dict[str, Any]] = self.call("node.doctor", {"names": list(names)})
        return examined

    def trust(self, name: str, fingerprint: str | None = None) -> Trust:
        """The host key that a node's machine shows and the one we know; the first is pinned if it is `fingerprint`."""
        params = {"name": name} if fingerprint is None else {"name": name, "fingerprint": fingerprint}
        trust: Trust = self.call("node.trust", params)
        return trust

    def node_token(self, name: str, action: str = "make") -> dict[str, Any]:
        """`make` the token of a node whose agent dials in, `rotate` or `revoke` it. It is in `token`, this once;
        `master`, `authority` and `archive` are what the agent needs besides."""
        told: dict[str, Any] = self.call("node.token", {"name": name, "action": action}, repeatable=False)
        return told

    def give_up_node(self, name: str, *, account: str | None = None) -> list[int]:
        """End as lost what runs on a node that will not come back, or over one SSH account of it, by its name there;
        the ids."""
        only = {} if account is None else {"account": account}
        return list(self.call("node.lost", {"name": name, **only}, repeatable=False)["lost"])

    def unknown_attempts(self, name: str) -> list[UnknownAttempt]:
        """Return the attempts on a node whose records the lab lost, the oldest first."""
        attempts: list[UnknownAttempt] = self.call("node.attempts", {"name": name})
        return attempts

    def adopt_attempt(
        self,
        name: str,
        launch_id: str,
        gpus: Iterable[int] | None = None,
        *,
        owner: str | None = None,
        account: str | None = None,
    ) -> Task:
        """Make such an attempt a task again. `gpus` (indices): which it has, where nobody knows; `owner`: the user
        whose task it is; `account`: as which it runs, where agents of several accounts say that they have it."""
        params = _attempt(name, launch_id, account)
        params |= {} if gpus is None else {"gpus": list(gpus)}
        params |= {} if owner is None else {"owner": owner}
        task: Task = self.call("node.adopt", params, repeatable=False)
        return task

    def end_attempt(self, name: str, launch_id: str, *, account: str | None = None) -> UnknownAttempt:
        """Have such an attempt ended; it is listed until its node says that it is over. `account`: as for
        `adopt_attempt`."""
        attempt: UnknownAttempt = self.call("node.end_attempt", _attempt(name, launch_id, account))
        return attempt

    def dismiss_attempt(self, name: str, launch_id: str, *, account: str | None = None) -> UnknownAttempt:
        """Leave such an attempt alone, and let it hold no GPU but those on which it is seen to compute. `account`: as
        for `adopt_attempt`."""
        attempt: UnknownAttempt = self.call("node.dismiss_attempt", _attempt(name, launch_id, account))
        return attempt

    def stop_agents(self, nodes: Iterable[str] = ()) -> AgentsDone:
        """End the agents of these nodes, or of all, and let them stay away; tasks run on."""
        return self._agents("agent.stop", nodes)

    def start_agents(self, nodes: Iterable[str] = ()) -> AgentsDone:
        """Undo `stop_agents`; where nothing was stopped, try to connect now."""
        return self._agents("agent.start", nodes)

    def restart_agents(self, nodes: Iterable[str] = ()) -> AgentsDone:
        """End the agents and start them anew; tasks run on."""
        return self._agents("agent.restart", nodes, repeatable=False)

    def _agents(self, method: str, nodes: Iterable[str], *, repeatable: bool = True) -> AgentsDone:
        done: AgentsDone = self.call(method, {"nodes": list(nodes)}, repeatable=repeatable)
        return done


def _attempt(name: str, launch_id: str, account: str | None) -> dict[str, Any]:
    """Return the parameters that say which attempt is meant; older masters know no account."""
    return {"name": name, "launch_id": launch_id, **({} if account is None else {"account": account})}
