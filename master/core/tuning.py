"""The settings that hold now: those of conf.json, and those that admins set while the master runs, with who set them
and when.

Pure. Each setting that was set is a piece of the state (`setting/scheduler.reserve_after`) and outranks conf.json,
until it is taken back. A piece that this version does not know, or that its bounds refuse, is kept as it lies and does
not hold. Which settings there are is `master.config.settings`'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from master.config.settings import ROWS, Row, Settings, Value, checked, find
from master.core.outcome import Pending
from wire.errors import BadRequestError, NotFoundError

PIECE = "setting/"
"""How the pieces are named, before the setting's name."""


class Said(msgspec.Struct, frozen=True):
    """A value that somebody set, and when (seconds since the epoch)."""

    value: Any
    by: str
    at: float


class Tuning:
    """`settings`: what holds now; `said`: by name what was set at run time and holds; `refused`: by name what was set
    and does not, for this version does not take it; `listeners` are called when a value has changed. Callers that
    change something have checked the permission."""

    def __init__(self, conf: Settings, pending: Pending) -> None:
        self.settings = conf
        self.said: dict[str, Said] = {}
        self.refused: dict[str, str] = {}
        self.listeners: list[Callable[[], None]] = []
        self._conf = conf
        self._pending = pending

    def load(self, pieces: Mapping[str, msgspec.Raw]) -> None:
        """Take over what was written down. A setting that does not hold does no harm: another version may know it."""
        for piece, raw in pieces.items():
            if not piece.startswith(PIECE) or bytes(raw) == b"null":
                continue
            name = piece.removeprefix(PIECE)
            try:
                said = msgspec.json.decode(raw, type=Said)
                self._hold(find(name), checked(find(name), said.value))
            except (msgspec.MsgspecError, BadRequestError, NotFoundError) as error:
                self.refused[name] = str(error)
            else:
                self.said[name] = said

    def take(self, conf: Settings) -> None:
        """conf.json says this from now on. Settings that were set at run time still hold."""
        self._conf = conf
        for row in ROWS.values():
            if row.name not in self.said:
                self._hold(row, _value(conf, row))
        self._pending.plan_needed = True
        self._tell()

    def value(self, name: str) -> Value:
        """Return the value that holds now. Raises NotFoundError."""
        return _value(self.settings, find(name))

    def default(self, name: str) -> Value:
        """Return the value that holds where nothing was set: conf.json's value, or ours where it has none. Raises
        NotFoundError."""
        return _value(self._conf, find(name))

    def set(self, name: str, value: object, by: str, now: float) -> None:
        """Let this hold from now on, whatever conf.json says. Raises NotFoundError, BadRequestError."""
        row = find(name)
        taken = checked(row, value)
        self._hold(row, taken)
        said = self.said[name] = Said(taken, by, now)
        self._write(name, msgspec.json.encode(said))
        self._tell()

    def forget(self, name: str) -> None:
        """Let conf.json's value hold again, or our default; also of one that this version does not know. Raises
        NotFoundError."""
        if name not in self.refused or name in ROWS:
            row = find(name)
            self._hold(row, _value(self._conf, row))
        if name in self.said or name in self.refused:
            self.said.pop(name, None)
            self._write(name, b"null")
            self._tell()

    def _hold(self, row: Row, value: Value) -> None:
        section = msgspec.structs.replace(getattr(self.settings, row.section), **{row.field: value})
        self.settings = msgspec.structs.replace(self.settings, **{row.section: section})

    def _tell(self) -> None:
        for listener in self.listeners:
            listener()

    def _write(self, name: str, value: bytes) -> None:
        self.refused.pop(name, None)
        self._pending.piece(f"{PIECE}{name}", msgspec.Raw(value))
        self._pending.plan_needed = True


def _value(settings: Settings, row: Row) -> Value:
    value: Value = getattr(getattr(settings, row.section), row.field)
    return value
