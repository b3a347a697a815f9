"""Settings as people read them: a table of all, a page of one, a line for a change."""

from __future__ import annotations

from client.text.quantities import moment
from client.text.table import render
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.shapes import Setting, SettingRange

_TITLES = ["NAME", "VALUE", "DEFAULT", "SET BY", "MEANING"]
_FLEXIBLE = {"SET BY": 8, "MEANING": 20}
_SPANS = (("d", 86_400), ("h", 3600), ("m", 60))
_STEP, _UNITS = 1024, ("", "k", "m", "g", "t")
_ENDLESS_S, _ENDLESS = 1e9, 1e15
"""A bound of at least this many seconds, or of other units, means that there is no bound."""


def settings_table(settings: list[Setting], room: int | None) -> str:
    """All of them as a table; `room`: columns of the terminal, or None for no cutting."""
    return render(_TITLES, [_row(one) for one in settings], room, flexible=_FLEXIBLE)


def _row(one: Setting) -> list[str]:
    by = harmless(one["by"]) if one["by"] else ""
    return [one["name"], value_text(one, one["value"]), value_text(one, one["default"]), by, one["meaning"]]


def setting_page(one: Setting) -> str:
    """All about one."""
    lines = [f"{one['name']}: {one['meaning']}", f"  value    {value_text(one, one['value'])}{_said(one)}"]
    origin = " (conf.json)" if one["in_conf"] else ""
    lines += [f"  default  {value_text(one, one['default'])}{origin}", f"  range    {_range(one, one['range'])}"]
    return "\n".join(lines)


def change_line(before: Setting, after: Setting) -> str:
    """Return a line about a change, and the value of conf.json where that differs."""
    was, now = value_text(before, before["value"]), value_text(after, after["value"])
    line = f"{after['name']}: {now}" + (f" (was {was})" if was != now else "")
    if after["by"] is not None and after["in_conf"] and after["value"] != after["default"]:
        line += f"; conf.json says {value_text(after, after['default'])}, which does not hold now"
    return line


def outranking_line(one: Setting) -> str:
    """Tell a value that was set and holds in place of another one in conf.json."""
    now, said = value_text(one, one["value"]), value_text(one, one["default"])
    by = f", set by {harmless(one['by'])}" if one["by"] else ""
    return f"{one['name']} is {now}{by}; conf.json says {said} (`muster set --default {one['name']}`)"


def value_text(one: Setting, value: float | str | None) -> str:
    """A value in its unit, as it can be typed."""
    if isinstance(value, str):
        return harmless(value)
    if value is None or (value == 0 and one["range"]["none"]):
        return "none"
    if one["unit"] == "seconds":
        return _span(value)
    if one["unit"] == "bytes":
        return _size(value)
    return _plain(value) if one["unit"] == "share" else f"{int(value)}"


def _said(one: Setting) -> str:
    if one["by"] is None:
        return ""
    return f" (set by {harmless(one['by'])}, {moment(one['at'])})"


def _range(one: Setting, allowed: SettingRange) -> str:
    none = ", or none" if allowed["none"] else ""
    if allowed["words"]:
        return ", ".join(allowed["words"])
    least, most = allowed["least"] or 0.0, allowed["most"] or 0.0
    lowest = "0" if least == 0 else value_text(one, least)
    if most >= (_ENDLESS_S if one["unit"] == "seconds" else _ENDLESS):
        return f"{lowest} or more{none}"
    return f"{lowest} to {value_text(one, most)}{none}"


def _span(seconds: float) -> str:
    """`6h`, `90s`, `1.5s`: in the largest unit that says it whole."""
    for unit, size in _SPANS:
        if seconds and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{_plain(seconds)}s"


def _plain(value: float) -> str:
    """A number as it can be typed: without commas, and never as `1e+06`."""
    return f"{value:f}".rstrip("0").rstrip(".")


def _size(size: float) -> str:
    """`2g`, `1500m`: in the largest unit that says it whole."""
    unit = 0
    while size and size % _STEP == 0 and unit < len(_UNITS) - 1:
        size, unit = size // _STEP, unit + 1
    return f"{int(size)}{_UNITS[unit]}"
