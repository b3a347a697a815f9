"""A master for which the Unix accounts of its machine are the users of the same name (`local_users`)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from master.callers.peer import Peer
from master.ports import port_server
from tests.master.in_process import InProcess
from tests.master.in_process import Peer as Caller


@asynccontextmanager
async def same_names(folder: Path, *users: dict[str, Any]) -> AsyncIterator[tuple[InProcess, Caller]]:
    """Yield the master, and a connection of the account that runs it, over which these users were added."""
    async with InProcess(folder) as master:
        owner = await master.peer()
        for user in users:
            await owner.call("user.add", **user)
        master.place.config = msgspec.structs.replace(master.place.config, local_users="same name")
        yield master, owner


def connects_as(patch: pytest.MonkeyPatch, uid: int) -> None:
    """Take each connection from now on for one of this account, on this machine."""
    patch.setattr(port_server, "identify", lambda _sock: Peer("127.0.0.1", is_here=True, uid=uid))
