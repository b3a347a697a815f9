"""The agents of nodes as admins command them: stopped, started, restarted, woken.

Owns that the last command counts. The core owns the effect of a stop on tasks.
"""

from __future__ import annotations

from master.engine.engine import Engine
from master.nodes.driver import AwaitedDriver
from master.nodes.members import Member, Members


class AgentControl:
    """Of the nodes that have links. Each method raises NotFoundError."""

    def __init__(self, engine: Engine, members: Members) -> None:
        self._engine = engine
        self._members = members

    def version(self, name: str) -> str:
        """The agent that this master brings to the node."""
        return self._members.of(name).link.driver.version

    def wake(self, name: str) -> None:
        """Try to connect now."""
        self._members.of(name).wake()

    async def stop(self, name: str, by: str) -> None:
        """Let a node's agent end and stay away; its tasks run on, and nothing new is started. Durable."""
        member = self._members.of(name)
        self._engine.event(lambda: self._engine.core.set_stopped(name, by))
        await self._retire(member)

    def start(self, name: str) -> None:
        """Undo `stop`; of a node whose agent was not stopped, try to connect now."""
        member = self._members.of(name)
        self._allow(name)
        if not member.turn.locked():  # else whoever lets it retire just now sees that it may run
            member.run()
            member.wake()

    async def restart(self, name: str) -> None:
        """End the agent and start it anew, also one that was stopped; its tasks run on."""
        member = self._members.of(name)
        self._allow(name)
        await self._retire(member)

    def _allow(self, name: str) -> None:
        if name in self._engine.core.notes:
            self._engine.event(lambda: self._engine.core.set_stopped(name, None))

    async def _retire(self, member: Member) -> None:
        """Have the agent end; then, unless somebody stopped it, the next one is started."""
        async with member.turn:
            await member.leave(retire=True)
            member.renew()
        if self._members.get(member.config.name) is member:
            member.begin()

    def tokens_changed(self, name: str) -> None:
        """The tokens of a node whose agent dials in are others now: one that came in with an old one is put out."""
        driver = self._members.of(name).link.driver
        if isinstance(driver, AwaitedDriver):
            driver.look_at_token()
