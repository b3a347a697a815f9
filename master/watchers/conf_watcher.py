"""Noticing that conf.json was changed. `conf_changes` says which settings can change while the master runs."""

from __future__ import annotations

from pathlib import Path

from master.config.config import MISSING_CURE, Config, config_of
from master.edited_files import json_file
from master.edited_files.ownership import planted, user_name
from master.watchers.file_watcher import FileWatcher, Pace
from wire.file_fault import fault
from wire.message import Message

PACE = Pace(look=1.0)


class ConfWatcher(FileWatcher[Config]):
    """Tells of what conf.json says."""

    name = "conf watch"

    def read(self, path: Path) -> bytes:
        """As `FileWatcher`. A file that a stranger put there is none."""
        data = json_file.read_bytes(path, cure=MISSING_CURE)
        if (owner := planted(path)) is not None:
            raise fault(path, Message("conf_planted", owner=user_name(owner)))
        return data

    def parse(self, data: bytes, path: Path) -> Config:
        """As `FileWatcher`."""
        return config_of(json_file.parse(data, path), path)
