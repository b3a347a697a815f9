"""Lines as plain data, and the small pieces that they are made of: bars, levels, figures. Knows no task and no node.

A line is a tuple of parts, and a part is text with a kind: "" plain, "dim", "good", "held", "warn", "bad", "info",
"strong". The terminal decides how a kind looks; every line can be read without kinds.
"""

from __future__ import annotations

from client.text.columns import cut, width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    Part: TypeAlias = tuple[str, str]
    Line: TypeAlias = tuple[Part, ...]

LEVELS = "▁▂▃▄▅▆▇█"
UNKNOWN = "-"
_HIGH, _GIB = 90.0, 1024


def size_of(line: Line) -> int:
    """Columns that a line takes."""
    return sum(width(text) for text, _ in line)


def fit_line(line: Line, size: int) -> Line:
    """The line in exactly `size` columns."""
    fitted: list[Part] = []
    for text, kind in line:
        room = size - size_of(tuple(fitted))
        if room <= 0:
            break
        fitted.append((cut(text, room), kind))
    blanks = size - size_of(tuple(fitted))
    return (*fitted, (" " * blanks, "")) if blanks > 0 else tuple(fitted)


def text_of(line: Line) -> str:
    """The line without its kinds."""
    return "".join(text for text, _ in line)


def bar(percent: float | None, size: int) -> str:
    """A horizontal bar of `size` columns; what is not known is blank with a dash."""
    if percent is None:
        return UNKNOWN.ljust(size)
    filled = round(min(max(percent, 0.0), 100.0) * size / 100)
    return "█" * filled + "░" * (size - filled)


def level(percent: float | None) -> str:
    """One column that stands for 0 to 100 percent."""
    if percent is None:
        return UNKNOWN
    return LEVELS[min(int(max(percent, 0.0) * len(LEVELS) / 100), len(LEVELS) - 1)]


def percent_text(percent: float | None) -> str:
    """Four columns: ` 34%`."""
    return f"{min(max(percent, 0.0), 999.0):3.0f}%" if percent is not None else f"{UNKNOWN:>4}"


def share(used: float | None, total: float | None) -> float | None:
    """Percent, None where one of the two is not known."""
    return None if used is None or not total else 100.0 * used / total


def memory_text(used: float | None, total: float | None) -> str:
    """`48.1/80G`, from MiB."""
    if total is None:
        return UNKNOWN
    shown = UNKNOWN if used is None else f"{used / _GIB:.1f}"
    return f"{shown}/{total / _GIB:.0f}G"


def load_kind(percent: float | None) -> str:
    """How full is a colour only where it is nearly full."""
    return "dim" if percent is None else "warn" if percent >= _HIGH else "good"
