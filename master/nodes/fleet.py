"""All nodes and the links to them, following the registry while the master runs.

Owns which nodes have a link, and when a link is made anew: at once if nothing is lost by it, and after the node's last
task if its tasks would be left behind on another machine. The core decides what a node may get. Messages and questions
go to the agent of the account that they are for.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from master.config.ssh_accounts import SshAccount
from master.core.nodes.accounts import OWN
from master.core.nodes.inventory import Node, NodeState
from master.core.nodes.notes import SICK
from master.core.outcome import Move
from master.core.people.run_as import WouldBeRootError, account_on
from master.engine.engine import Engine
from master.nodes.agent_control import AgentControl
from master.nodes.askers import Askers
from master.nodes.host_keys import HostKeys
from master.nodes.leaving import LeavingNodes
from master.nodes.link_making import LinkMaker, set_cordon
from master.nodes.members import Member, Members
from master.nodes.questions import OUTPUT_LIMIT
from master.nodes.registry import NodeConfig
from wire import agent as wire
from wire.errors import NodeUnreachableError
from wire.message import Message

log = logging.getLogger("muster.fleet")

REACHED_BY = ("driver", "ip", "port", "user_name", "key_file", "host_key", "proxy", "python", "gpu_probe")
"""The keys of a node that say how to reach it, and what its agent receives first."""
MACHINE_KEYS = ("driver", "ip", "port", "user_name")
"""Those of them which, when they change, may lead to another machine, or to another state folder on it."""
CHANGING = "changing"
"""The kind of the cordon of a node that is to be reached in another way once its tasks have ended."""


class Fleet:
    """The links that `links` makes. `run_as_allowed`: as in `LaunchSettings`; `accounts`: those that users have on all
    nodes that are reached by SSH."""

    def __init__(
        self,
        engine: Engine,
        links: LinkMaker,
        *,
        leaving: LeavingNodes | None = None,
        run_as_allowed: Sequence[str | int] = (),
        accounts: Mapping[str, SshAccount] = MappingProxyType({}),
    ) -> None:
        self.configs: dict[str, NodeConfig] = {}
        self.registry_fault: Message | None = None
        self._engine = engine
        self._leaving = leaving
        self._run_as_allowed = tuple(run_as_allowed)
        self._accounts = accounts
        self._members = Members(engine, links, self._follow_renamed)
        self._sick: set[str] = set()
        self._gone: set[str] = set()
        """The members that are not in the registry any more."""
        self.failed = self._members.failed
        self._askers = Askers()
        self.agents = AgentControl(engine, self._members)
        self.host_keys = HostKeys(self._members)
        engine.observers.append(self)

    # -- the registry -----------------------------------------------------------------------------------------

    def apply(self, nodes: tuple[NodeConfig, ...]) -> None:
        """The registry says this now."""
        if self.registry_fault is not None:
            log.info("the registry can be read again")
            self.registry_fault = None
        nodes = tuple(node.with_accounts(self._accounts) for node in nodes)
        self.configs = {node.name: node for node in nodes}
        self._gone = self._members.names - self.configs.keys()
        self._engine.event(lambda: self._engine.core.set_nodes(tuple(node.spec() for node in nodes)))
        for name in self.configs.keys() | self._members.names:
            self._settle(name)
        for name, config in (self._leaving.entries if self._leaving else {}).items():
            if name in self._engine.core.inventory.nodes and self._members.get(name) is None:
                self._join(config)
        self._note_leaving()

    def refuse(self, fault: Message) -> None:
        """The registry is broken: the last good one stays in force."""
        if fault != self.registry_fault:
            log.error("the registry is not taken over: %s", fault)
            self.registry_fault = fault

    def published(self, _moves: Sequence[Move], nodes: set[str]) -> None:
        """Something changed on these nodes: perhaps a link that waited for it can be made anew, or given up."""
        for name in nodes:
            self._settle(name)
            self._log_sick(name)
        if nodes:
            self._note_leaving()

    def _log_sick(self, name: str) -> None:
        """Nodes that start nothing, and those that somebody returned: once each."""
        node = self._engine.core.inventory.nodes.get(name)
        why = node.cordons.get(SICK) if node is not None else None
        if why is not None and name not in self._sick:
            self._sick.add(name)
            log.warning("node %s: %s", name, why)
        elif why is None and name in self._sick:
            self._sick.discard(name)
            log.info("node %s: takes tasks again, as somebody says", name)

    def _settle(self, name: str) -> None:
        """Bring the link to a node in line with the registry, if that is possible now."""
        node = self._engine.core.inventory.nodes.get(name)
        config, member = self.configs.get(name), self._members.get(name)
        if node is None:
            if member is not None:
                self._part(name, retire=True)
        elif config is not None and member is None:
            self._join(config)
        elif config is not None and member is not None and (config != member.config or CHANGING in node.cordons):
            self._follow(node, config, member)
        if node is not None and (member := self._members.get(name)) is not None:
            member.settle_accounts()

    def _note_leaving(self) -> None:
        """Remember how to get to the nodes that left while tasks ran there, for the next master."""
        if self._leaving is not None:
            gone = (self._members.get(name) for name in sorted(self._gone))
            self._leaving.keep({member.config.name: member.config for member in gone if member is not None})

    def _follow(self, node: Node, config: NodeConfig, member: Member) -> None:
        changed = [key for key in REACHED_BY if getattr(config, key) != getattr(member.config, key)]
        leads_elsewhere = any(key in MACHINE_KEYS for key in changed)
        if leads_elsewhere and node.active and node.state is NodeState.ONLINE:
            set_cordon(self._engine, node.name, CHANGING, Message("changing", keys=tuple(changed)))
            return
        if leads_elsewhere:
            self._engine.event(lambda: self._engine.core.forget_facts(node.name))
        set_cordon(self._engine, node.name, CHANGING, None)
        if "gpu_probe" in changed:  # what was seen in the other way, or could not be, says nothing now
            self._engine.event(lambda: self._engine.core.gpus_unseen(node.name))
        if changed:
            self._part(node.name, retire=False)
            self._join(config)
        else:
            member.config = config

    def _join(self, config: NodeConfig) -> None:
        if config.name not in self.configs:
            self._gone.add(config.name)
        self._members.join(config)

    def _part(self, name: str, *, retire: bool) -> None:
        self._gone.discard(name)
        self._members.part(name, retire=retire)

    def _follow_renamed(self, config: NodeConfig, before: str) -> None:
        """This entry leads to the machine of another one. If that is not in the registry any more, and nobody has told
        us how to get there, this is the way to its tasks."""
        is_known = before in self.configs or self._members.get(before) is not None
        if not is_known and before in self._engine.core.inventory.nodes:
            log.info("node %s was renamed to %s: its tasks are followed there", before, config.name)
            self._join(msgspec.structs.replace(config, name=before))
            self._note_leaving()

    async def close(self) -> None:
        """Give all links up; the agents stay, for the next master."""
        if self in self._engine.observers:
            self._engine.observers.remove(self)
        await self._members.close()

    # -- messages ---------------------------------------------------------------------------------------------

    def send(self, name: str, message: wire.Launch | wire.Kill | wire.Pause | wire.Ack, login: str = OWN) -> None:
        """Take a message to a node, to the agent of this account there, if there is a link to it now."""
        member = self._members.get(name)
        link = None if member is None else member.link_now(login)
        if link is not None:
            link.send(message)

    async def probe(
        self,
        node: str,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        timeout_s: float = 10.0,
        output_limit: int = OUTPUT_LIMIT,
        run_as: str | None = None,
        asker: str = "",
    ) -> wire.Probed:
        """Run a short command on a node (see `Questions.ask`); `run_as`: as this account, where the agent can become
        others; `asker`: the user who asks, as the rates count them, "" for the master. Raises LimitError,
        NotFoundError, NodeUnreachableError."""
        login = self._engine.core.node(node).accounts.of_account(run_as)
        link = await self._members.of(node).link_of(login)

        def question() -> Awaitable[wire.Probed]:
            return link.questions.ask(
                argv,
                cwd=cwd,
                env=env,
                stdin=stdin,
                timeout_s=timeout_s,
                output_limit=output_limit,
                run_as=self._as_account(node, run_as) if login == OWN else None,
            )

        return await (self._askers.ask(node, asker, question) if asker else question())

    def _as_account(self, node: str, account: str | None) -> wire.RunAs | None:
        try:
            found = account_on(node, self._engine.core.node(node).facts, account)
        except WouldBeRootError as error:
            raise NodeUnreachableError(error.why) from None
        return None if found is None else wire.RunAs(run_as=found, run_as_allowed=list(self._run_as_allowed))
