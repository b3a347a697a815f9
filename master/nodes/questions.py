"""Short questions to a node: sent as probes over its link, answered once each, or broken off with it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence

from master.core.attempts.agent_messages import Probed
from wire import agent as wire
from wire.errors import NodeUnreachableError
from wire.message import Message

ANSWER_BY_S = 5.0
"""The agent answers a probe when it times out; should even that not come, it is given up this much later."""
LOGIN_S = 8.0
"""So long it may take an agent to find out what a log-in of another account gives, before a probe as that begins."""
OUTPUT_LIMIT = 64 * 1024


class Questions:
    """The probes under way on one node. `send` takes a message for its agent and drops it while there is none."""

    def __init__(self, node: str, send: Callable[[wire.Probe], bool]) -> None:
        self._node = node
        self._send = send
        self._numbers = itertools.count(1)
        self._open: dict[str, tuple[asyncio.Future[wire.Probed], int]] = {}

    @property
    def are_open(self) -> bool:
        """Is an answer awaited?"""
        return bool(self._open)

    async def ask(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        timeout_s: float = 10.0,
        output_limit: int = OUTPUT_LIMIT,
        run_as: wire.RunAs | None = None,
    ) -> wire.Probed:
        """Run a command on the node and give what it printed. `run_as`: as another than the agent. Raises
        NodeUnreachableError when the node is not connected, or breaks off before it answers."""
        probe_id = f"q{next(self._numbers)}"
        future: asyncio.Future[wire.Probed] = asyncio.get_running_loop().create_future()
        message = wire.Probe(
            op="probe",
            probe_id=probe_id,
            argv=list(argv),
            cwd=cwd,
            env=dict(env or {}),
            stdin=stdin,
            timeout_s=timeout_s,
            output_limit=output_limit,
        )
        answer_by_s = timeout_s + ANSWER_BY_S
        if run_as is not None:
            message.update(run_as)  # type: ignore[typeddict-item]  # a probe has these keys
            answer_by_s += LOGIN_S
        if not self._send(message):
            raise NodeUnreachableError(Message("not_connected", node=self._node))
        self._open[probe_id] = future, output_limit
        try:
            async with asyncio.timeout(answer_by_s):
                return await future
        except TimeoutError:
            raise NodeUnreachableError(Message("node_did_not_answer", node=self._node, seconds=answer_by_s)) from None
        finally:
            self._open.pop(probe_id, None)

    def answered(self, said: Probed) -> None:
        """An answer came; one that nobody waits for any more is dropped."""
        future, output_limit = self._open.get(said.probe_id, (None, 0))
        if future is not None and not future.done():
            future.set_result(
                wire.Probed(
                    op="probed",
                    probe_id=said.probe_id,
                    code=said.code,
                    output=said.output[:output_limit],
                    truncated=said.truncated or len(said.output) > output_limit,
                    error=said.error,
                )
            )

    def break_off(self, why: Message) -> None:
        """The connection is gone, and with it the answers."""
        for future, _ in self._open.values():
            if not future.done():
                future.set_exception(NodeUnreachableError(Message("question_broken", node=self._node, said=why)))
