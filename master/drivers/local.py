"""The driver `local`: an agent on this machine, outliving the master, reached through a socket in its state folder.

The agent is started from the same archive that other machines get, by the same command; only the way to its socket is
shorter.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from pathlib import Path
from urllib.parse import quote

from master.drivers import bootstrap
from master.drivers.agent_archive import Archive
from master.nodes.driver import CannotConnectError
from wire.agent import agent_environment
from wire.message import Message

START_TIMEOUT_S = 20.0
USUAL_UMASK = 0o022
"""An agent begins with this, as over SSH: the shell in which the master was started says nothing of how tasks run. The
log-in of the account may set another one."""
LONGEST_NAME = 200
"""Bytes of a folder's name; file systems allow 255."""


def state_base() -> Path:
    """Where agents of this user keep their state: on this machine's own disk, never where cleaners empty it."""
    return Path(bootstrap.state_base())


def state_name(cluster: str, node: str) -> str:
    """Return the name of an agent's state folder, in ASCII. `cluster` keeps masters apart."""
    name = f"{cluster}-{quote(node, safe='')}"
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:LONGEST_NAME]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


class LocalDriver:
    """Connects to the agent of one node, starting it if nobody answers. `cluster` keeps masters apart."""

    def __init__(self, node: str, cluster: str, archive: Archive, base: Path) -> None:
        self.version = archive.version
        self._folder = base / state_name(cluster, node)
        self._archive = archive.compiled
        self._base = base

    async def connect(self, protocol: asyncio.Protocol) -> None:
        """Connect `protocol`. Raises CannotConnectError."""
        if await self._try(protocol):
            return
        await self._start()
        if not await self._try(protocol):
            raise CannotConnectError(Message("agent_not_answering", log=f"{self._folder}/agent.log"))

    async def close(self) -> None:
        """Nothing is left behind: the agent stays for the next master."""

    async def _try(self, protocol: asyncio.Protocol) -> bool:
        try:
            folder = os.open(self._folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            # The name of a socket may have 107 bytes; through the descriptor the folder's depth does not count.
            path = f"/proc/self/fd/{folder}/agent.sock"
            await asyncio.get_running_loop().create_unix_connection(lambda: protocol, path)
        except OSError:
            return False
        else:
            return True
        finally:
            os.close(folder)

    async def _start(self) -> None:
        try:
            await asyncio.to_thread(lambda: self._archive.checksum)  # the loop serves others while it is made
            archive = self._write_archive()
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", archive, "serve", "--state", str(self._folder)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                umask=USUAL_UMASK,
                env=agent_environment(os.environ),
            )
        except (OSError, bootstrap.RefusalError) as error:
            raise CannotConnectError(Message("agent_not_started", said=str(error))) from None
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                output, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            raise CannotConnectError(Message("agent_not_started_in_time", seconds=START_TIMEOUT_S)) from None
        if process.returncode:
            words = output.decode("utf-8", "replace").strip().splitlines()
            mute = Message("agent_not_started_mute")
            raise CannotConnectError(Message("agent_not_started", said=words[-1]) if words else mute)

    def _write_archive(self) -> str:
        bootstrap.make_base(str(self._base))
        data, checksum = self._archive.data, self._archive.checksum
        archive = bootstrap.path_of(str(self._base), checksum)
        if not bootstrap.has(archive, len(data), checksum):
            bootstrap.keep(archive, data)
        return archive
