"""One connection: what a client sends ahead of its answers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from master.desktop.session import DesktopSession
from tests.desktop.client import request
from tests.desktop.place import DesktopPlace, ThisMachine
from tests.desktop.test_fuzz import read
from tests.master.in_process import DATA, LIMITS, run
from tests.waiting import settled
from wire.agent import Probed


class Patient(ThisMachine):
    """Answers nothing until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = asyncio.Event()

    async def probe(self, *_what: Any, **_how: Any) -> Probed:
        """Wait, then fail."""
        await self.go_on.wait()
        return Probed(op="probed", probe_id="", code=1, output="?", truncated=False, error="")


def test_what_is_sent_ahead_is_left_with_who_sent_it_beyond_the_size_of_a_frame(tmp_path: Path) -> None:
    limits = msgspec.structs.replace(LIMITS, frame_bytes=1 << 20)
    size = limits.frame_bytes * 3 // 4
    large = request("save_file", {"path": "/data/x", "content": "A" * size})
    count = 12

    async def story() -> None:
        async with DesktopPlace(tmp_path, limits=limits) as master:
            machine = Patient()
            master.place.fleet = machine  # type: ignore[assignment]
            master.online()
            peer = await master.peer(DATA)
            peer.send(request("py_v", "plain") + count * large)
            await settled(lambda: any(isinstance(one, DesktopSession) for one in master.sessions()))
            session = next(one for one in master.sessions() if isinstance(one, DesktopSession))
            await settled(lambda: not session.transport.is_reading())
            assert len(session._waiting) * size < 2 * limits.frame_bytes
            machine.go_on.set()
            modes = [(await read(peer.reader) or {})["mode"] for _ in range(1 + count)]
            assert modes == ["ret_py_v"] + ["ret_save_file"] * count
            assert session.transport.is_reading()

    run(story())
