"""The registry's entries of nodes that left it while tasks ran there, so that the next master finds its way there, too.

They are in a file of its own beside the queues, for its owner only: an entry may hold the password of a proxy, which
must not be in the journal. Unreadable entries are logged and left out; an admin can then use `muster node lost`.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from master.nodes.registry import NodeConfig

log = logging.getLogger("muster.fleet")


class LeavingNodes:
    """The entries by name, kept in `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.entries: dict[str, NodeConfig] = _read(path)

    def keep(self, entries: Mapping[str, NodeConfig]) -> None:
        """Record that these nodes, and no others, are leaving. A file that cannot be written is logged; nothing else
        depends on it."""
        if dict(entries) == self.entries:
            return
        self.entries = dict(entries)
        draft = self._path.with_name(self._path.name + ".tmp")
        try:
            fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(json.dumps(msgspec.to_builtins(self.entries), ensure_ascii=False, indent=1).encode() + b"\n")
                os.fsync(fd)
            draft.replace(self._path)
        except OSError as error:
            log.warning("%s cannot be written: %s", self._path, error.strerror)


def _read(path: Path) -> dict[str, NodeConfig]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, NodeConfig])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        log.warning("%s is left out: %s", path, error)
        return {}
