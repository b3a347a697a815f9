"""One node under the doctor: what is asked of it and of its machine, side by side, each within its time.

A node that is not connected is asked nothing that needs its agent; the state of its link is reported instead. `way`,
`machine`, `folders` and `gpus` turn answers into findings.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from master.config.config import Config
from master.core.core import Core
from master.core.nodes import gpu_models
from master.core.nodes.inventory import Node, NodeState
from master.doctor import accounts, folders, gpus, machine, scripts, way
from master.doctor.finding import (
    ACCOUNT,
    AGENT,
    CLOCK,
    CONDA,
    DISK,
    GPUS,
    HOST_KEY,
    LOG_IN,
    PYTHON,
    REACHABLE,
    SHARED_FOLDERS,
    START,
    Finding,
    completed,
    fault,
    heard,
    skipped,
)
from master.doctor.folders import Nonces, Seen
from master.drivers.ssh_socket import connect_blocking, where
from master.files.threads import Threads
from master.nodes import environments
from master.nodes.driver import CannotConnectError, OfferedKey
from master.nodes.registry import NodeConfig
from master.nodes.same_account import of_other_machines
from master.people import desktop_names
from master.secrets import log_rights
from wire.agent import Probed
from wire.errors import ConfigError, ConflictError, MusterError, NodeUnreachableError, NotFoundError
from wire.message import Message

T = TypeVar("T")

PROBES_AT_A_TIME = 8
"""Of one node, so that one that hangs keeps none from being asked."""
TCP_S = 3.0
KEY_S = 6.0
MACHINE_S, GPUS_S, CONDA_S, FOLDER_S, START_S, REMOVE_S = 6.0, 8.0, 15.0, 8.0, 8.0, 3.0
ACCOUNT_S = 12.0
LATE_S = 3.0
"""The agent answers a probe when its time is over and it was killed, for which it gives it a second; so much later we
stop waiting for the answer."""
_OUR_OWN, _DIALS_IN = Message("doctor_own_machine"), Message("doctor_dials_in")


class Agents(Protocol):
    """The agents of the nodes, as far as the doctor asks (`master.nodes.agent_control`)."""

    def version(self, name: str) -> str:
        """The agent that this master brings to the node."""


class HostKeys(Protocol):
    """The host keys of the nodes, as far as the doctor asks (`master.nodes.host_keys`)."""

    async def offered(self, name: str) -> OfferedKey:
        """The key that the machine shows now. Raises BadRequestError where there is none, NodeUnreachableError."""

    async def known(self, name: str) -> str | None:
        """The fingerprint that we expect, None if we know none."""


class Links(Protocol):
    """The ways to the nodes, as far as the doctor goes them (`master.nodes.fleet`)."""

    @property
    def configs(self) -> Mapping[str, NodeConfig]:
        """Of each node its entry in the registry."""

    @property
    def agents(self) -> Agents:
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
        run_as: str | None = ...,
    ) -> Probed:
        """Run a short command on a node. Raises NotFoundError, NodeUnreachableError."""


class Lab(msgspec.Struct, frozen=True):
    """Everything that the doctor may look at. `account`: the caller's, on the nodes; `acts`: the master touches files
    and logs with the rights of their owners; `ids_fault`: why the master cannot write the file `ids` of its queue, None
    if it can."""

    core: Core
    fleet: Links
    config: Config
    account: str | None = None
    acts: bool = False
    ids_fault: Message | None = None


class Round(msgspec.Struct, frozen=True):
    """One call of the doctor. `end`: the loop's time by which all findings are complete."""

    lab: Lab
    nonces: Nonces
    threads: Threads
    end: float


def online(node: Node | None) -> bool:
    """Is it connected?"""
    return node is not None and node.state is NodeState.ONLINE


