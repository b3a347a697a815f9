"""A frame of a gigabyte: what the master allocates before it refuses it, measured."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tracemalloc
from pathlib import Path

import msgspec
import pytest

from tests import rights
from tests.desktop.place import DesktopPlace
from tests.master.in_process import LIMITS, run
from tests.waiting import settled

NOBODY = 65534
GIB, MIB = 1 << 30, 1 << 20
CALLER = """
import encodings.idna, os, socket, sys
if int(sys.argv[2]):
    os.setuid(int(sys.argv[2]))
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60) as caller:
    begin, sent = sys.argv[3].encode(), 0
    try:
        caller.sendall(begin)
        while sent < 1 << 30:
            sent += caller.send(b"x" * 65536)
    except OSError:
        pass
print(sent)
"""
"""Sends a frame of a gigabyte for as long as anybody takes it; says how much was taken."""
BEGINNINGS = {
    "ours": '{"jsonrpc":"2.0","id":1,"method":"task.submit","params":{"command":"',
    "the desktop client's": '{"mode":"save_file","ui":"main","info":"',
    "HTTP's": "POST /",
    "nobody's": "xxxx",
}


async def _send(port: int, uid: int, beginning: str) -> int:
    words = [sys.executable, "-c", CALLER, str(port), str(uid), beginning]
    caller = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
    told, _ = await caller.communicate()
    return int(told)


@pytest.mark.parametrize("beginning", BEGINNINGS.values(), ids=list(BEGINNINGS))
def test_of_a_gigabyte_that_a_stranger_sends_nothing_is_kept(tmp_path: Path, beginning: str) -> None:
    if rights.outer_uid() == 0:
        rights.need_users()

    async def story() -> None:
        async with DesktopPlace(tmp_path) as master:
            await _send(master.address()[1], NOBODY, "{}\n")  # what is loaded and made once
            await settled(lambda: not master.port_server.connections)
            tracemalloc.start()
            before, _ = tracemalloc.get_traced_memory()
            taken = [await _send(master.address(port)[1], NOBODY, beginning) for port in master.servers]
            await settled(lambda: not master.port_server.connections)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak - before < MIB
            assert max(taken) < GIB // 8, "the kernel's buffers, and no more"

    run(story())


@pytest.mark.parametrize("beginning", BEGINNINGS.values(), ids=list(BEGINNINGS))
def test_of_one_that_the_owner_sends_no_more_is_kept_than_a_frame_may_have(tmp_path: Path, beginning: str) -> None:
    limits = msgspec.structs.replace(LIMITS, frame_bytes=2 * MIB)
    begins_well = beginning.startswith("{")

    async def story() -> None:
        async with DesktopPlace(tmp_path, limits=limits) as master:
            await _send(master.address()[1], 0, "{}\n")
            await settled(lambda: not master.port_server.connections)
            tracemalloc.start()
            before, _ = tracemalloc.get_traced_memory()
            taken = await _send(master.address()[1], 0, beginning)
            await settled(lambda: not master.port_server.connections)
            after, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak - before < (3 * limits.frame_bytes if begins_well else MIB), "whole, and as it is put together"
            assert after - before < MIB
            assert taken < GIB // 8

    run(story())
