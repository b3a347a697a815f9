"""The driver `report`: agents that dial in, because the master cannot reach their machines.

The server answers connections that begin with an `op` instead of a request: it gives out the authority's certificate
and the agent's archive, which are no secrets, and checks the token of an agent that reports. From then on the
connection belongs to the node's link, in the same conversation as over SSH: the driver of the node has been waiting for
it.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import Counter
from typing import Any

import msgspec

from master.core.core import Core
from master.core.nodes.inventory import TOLD, NodeState
from master.core.nodes.notes import Note, Token
from master.core.people.clock import RightsTime
from master.core.tasks.attempt import part_on
from master.drivers.agent_archive import Archive
from master.nodes.driver import CannotConnectError
from master.nodes.node_tokens import find
from master.people.tokens import redacted
from master.tls.policy import Tls
from wire.errors import ConfigError
from wire.framing import FrameError, encode, strict_loads
from wire.message import Message
from wire.pattern import Pattern

log = logging.getLogger("muster.report")

HELD_S = 10.0
"""An agent that reported is kept for so long for a link that is busy with what was before."""
TRANSFER_S = 300.0
"""How long fetching the archive may take."""
TRANSFERS = 64
"""So many may fetch it at a time: nobody knows who they are."""
TRANSFERS_OF_ONE = 16
"""So many of one address, on this machine of one account, or it would take the places of all others."""
_PLACE = Pattern(r"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):[0-9]{1,5}", re.ASCII)
FINAL = "token"
"""The refusal after which an agent ends; after any other it tries again."""


class Report(msgspec.Struct):
    """An agent's first line. `state_id` names its state folder, `boot_id` the run of its machine ("" from older
    agents), `version` the archive that it runs from; `stays`: it has tried to take over ours and cannot; `master`: the
    address that it dialled, HOST:PORT ("" from older agents)."""

    node: str
    token: str
    state_id: str
    version: str
    stays: bool = False
    boot_id: str = ""
    master: str = ""


class Call(asyncio.Protocol):
    """A connection of an agent, from its report until a link takes it. Until then nothing more is read from it."""

    def __init__(self, transport: asyncio.Transport, report: Report, token: Token) -> None:
        self.transport = transport
        self.who = (report.state_id, report.boot_id)
        self.token_id = token.id
        self.dialled = report.master if _PLACE.fullmatch(report.master) else ""

    def hand_over(self, protocol: asyncio.Protocol) -> None:
        """From here on it is `protocol`'s."""
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        self.transport.resume_reading()

    def put_out(self, why: str) -> None:
        """End the connection, and give its owner the reason."""
        self.transport.get_protocol().connection_lost(ConnectionAbortedError(why))
        self.transport.abort()


class ArchiveTransfer(asyncio.Protocol):
    """A connection over which a machine fetches the archive, and which it closes afterwards. Closing it here would
    be too early on a slow line: TLS waits for seconds only. One that is left open is cut."""

    def __init__(self, transport: asyncio.Transport, whence: str, all_: dict[ArchiveTransfer, None]) -> None:
        self.whence = whence
        self._transport = transport
        self._all = all_
        self._all[self] = None
        self._timer = asyncio.get_running_loop().call_later(TRANSFER_S, self.cut)
        transport.set_protocol(self)

    def cut(self) -> None:
        """End it, whether or not they have it."""
        self._all.pop(self, None)
        self._transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        """The machine has it, or gave up."""
        self._timer.cancel()
        self._all.pop(self, None)


