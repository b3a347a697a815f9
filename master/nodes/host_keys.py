"""The host keys of nodes: the one that a machine shows, and the one that we expect of it. Verbs decide."""

from __future__ import annotations

import asyncio

from master.nodes.driver import KeyedDriver, OfferedKey
from master.nodes.members import Member, Members
from wire.errors import BadRequestError
from wire.message import Message


class HostKeys:
    """Of the nodes that have links. Each method raises NotFoundError, and BadRequestError for a node without one."""

    def __init__(self, members: Members) -> None:
        self._members = members

    async def offered(self, name: str) -> OfferedKey:
        """The key that the machine shows now. Raises NodeUnreachableError."""
        return await _keyed(self._members.of(name)).offered_key()

    async def known(self, name: str) -> str | None:
        """The fingerprint that we expect, None if we know none."""
        return await asyncio.to_thread(_keyed(self._members.of(name)).known_key)

    async def pin(self, name: str, key: OfferedKey) -> None:
        """Expect this key from now on, and try again, also for other nodes on that machine. Raises OSError where it
        cannot be written down."""
        member = self._members.of(name)
        await asyncio.to_thread(_keyed(member).pin, key)
        for other in self._members:
            if (other.config.ip, other.config.port) == (member.config.ip, member.config.port):
                other.wake()


def _keyed(member: Member) -> KeyedDriver:
    driver = member.link.driver
    if not isinstance(driver, KeyedDriver):
        raise BadRequestError(Message("driver_without_key", node=member.config.name, driver=member.config.driver))
    return driver
