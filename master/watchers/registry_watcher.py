"""Noticing that gpu_slaver_info.json was changed. The meaning of a changed registry for the nodes is not known here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from master.edited_files import json_file
from master.nodes.registry import MISSING_CURE, TURN, NodeConfig, entries_of, parse_registry
from master.watchers.file_watcher import PACE, FileWatcher, Pace
from wire.message import Message

Nodes = tuple[NodeConfig, ...]


class RegistryWatcher(FileWatcher[Nodes]):
    """Tells of the nodes that the registry names."""

    name = "registry watch"

    def __init__(
        self,
        path: Path,
        loop: asyncio.AbstractEventLoop,
        on_nodes: Callable[[Nodes], None],
        on_fault: Callable[[Message], None],
        *,
        pace: Pace = PACE,
    ) -> None:
        super().__init__(path, loop, on_nodes, on_fault, pace=pace, turn=TURN)

    def read(self, path: Path) -> bytes:
        """As `FileWatcher`."""
        return json_file.read_bytes(path, cure=MISSING_CURE)

    def parse(self, data: bytes, path: Path) -> Nodes:
        """As `FileWatcher`."""
        return parse_registry(entries_of(data, path), path)