class ReportDriver:
    """Waits for the agent of one node. Its absence begins when it was last heard; after `scheduler.report_stale_s`
    seconds, as the setting is then, the node is reported as unreachable, until the agent comes."""

    def __init__(self, node: str, server: ReportServer) -> None:
        self.version = server.version
        self.heard_at = time.monotonic()
        self._node = node
        self._server = server
        self._offer: Call | None = None
        self._current: Call | None = None
        self._came = asyncio.Event()
        self._is_stale = False
        self._timers: set[asyncio.TimerHandle] = set()
        server.drivers[node] = self

    # -- the link's side --------------------------------------------------------------------------------------

    async def connect(self, protocol: asyncio.Protocol) -> None:
        """Wait for the agent and give its connection to `protocol`. Raises CannotConnectError, once, when it has been
        away for too long; further calls wait for as long as it takes."""
        self._current = None
        while (call := self._take()) is None:
            stale_s = self._server.stale_s
            patience = None if self._is_stale else self.heard_at + stale_s - time.monotonic()
            self._came.clear()
            try:
                # Not wait_for, which in Python 3.11 forgets that it was cancelled when the agent comes just then.
                async with asyncio.timeout(patience):
                    await self._came.wait()
            except TimeoutError:
                self._is_stale = True
                raise CannotConnectError(Message("agent_not_heard", seconds=stale_s)) from None
        self._is_stale = False
        self._current = call
        call.hand_over(protocol)

    def settings_changed(self) -> None:
        """Have the link compute anew how long it waits for the agent."""
        self._came.set()

    def _take(self) -> Call | None:
        call, self._offer = self._offer, None
        return None if call is None or call.transport.is_closing() else call

    def sees_us_as(self) -> str:
        """Return the address of the master that the node's agent dialled, "" if it is not known."""
        return "" if self._current is None else self._current.dialled

    def away(self, heard_at: float) -> NodeState:
        """Return the state of the node while no agent has dialled in. `heard_at`: when it was last heard, in monotonic
        seconds."""
        self.heard_at = max(self.heard_at, heard_at)
        return NodeState.UNREACHABLE if self._is_stale else NodeState.CONNECTING

    async def close(self) -> None:
        """Nobody is waited for any more."""
        for timer in self._timers:
            timer.cancel()
        for call in (self._offer, self._current):
            if call is not None:
                call.transport.abort()
        if self._server.drivers.get(self._node) is self:
            del self._server.drivers[self._node]

    # -- the server's side ------------------------------------------------------------------------------------

    def objection(self, report: Report) -> str | None:
        """Why this agent may not take the place of the one that is connected; None if it may. Nor may one with a copy
        of its state folder; of a machine that restarted, the connection before is soon found to be dead."""
        who = (report.state_id, report.boot_id)
        for call in (self._current, self._offer):
            if call is not None and not call.transport.is_closing() and call.who != who:
                return f"another agent reports as node {self._node} just now, with the same token"
        return None

    def offer(self, call: Call) -> None:
        """An agent came. It takes the place of its own connection before, which must be dead."""
        for before in (self._current, self._offer):
            if before is not None:
                before.transport.abort()
        self._offer = call
        self._came.set()
        self._later(HELD_S, lambda: self._give_up(call))
        self.look_at_token()

    def _give_up(self, call: Call) -> None:
        if self._offer is call:
            self._offer = None
            call.transport.abort()

    def look_at_token(self) -> None:
        """Act on changed or expired tokens: end the connection of an agent whose token is no longer valid."""
        tokens = {token.id: token for token in self._server.tokens(self._node)}
        for call in (self._current, self._offer):
            if call is None or call.transport.is_closing():
                continue
            token = tokens.get(call.token_id)
            left = None if token is None or token.until is None else token.until - self._server.rights_now()
            if token is None or (left is not None and left <= 0):
                log.warning("node %s: its agent's token opens nothing any more: it is put out", self._node)
                call.put_out(f"its agent's token opens nothing any more; `muster node token {self._node}` makes one")
            elif left is not None:
                self._later(left, self.look_at_token)

    def _later(self, seconds: float, what: Any) -> None:
        def due() -> None:
            self._timers.discard(timer)
            what()

        timer = asyncio.get_running_loop().call_later(seconds, due)
        self._timers.add(timer)


