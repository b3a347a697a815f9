"""Durations, moments, sizes and counts as people read them."""

from __future__ import annotations

import time

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_GIB = 1024
_STEP, _UNITS = 1024, ("B", "K", "M", "G", "T", "P")


def duration(seconds: float | None) -> str:
    """Seconds as `42s`, `5m03s`, `2h07m`, `3d04h`; `-` for None."""
    if seconds is None:
        return "-"
    whole = max(0, int(seconds))
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < _DAY:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02}h"


def moment(at: float | None) -> str:
    """A time as a date and time of day here; `-` for None."""
    return "-" if at is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def minute(at: float) -> str:
    """Return a time as a date and time of day here, without seconds."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def by_minute(at: float) -> str:
    """Return the first whole minute by which that time has come."""
    return minute(-(-at // _MINUTE) * _MINUTE)


def mib(value: float | None) -> str:
    """MiB as GiB where that reads better; `-` for None."""
    if value is None:
        return "-"
    return (
        f"{value / _GIB:.0f}G" if value >= 10 * _GIB else f"{value / _GIB:.1f}G" if value >= _GIB else f"{value:.0f}M"
    )


def size_text(size: int) -> str:
    """Bytes as people read them: 999B, 1.5K, 20M."""
    value = float(size)
    for unit in _UNITS:
        if value < _STEP or unit == _UNITS[-1]:
            break
        value /= _STEP
    return f"{size}B" if unit == "B" else f"{value:.1f}{unit}" if value < 10 else f"{value:.0f}{unit}"  # noqa: PLR2004


def counted(number: int, noun: str) -> str:
    """`1 task`, `2,000 tasks`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def load_text(load: object) -> str:
    """A load average (the first of three, or one number); empty where it is not known."""
    first = load[0] if isinstance(load, list) and load else load
    return f"{first:.1f}" if isinstance(first, int | float) else ""
