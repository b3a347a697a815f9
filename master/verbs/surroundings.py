"""The parts of the running master that verbs use besides the engine: nodes, agents that dial in, files and logs. They
are named here by what a verb asks of them, so that a verb knows no driver and no link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from master.config.config import Config
from master.core.nodes.notes import Token
from master.core.people.run_as import RunAs
from master.files.service import Files
from master.helpers.acting import Acting
from master.loop.stalls import LoopTimes
from master.nodes.driver import OfferedKey
from master.nodes.registry import NodeConfig
from master.people.audit import AuditLog
from master.people.guesses import Guesses
from master.people.passwords import Passwords
from master.people.services import Services
from master.people.task_tokens import TaskTokens
from master.tls.policy import Tls
from master.verbs.about import About
from wire.agent import Probed
from wire.lab import Lab
from wire.message import Message

if TYPE_CHECKING:  # a start waits for neither
    from master.files.log_reader import LogReader
    from master.people.directory import Directory


class AgentControl(Protocol):
    """The agents of nodes as admins command them."""

    async def stop(self, name: str, by: str) -> None:
        """Let a node's agent end and stay away."""

    def start(self, name: str) -> None:
        """Undo `stop`."""

    async def restart(self, name: str) -> None:
        """End the agent and start it anew."""

    def version(self, name: str) -> str:
        """The agent that this master brings to the node."""

    def tokens_changed(self, name: str) -> None:
        """The tokens of a node whose agent dials in are others now."""


class HostKeys(Protocol):
    """The host keys of nodes."""

    async def offered(self, name: str) -> OfferedKey:
        """The key that the machine shows now. Raises BadRequestError where there is none, NodeUnreachableError."""

    async def known(self, name: str) -> str | None:
        """The fingerprint that we expect, None if we know none."""

    async def pin(self, name: str, key: OfferedKey) -> None:
        """Expect this key from now on. Raises OSError where it cannot be written down."""


class NodeLinks(Protocol):
    """The ways to the nodes; `configs`: the registry as it is followed."""

    @property
    def configs(self) -> Mapping[str, NodeConfig]:
        """Of each node its entry."""

    def apply(self, nodes: tuple[NodeConfig, ...]) -> None:
        """The registry is so from now on."""

    @property
    def agents(self) -> AgentControl:
        """The agents of the nodes."""

    @property
    def host_keys(self) -> HostKeys:
        """The host keys of the nodes."""

    async def probe(
        self,
        node: str,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        timeout_s: float = ...,
        output_limit: int = ...,
        run_as: str | None = ...,
        asker: str = ...,
    ) -> Probed:
        """Run a short command on a node, as an account of it, for who asks. Raises LimitError, NotFoundError,
        NodeUnreachableError."""


class Pack(Protocol):
    """A file with an agent."""

    @property
    def data(self) -> bytes:
        """All of it."""

    @property
    def checksum(self) -> str:
        """Its SHA-256 in hex."""


class AgentReports(Protocol):
    """Where agents dial in, and the archive that they run from."""

    version: str
    tls: Tls

    @property
    def archive(self) -> Pack:
        """The file that a machine fetches."""

    def tokens(self, node: str) -> tuple[Token, ...]:
        """Those that were made for the node, of now or of before."""


class Surroundings(Protocol):
    """The parts of the running master that verbs use."""

    @property
    def conda(self) -> str:
        """The lab's conda."""

    @property
    def root(self) -> str:
        """The folder with all visible folders."""

    @property
    def log_folder(self) -> str:
        """The folder of the tasks' logs."""

    @property
    def server_log(self) -> str:
        """The master's own log."""

    @property
    def news_log(self) -> str:
        """The log that desktop clients show."""

    @property
    def config(self) -> Config:
        """conf.json, with the changes that took effect."""

    @property
    def lab(self) -> Lab:
        """Which lab this is."""

    @property
    def files(self) -> Files:
        """The visible folders."""

    @property
    def acting(self) -> Acting:
        """Those who access files with the rights of a user."""

    @property
    def audit(self) -> AuditLog:
        """The audit log."""

    @property
    def passwords(self) -> Passwords:
        """How passwords are checked."""

    @property
    def guesses(self) -> Guesses:
        """The failed log-ins."""

    @property
    def directory(self) -> Directory | None:
        """The lab's directory, if it has one."""

    @property
    def services(self) -> Services:
        """The programs around the master."""

    @property
    def task_tokens(self) -> TaskTokens:
        """The tokens of tasks."""

    @property
    def logs(self) -> LogReader:
        """Reads logs for all clients."""

    @property
    def run_as(self) -> RunAs:
        """Which account somebody has on the nodes."""

    @property
    def fleet(self) -> NodeLinks:
        """The ways to the nodes."""

    @property
    def reports(self) -> AgentReports:
        """The agents that dial in."""

    def about(self) -> About:
        """Which master this is."""

    def loop_times(self) -> LoopTimes | None:
        """How long the turns of its loop take, where that is measured."""

    def failing_hooks(self) -> list[Message]:
        """Return what is wrong with the commands of hooks that do not hear of their events."""

    def stop(self) -> None:
        """End the master; tasks run on."""
