"""A master in process with a registry on the disk, and a fleet that follows it to nodes that never answer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Self

from master.nodes.driver import OfferedKey
from master.nodes.registry import NodeConfig, load_registry
from tests.master.in_process import InProcess, Nowhere, Peer
from tests.waiting import settled
from wire.errors import NodeUnreachableError

A: dict[str, Any] = {"name": "a", "driver": "local", "gpu_count": 8}
SSH: dict[str, Any] = {"name": "远", "ip": "10.0.0.1", "user_name": "lab", "gpu_count": 2, "gpu_info": ["A100", "A100"]}
SHOWN = OfferedKey(type="ssh-ed25519", base64="AAAA", fingerprint="SHA256:" + "n" * 43)
OTHER = "SHA256:" + "o" * 43


class Waiting(Nowhere):
    """A driver that is for ever about to connect: what a test says of its node's state stays true."""

    async def connect(self, _protocol: asyncio.Protocol) -> None:
        await asyncio.Event().wait()


class Keyed(Waiting):
    """A driver to a machine with a host key. `known` is what we expect; a key that is None cannot be asked for."""

    shown: OfferedKey | None = SHOWN
    known: str | None = None
    disk_full = False

    async def offered_key(self) -> OfferedKey:
        if self.shown is None:
            raise NodeUnreachableError("connection refused")
        return self.shown

    def known_key(self) -> str | None:
        return self.known

    def pin(self, key: OfferedKey) -> None:
        if self.disk_full:
            raise OSError(28, "No space left on device", "known_hosts")
        self.known = key.fingerprint


class Lab(InProcess):
    """The master in process with a registry on the disk and the fleet that follows it."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.driver = Keyed()
        fleet = self.place.fleet
        self.make_driver = lambda node: self.driver if node.driver == "ssh" else Waiting()
        self.write(A)
        fleet.apply(load_registry(self.registry))
        return self

    @property
    def registry(self) -> Path:
        return self.place.config.registry

    def write(self, *entries: dict[str, Any]) -> None:
        self.registry.write_text(json.dumps(entries, ensure_ascii=False), encoding="utf-8")

    def in_file(self) -> list[str]:
        return [node.name for node in load_registry(self.registry)]

    def in_queue(self) -> list[str]:
        return list(self.core.inventory.nodes)

    def config(self, name: str) -> NodeConfig:
        return self.place.fleet.configs[name]

    async def busy(self, peer: Peer, gpus: int = 8) -> int:
        """Have a task on `a`; its id."""
        self.online()
        task_id: int = (await peer.call("task.submit", command="true", gpus=gpus))["id"]
        await settled(lambda: self.core.inventory.nodes["a"].active)
        return task_id
