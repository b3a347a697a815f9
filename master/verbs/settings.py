"""The verbs about settings: what is set, and what admins set while the master runs."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from master.config.settings import ROWS, Row, Unit
from master.verbs.base import Context
from wire.errors import BadRequestError
from wire.message import Message

Number = int | float  # for JSON the two differ
Name = Annotated[str, Meta(min_length=1, max_length=100, examples=list(ROWS))]


class ListSettings(msgspec.Struct, forbid_unknown_fields=True):
    """setting.list: only that of this `name`, if one is given."""

    name: Name | None = None


class SetSetting(msgspec.Struct, forbid_unknown_fields=True):
    """setting.set: `value` is a number in the setting's unit (seconds, bytes, a share from 0 to 1), a word, or null for
    none."""

    name: Name
    value: Annotated[Number | str | None, Meta(examples=[3600])]


class OneSetting(msgspec.Struct, forbid_unknown_fields=True):
    """A setting by its name."""

    name: Name


class SettingRange(msgspec.Struct, frozen=True):
    """The allowed values of a setting: a number between `least` and `most`, or one of `words`; and whether it may be
    none."""

    least: Number | None
    most: Number | None
    words: list[str]
    none: bool


class SettingView(msgspec.Struct, frozen=True):
    """A setting. `value` holds now; `default` holds where nothing was set: what conf.json says (`in_conf`), or else
    ours; none is null. `by`, `at`: who set it, and when (seconds since the epoch); null where nobody did. `unit`:
    `seconds`, `bytes`, `share`, `number` or `word`; `meaning`: a sentence."""

    name: str
    value: Number | str | None
    default: Number | str | None
    range: SettingRange
    unit: Unit
    meaning: str
    in_conf: bool
    by: str | None
    at: float | None


def list_settings(context: Context, params: ListSettings) -> list[SettingView]:
    """All that can be set while the master runs, and what holds."""
    names = list(ROWS) if params.name is None else [params.name]
    return [_view(context, name) for name in names]


def outranking(context: Context) -> list[SettingView]:
    """Return the settings that were set and hold in place of another value in conf.json."""
    said, tuning = context.master.config.said, context.core.tuning
    found = [name for name in ROWS if name in said and name in tuning.said]
    return [_view(context, name) for name in found if tuning.value(name) != tuning.default(name)]


def set_setting(context: Context, params: SetSetting) -> SettingView:
    """Let a setting have this value from now on, over restarts and whatever conf.json says."""
    _check_silence(context, params)
    tuning = context.core.tuning

    def change() -> SettingView:
        tuning.set(params.name, params.value, context.user, context.now)
        return _view(context, params.name)

    return context.change(change, grows=False)


def reset(context: Context, params: OneSetting) -> SettingView:
    """Let conf.json say again what a setting is, or where it says nothing our default hold."""

    def change() -> SettingView:
        context.core.tuning.forget(params.name)
        return _view(context, params.name)

    return context.change(change, grows=False)


def _check_silence(context: Context, params: SetSetting) -> None:
    """Raise BadRequestError for a time to log in that ends before a desktop client is recognised, as a start does where
    conf.json says both."""
    config, value = context.master.config, params.value
    is_said = params.name == "limits.handshake_s" and "desktop_client.silent_s" in config.said
    if is_said and isinstance(value, int | float) and value <= config.desktop_client.silent_s:
        raise BadRequestError(Message("handshake_too_short", seconds=config.desktop_client.silent_s))


def _view(context: Context, name: str) -> SettingView:
    tuning = context.core.tuning
    value, default = tuning.value(name), tuning.default(name)
    row, said = ROWS[name], tuning.said.get(name)
    return SettingView(
        name=name,
        value=value,
        default=default,
        range=_range(row),
        unit=row.unit,
        meaning=row.meaning,
        in_conf=name in context.master.config.said,
        by=None if said is None else said.by,
        at=None if said is None else said.at,
    )


def _range(row: Row) -> SettingRange:
    return SettingRange(row.least, row.most, list(row.words), row.may_be_none)
