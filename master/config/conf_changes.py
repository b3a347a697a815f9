"""The effect of a changed conf.json on a running master: which settings apply at once, and which keys wait.

The settings of `master.config.settings`, which are all keys of `scheduler` and `limits`, can change while the master
runs. All else is read when it starts.
"""

from __future__ import annotations

from typing import Any

import msgspec

from master.config.config import Config
from master.config.settings import ROWS, SECTIONS

_KEYS = {
    "ports": "socket_info",
    "train_logs": "train_log_path",
    "server_log": "server_log_path",
    "registry": "slaver_file",
    "psw": "psw_file",
}
"""The keys of `Config`'s fields in conf.json, where they differ."""
_NO_KEYS = {*SECTIONS, "path", "said", "not_yet_used", "notify"}
_DERIVED = {"train_logs", "conda"}
"""Paths that follow from `root` where nobody says otherwise."""


def taken_over(running: Config, new: Config) -> Config:
    """The running configuration with the settings of the new one that can change at once."""
    sections = {section: getattr(new, section) for section in SECTIONS}
    said = (running.said - ROWS.keys()) | (new.said & ROWS.keys())
    return msgspec.structs.replace(running, **sections, said=said)


def changed_now(running: Config, new: Config) -> list[str]:
    """The settings that differ and can change at once, by name."""
    return [name for name, row in ROWS.items() if _value(running, row) != _value(new, row)]


def at_start(running: Config, new: Config) -> list[str]:
    """The keys that differ and that only the start of a master reads."""
    fields = [name for name in Config.__struct_fields__ if name not in _NO_KEYS]
    return [
        _KEYS.get(name, name)
        for name in fields
        if getattr(running, name) != getattr(new, name) and not _is_derived(name, running, new)
    ]


def _is_derived(name: str, running: Config, new: Config) -> bool:
    return name in _DERIVED and _KEYS.get(name, name) not in running.said | new.said


def _value(config: Config, row: Any) -> Any:
    return getattr(getattr(config, row.section), row.field)