class Examination:
    """One node. `number`: what its files in the shared folders go by."""

    def __init__(self, this: Round, config: NodeConfig, node: Node, number: int) -> None:
        self._this = this
        self._config = config
        self._node = node
        self._number = number
        self._fleet = this.lab.fleet
        self._probes = asyncio.Semaphore(PROBES_AT_A_TIME)
        self._silence: Message | None = None
        """Why the agent does not answer."""
        self._unreached: Message | None = None
        """Why no connection could be made."""
        self._broken: list[str] = []
        """The folders that are not what the master has there."""
        self._python = sys.executable if config.traits.has_our_account else config.python

    async def run(self) -> list[Finding]:
        """Every check."""
        if self._node.state is not NodeState.ONLINE:
            return completed(await self._from_outside(), Message("doctor_not_asked"))
        parts = await asyncio.gather(
            self._in_time(REACHABLE, self._way()),
            self._in_time(CLOCK, self._machine()),
            self._in_time(ACCOUNT, self._accounts()),
            self._in_time(SHARED_FOLDERS, self._folders()),
            self._in_time(CONDA, self._conda()),
            self._in_time(GPUS, self._gpus()),
            self._in_time(START, self._start()),
            self._in_time(ACCOUNT, self._log_readers()),
            self._in_time(ACCOUNT, self._desktop_names()),
            self._in_time(CLOCK, self._masters_clock()),
            self._in_time(DISK, self._masters_ids()),
        )
        found = [finding for part in parts for finding in part]
        if any(one.check == PYTHON and one.verdict == "fault" for one in found):
            found = self._without_python(found)
        schedulable = self._node.spec.schedulable
        found += machine.takes_tasks(self._node.name, self._node.cordons, schedulable=schedulable)
        if self._silence:
            found = self._without_agent(found)
        return completed(map(self._unless_consequence, found), Message("doctor_not_reached"))

    def _without_agent(self, found: list[Finding]) -> list[Finding]:
        """The agent does not answer: told for all that was asked of it, unless the machine itself is away."""
        if self._unreached:
            away = way.reached(self._config, None, self._unreached, NodeState.UNREACHABLE)
            return [away, *(one for one in found if one.check not in (REACHABLE, AGENT))]
        return [machine.silent(AGENT, self._silence or ""), *(one for one in found if one.check != AGENT)]

    def _without_python(self, found: list[Finding]) -> list[Finding]:
        """The folders were asked for with the Python that does not run: of them nothing is known."""
        self._broken = []
        blind = skipped(SHARED_FOLDERS, Message("doctor_blind", check=PYTHON))
        return [blind, *(one for one in found if one.check != SHARED_FOLDERS or one.verdict != "fault")]

    async def _in_time(self, check: str, step: Coroutine[Any, Any, list[Finding]]) -> list[Finding]:
        """Return the findings of a step. A step that does not end in time has that as its finding; an agent that does
        not answer is reported once for all steps."""
        try:
            async with asyncio.timeout_at(self._this.end):
                return await step
        except TimeoutError:
            return [machine.silent(check, Message("doctor_no_answer"))]
        except (NodeUnreachableError, NotFoundError) as error:
            self._silence = heard(error)
            return []

    def _unless_consequence(self, finding: Finding) -> Finding:
        """A shared folder that is missing is one fault, whatever else fails for lack of it."""
        config = self._this.lab.config
        needed = {CONDA: [config.conda], START: [config.root, config.train_logs]}.get(finding.check, [])
        missing = [folder for folder in self._broken if any(path.is_relative_to(folder) for path in needed)]
        if finding.verdict != "fault" or not missing:
            return finding
        return skipped(finding.check, Message("doctor_needs_folder", folder=missing[0], check=SHARED_FOLDERS))

    # -- from outside -----------------------------------------------------------------------------------------

    async def _from_outside(self) -> list[Finding]:
        """A node that cannot be asked: what can be seen from here, and what its link says."""
        config, node = self._config, self._node
        found = await self._in_time(REACHABLE, self._way())
        why = way.by_link(config, node.state, node.link_says)
        # A result of this run is newer than what the link says of the same check.
        tried = {finding.check for finding in found if finding.verdict == "fault"}
        if why.check in tried or (tried and node.state is NodeState.CONNECTING):
            return found
        return [*(one for one in found if one.check != why.check), why]

    async def _way(self) -> list[Finding]:
        if not self._config.traits.is_over_ssh:
            why = _OUR_OWN if self._config.traits.is_this_machine else _DIALS_IN
            return [skipped(check, why) for check in (REACHABLE, HOST_KEY, *([LOG_IN] if online(self._node) else []))]
        came = await self._connect()
        if isinstance(came, Message):
            self._unreached = came
            found = [way.reached(self._config, None, came, self._node.state)]
            found.append(skipped(HOST_KEY, Message("doctor_key_hidden")))
        else:
            found = [way.reached(self._config, came, "", self._node.state), await self._host_key()]
        if online(self._node):
            found.append(way.logged_in(self._config))
        return found

    async def _connect(self) -> float | Message:
        """How long a connection takes (seconds), or why there is none."""
        config = self._config
        began = time.monotonic()
        try:
            async with asyncio.timeout(TCP_S):
                await self._this.threads.call(f"the way to {config.name}", lambda _: connect_blocking(config).close())
        except TimeoutError:
            return Message("doctor_silent_port", where=where(config), seconds=TCP_S)
        except CannotConnectError as error:
            return error.why
        except MusterError as error:
            return heard(error)
        return time.monotonic() - began

    async def _host_key(self) -> Finding:
        config = self._config
        try:
            known = await self._fleet.host_keys.known(config.name)
            async with asyncio.timeout(KEY_S):
                return way.host_key(config, await self._fleet.host_keys.offered(config.name), known)
        except TimeoutError:
            return way.no_host_key(Message("doctor_no_key", where=where(config), seconds=KEY_S))
        except ConfigError as error:
            return fault(HOST_KEY, heard(error), Message("do_mend_file"))
        except MusterError as error:
            return way.no_host_key(heard(error))

    # -- through the agent ------------------------------------------------------------------------------------

    async def _ask(
        self,
        argv: list[str],
        limit_s: float,
        *,
        stdin: str = "",
        cwd: str = "/",
        env: Mapping[str, str] | None = None,
        run_as: str | None = None,
    ) -> Probed:
        """Raises NodeUnreachableError."""
        async with self._probes:
            try:
                async with asyncio.timeout(limit_s + LATE_S):
                    return await self._fleet.probe(
                        self._node.name, argv, cwd=cwd, env=env, stdin=stdin, timeout_s=limit_s, run_as=run_as
                    )
            except TimeoutError:
                raise NodeUnreachableError(Message("doctor_agent_late", seconds=limit_s + LATE_S)) from None

    async def _machine(self) -> list[Finding]:
        """The answer of one script: Python, agent, clock and disks."""
        facts = self._node.facts
        if facts is None:
            return [machine.silent(AGENT, Message("doctor_no_facts"))]
        paths = ["/tmp"]  # noqa: S108  (its room is what is asked for)
        if self._config.traits.shares_our_files:  # elsewhere root may hang, and is asked for apart
            paths.append(str(self._this.lab.config.root))
        argv, stdin = scripts.python_question(self._python, scripts.MACHINE, {"paths": paths, "users": self._owners()})
        asked_at = time.time()
        probed = await self._ask(argv, MACHINE_S, stdin=stdin)
        answered_at = time.time()
        told = scripts.answer_of(probed, scripts.MachineTold)
        if told is None:
            why = Message("doctor_python_fails", python=self._python, said=heard(scripts.complaint(probed)))
            return [machine.silent(PYTHON, why), self._agent(facts.version, None)]
        return [
            machine.python(facts.python),
            self._agent(facts.version, told.age),
            *machine.changed_id(self._this.lab.core.late_machine(self._node.name)),
            *([] if self._config.accounts else [machine.account(facts)]),
            *machine.no_accounts(told.strangers),
            *self._own_account(),
            *machine.files(facts, acts=self._this.lab.acts, is_shared=self._this.lab.core.people.is_shared),
            machine.environment(self._config, facts.login_fault),
            machine.clock(asked_at, told.now, answered_at),
            *machine.disks(told.disks),
        ]

    def _owners(self) -> list[str]:
        """The users who need an account there, because tasks run as their owners."""
        facts = self._node.facts
        if facts is None or not facts.can_run_as:
            return []
        return accounts.owners(self._this.lab.core.people, time.time())

    def _own_account(self) -> list[Finding]:
        fence, node = self._this.lab.core.own_account, self._node
        _, users = fence.kept_out(time.time())
        return machine.own_account(node.restriction, is_opened=fence.is_opened(node.name), keeps_out=users)

    async def _accounts(self) -> list[Finding]:
        """Whether something can be started over each of the accounts; what has no agent yet is given one."""
        named = self._config.accounts or {}
        told = await _all_settled([self._trouble(owner) for owner in named])
        troubles = {owner: why for owner, why in zip(named, told, strict=True) if why is not None}
        silent = self._this.lab.core.silent_accounts(self._node.name)
        agents = self._node.accounts.agents
        shells = {login: one.facts.login_fault for login, one in agents.items() if one.facts is not None}
        found = accounts.accounts(self._node.name, named, troubles, silent)
        cordoned = {login: self._node.accounts.why_cordoned(login) for login in self._node.accounts.cordons}
        closed = accounts.closed(self._node.name, {login: why for login, why in cordoned.items() if why is not None})
        return [*found, *closed, *accounts.environments(self._node.name, shells)]

    async def _log_readers(self) -> list[Finding]:
        """Of the master's own machine, and so told with one node only."""
        config = self._this.lab.config
        if self._number > 0 or not of_other_machines(config.desktop_client):
            return []
        try:
            found = await self._this.threads.call("accounts of this machine", lambda _: log_rights.readers(config))
        except (OSError, KeyError, MusterError):
            return []  # other checks report that the folder is missing
        return [machine.log_readers(found)]

    async def _desktop_names(self) -> list[Finding]:
        """Which names of conf.json are closed to desktop clients: told with one node only."""
        lab = self._this.lab
        found = desktop_names.closed(lab.config.desktop_client, lab.core.people) if self._number == 0 else []
        return [machine.closed_name(why) for why in found]

    async def _masters_clock(self) -> list[Finding]:
        """Return what is wrong with the master's own clock; only the first node's findings contain it."""
        found = self._this.lab.core.clock.troubles(time.time()) if self._number == 0 else []
        return [machine.masters_clock(why) for why in found]

    async def _masters_ids(self) -> list[Finding]:
        """Whether the master can write down how far its journal goes: told with one node only."""
        fault = self._this.lab.ids_fault if self._number == 0 else None
        return [] if fault is None else [machine.masters_ids(fault)]

    async def _trouble(self, owner: str) -> Message | None:
        """Why nothing can be run over this user's account; None if something can."""
        try:
            probed = await self._ask(["true"], ACCOUNT_S, run_as=owner)
        except (NodeUnreachableError, NotFoundError) as error:
            return heard(error)
        return None if probed["code"] == 0 else heard(scripts.complaint(probed))

    def _agent(self, version: str, age_s: float | None) -> Finding:
        ours = self._fleet.agents.version(self._node.name)
        return machine.agent(self._config, version, ours, age_s)

    async def _conda(self) -> list[Finding]:
        prefix = str(self._this.lab.config.conda)
        if prefix not in self._this.nonces.refused:
            return [machine.no_conda(prefix)]
        if not await self._this.nonces.holds(prefix, machine.SIGNS_OF_CONDA):
            return [machine.only_venvs(prefix)]
        facts = self._node.facts
        account = self._this.lab.account if facts is not None and facts.can_run_as else None
        if account is None and facts is not None and facts.can_run_as:
            return [machine.no_conda_as_root()]
        if self._this.lab.core.people.is_shared and self._would_be_admin():
            return [machine.no_conda_as_admin()]
        argv = environments.question(environments.BASE, "python", prefix)
        probed = await self._ask(argv, CONDA_S, env=self._this.lab.config.task_env, run_as=account)
        try:
            told = environments.read_answer(environments.BASE, self._node.name, probed, environments.Python)
        except (NotFoundError, ConflictError, NodeUnreachableError) as error:
            return [machine.no_base(self._node.name, prefix, heard(error))]
        return [machine.conda(prefix, told.version)]

    def _would_be_admin(self) -> bool:
        """Would what the agent runs as itself be root, although it can become nobody else, or who runs the master?"""
        facts = self._node.facts
        is_root = facts is not None and facts.is_root and not facts.can_run_as
        return is_root or self._node.restriction is not None

    async def _gpus(self) -> list[Finding]:
        node = self._node
        known = gpus.KnownGpus(
            models=node.spec.gpu_models,
            declared=self._config.gpu_probe == "declared",
            seen=len(node.watch.newest),
            aside=node.aside,
            kept_back={**node.kept_back, **node.left},
            mismatch=gpu_models.mismatch(node.spec.gpu_models, node.watch.newest),
        )
        smi = gpus.Smi()
        if not known.declared:
            smi = gpus.read_smi(await self._ask(gpus.SMI, GPUS_S))
        return gpus.gpus(node.name, known, smi)

    async def _start(self) -> list[Finding]:
        config = self._this.lab.config
        argv = ["/bin/bash", "-c", scripts.START, "bash", str(config.train_logs)]
        env = {**config.task_env, "CUDA_VISIBLE_DEVICES": "", "MUSTER_NODE": self._node.name}
        probed = await self._ask(argv, START_S, cwd=str(config.root), env=env)
        return [machine.start(str(config.root), str(config.train_logs), self._config.user_name, probed)]

    # -- shared folders ---------------------------------------------------------------------------------------

    async def _folders(self) -> list[Finding]:
        if self._config.traits.shares_our_files:
            return [skipped(SHARED_FOLDERS, _OUR_OWN)]
        written: list[str] = []
        try:
            seen = await _all_settled([self._folder(folder, written) for folder in self._this.nonces.refused])
        finally:
            await self._remove(written)
        self._broken = folders.broken(self._this.nonces.run, seen)
        config = self._this.lab.config
        absent = [one for one in config.shared_folders if one not in self._this.nonces.refused]
        root = str(config.root)
        room = [one.answer.disk for one in seen if one.folder == root and one.answer and one.answer.disk]
        return [
            *folders.shared(self._this.nonces.run, seen, self._config.user_name),
            *folders.absent(one for one in absent if one != str(config.conda)),
            *machine.disks(room),
        ]

    async def _folder(self, folder: str, written: list[str]) -> Seen:
        """One folder from both sides; what the node may have written into it is noted in `written`."""
        nonces = self._this.nonces
        refused, mine = nonces.refused[folder], nonces.name_there(self._number)
        words = {
            "folder": folder,
            "theirs": "" if refused else nonces.name,
            "mine": mine,
            "text": nonces.run,
            "patience_s": folders.PATIENCE_S,
        }
        argv, stdin = scripts.python_question(self._python, scripts.FOLDER, words)
        written.append(f"{folder}/{mine}")
        probed = await self._ask(argv, FOLDER_S, stdin=stdin)
        answer = scripts.answer_of(probed, scripts.FolderTold)
        if answer is None:
            return Seen(folder=folder, refused=refused, answer=None, silence=scripts.complaint(probed))
        if not answer.wrote:
            written.remove(f"{folder}/{mine}")
            return Seen(folder=folder, refused=refused, answer=answer)
        back = await nonces.back(folder, self._number)
        return Seen(folder=folder, refused=refused, answer=answer, back=back)

    async def _remove(self, paths: list[str]) -> None:
        """Let the node remove its files; where it cannot any more, the master tries at the end."""
        if not paths:
            return
        removed = False
        try:
            removed = (await self._ask([*scripts.REMOVE, *paths], REMOVE_S))["code"] == 0
        except (NodeUnreachableError, NotFoundError):
            pass  # the connection broke: the agent has ended our questions, and what they wrote is for the master
        finally:
            if not removed:
                self._this.nonces.left.update(paths)


async def _all_settled(steps: list[Coroutine[Any, Any, T]]) -> list[T]:
    """Wait for all of them, then give what they gave, or raise what one of them raised."""
    tasks = [asyncio.ensure_future(step) for step in steps]
    await asyncio.gather(*tasks, return_exceptions=True)
    return [task.result() for task in tasks]