class ReportServer:
    """Where all agents that dial in are received. `archive`: what they should run from: the sources, since nobody knows
    which Python a machine has; `cluster` names this lab: each has an agent of its own, should a machine belong to two.
    """

    def __init__(self, core: Core, tls: Tls, archive: Archive, cluster: str) -> None:
        self.drivers: dict[str, ReportDriver] = {}
        self.version = archive.version
        self.archive = archive.sources
        self.tls = tls
        self._core = core
        self._cluster = cluster
        self.transfers: dict[ArchiveTransfer, None] = {}
        """Those under way, the oldest first."""
        core.tuning.listeners.append(self._settings_changed)

    @property
    def stale_s(self) -> float:
        """After so long without a word a node is unreachable."""
        return self._core.settings.scheduler.report_stale_s

    def _settings_changed(self) -> None:
        for driver in self.drivers.values():
            driver.settings_changed()

    def tokens(self, node: str) -> tuple[Token, ...]:
        """Those that were made for the node, of now or of before."""
        return self._core.notes.get(node, Note()).tokens

    def rights_now(self) -> RightsTime:
        """The time by which tokens end."""
        return self._core.clock.saw(time.time())

    def receive(self, transport: asyncio.Transport, line: bytes, address: str, *, whence: str, is_plain: bool) -> None:
        """Answer the first line of a connection. Nothing may follow it before the answer. `whence`: with whose others
        it is counted."""
        transport.set_protocol(asyncio.Protocol())  # whatever else is said is not heard
        try:
            message = strict_loads(line.rstrip(b"\r\n"))
            op = message["op"]
            if not self.tls.is_on:
                self._refuse(transport, "plain", "this master speaks no TLS (conf.json: tls), so no agent can dial in")
            elif op == "authority":
                told = {"certificate": self.tls.authority(), "cluster": self._cluster}
                self._tell(transport, {"op": "authority", **told})
            elif op == "archive":
                self._give(transport, whence)
            elif op == "report" and is_plain:
                self._refuse(transport, "plain", "an agent must speak TLS")
            elif op == "report":
                self._report(transport, msgspec.convert(message, Report), address)
            else:
                self._refuse(transport, "unknown", f"nobody knows what {op!r:.40} means")
        except (FrameError, KeyError, TypeError, msgspec.ValidationError) as error:
            log.warning("%s said something unreadable instead of a report: %s", address, error)
            self._refuse(transport, "unreadable", f"not a report: {error}")
        except ConfigError as error:
            self._refuse(transport, "no_certificate", str(error))

    def _give(self, transport: asyncio.Transport, whence: str) -> None:
        """If several origins hold all places, end the oldest transfer of the one that has most of them."""
        of = Counter(transfer.whence for transfer in self.transfers)
        [(busiest, most)] = of.most_common(1) or [("", 0)]
        is_full = len(self.transfers) >= TRANSFERS
        if of[whence] >= TRANSFERS_OF_ONE or (is_full and most <= of[whence] + 1):
            self._refuse(transport, "busy", f"{of[whence] or len(self.transfers)} others fetch the archive just now")
            return
        if is_full:
            next(transfer for transfer in self.transfers if transfer.whence == busiest).cut()
        ArchiveTransfer(transport, whence, self.transfers)
        transport.write(self.archive.data)

    def _report(self, transport: asyncio.Transport, report: Report, address: str) -> None:
        token = find(self.tokens(report.node), report.token, self.rights_now())
        driver = self.drivers.get(report.node)
        if token is None:
            log.warning(
                "an agent at %s was refused: its token is not one of node %.80r", address, redacted(report.node)
            )
            self._refuse(transport, FINAL, f"this token is not, or no longer, one of a node {report.node!r:.80}")
            return
        if driver is None:
            # It may have left the registry by mistake, and then it comes back; `node rm` forgets its token.
            self._refuse(transport, "no_node", f"node {report.node} does not dial in, says the registry now")
        elif self._core.notes.get(report.node, Note()).stopped is not None:
            self._refuse(transport, "stopped", f"the agent was stopped: `muster agents start {report.node}`")
        elif report.version != self.version and not report.stays:
            size, sha256 = len(self.archive.data), self.archive.checksum
            self._tell(transport, {"op": "outdated", "version": self.version, "size": size, "sha256": sha256})
        elif (objection := driver.objection(report) or self._stranger(report)) is not None:
            log.warning("an agent at %s was refused: %s", address, objection)
            self._refuse(transport, "busy", objection)
        else:
            log.info("node %s: its agent dialled in from %s", report.node, address)
            transport.pause_reading()
            call = Call(transport, report, token)
            transport.set_protocol(call)
            transport.write(encode({"op": "reported", "version": self.version}))
            driver.offer(call)

    def _stranger(self, report: Report) -> str | None:
        """Why this cannot be the agent that has the node's tasks; None if it may be. There is no address by which to
        tell two machines apart that have one token, and what the other does not know would be given up for nothing."""
        node = self._core.inventory.nodes.get(report.node)
        tasks = [self._core.tasks[task_id] for task_id in sorted(node.active if node else ())]
        parts = {task.id: part_on(task.allocation, report.node) for task in tasks}
        there = [task_id for task_id, part in parts.items() if part and part.state_id != report.state_id]
        if not there:
            return None
        ids = ", ".join(map(str, there[:TOLD])) + ("…" if len(there) > TOLD else "")
        return (
            f"tasks {ids} of node {report.node} were started by an agent with another state folder: start that one, "
            f"or give them up with `muster node lost {report.node}`"
        )

    def _refuse(self, transport: asyncio.Transport, code: str, message: str) -> None:
        self._tell(transport, {"op": "refused", "code": code, "message": message, "final": code == FINAL})

    @staticmethod
    def _tell(transport: asyncio.Transport, message: dict[str, Any]) -> None:
        transport.write(encode(message))
        transport.close()
