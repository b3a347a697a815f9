"""Text for a terminal: harmless, of a known width, cut to fit. Decides nothing about what is shown."""

from __future__ import annotations

import time

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_GIB = 1024
_STEP, _UNITS = 1024, ("B", "K", "M", "G", "T", "P")


def harmless(text: str) -> str:
    """The text on one line, with control and formatting characters shown as escapes, so that no name can act on the
    terminal that shows it."""
    if text.isprintable():
        return text
    from unicodedata import category

    return "".join(char if category(char) not in _HIDDEN else _escape(char) for char in text)


_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def _escape(char: str) -> str:
    return repr(char)[1:-1] if not char.isprintable() else char


def width(text: str) -> int:
    """Columns that the text takes: East Asian wide characters two, combining ones none (UAX 11)."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def cut(text: str, room: int) -> str:
    """The text in at most `room` columns, ending in `…` if something had to go."""
    if width(text) <= room:
        return text
    if room <= 0:
        return ""
    if text.isascii():
        return text[: room - 1] + "…"
    used = 0
    for index, char in enumerate(text):
        used += width(char)
        if used > room - 1:
            return text[:index] + "…"
    return text


def command_line(command: list[str] | str) -> str:
    """A command as one would type it, harmless and on one line."""
    if isinstance(command, str):
        return harmless(command.strip())
    return harmless(" ".join([_quoted(word) for word in command]))


def command_in_brief(command: list[str] | str) -> str:
    """A command for a row of a table: of a script only its first line that does something."""
    if isinstance(command, str) and "\n" in command.strip():
        lines = [line.strip() for line in command.splitlines()]
        doing = [line for line in lines if line and not line.startswith("#")] or lines
        return harmless(doing[0]) + (" …" if len(doing) > 1 else "")
    return command_line(command)


def _quoted(word: str) -> str:
    if word.isalnum() or (word and not set(word) & _SPECIAL and word.isprintable()):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


_SPECIAL = frozenset(" \t\n\"'`$&|;<>()*?[]#~!{}\\")


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
