"""What a task may ask for: the options of `submit` and `run`, and the keys of `edit`, read from one table.

Owns the spelling and the syntax of values; whether they make sense is the master's decision.
"""

from __future__ import annotations

import argparse
import re

from client.states import STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_LONGEST_S = 1e10
_BASE = 60
_DAY_ONLY = len("2026-12-31")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
# Patterns, and not compiled here: most commands that load this read no time.
_SPANS = r"(\d+(?:\.\d+)?)([smhd])"
_SLURM = r"(?:(\d+)-(\d+)(?::(\d\d?))?(?::(\d\d?))?|(\d+):(\d\d?):(\d\d?))"
_TIME_HELP = "90 (seconds), 45m, 2h, 1h30m, 1-12:00 (a day and 12 hours) or 2:30:00"


def seconds(text: str) -> float:
    """A span of time in seconds, greater than 0. Raises ArgumentTypeError."""
    value = _seconds(text.strip().lower())
    if value is None or not 0 < value < _LONGEST_S:
        hint = " (hours or minutes? write 1h30m or 0:01:30)" if re.fullmatch(r"\d+:\d+", text) else ""
        raise argparse.ArgumentTypeError(f"{text!r} is not a time{hint}: {_TIME_HELP}")
    return value


def _seconds(text: str) -> float | None:
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        return float(text)
    if re.fullmatch(f"(?:{_SPANS})+", text):
        return sum(float(number) * _UNITS[unit] for number, unit in re.findall(_SPANS, text))
    match = re.fullmatch(_SLURM, text)
    if not match:
        return None
    days, day_hours, day_minutes, day_seconds, hours, minutes, rest = (int(part or 0) for part in match.groups())
    if max(day_minutes, day_seconds, minutes, rest) >= _BASE:
        return None
    return float(days * 86400 + (day_hours + hours) * 3600 + (day_minutes + minutes) * 60 + day_seconds + rest)


def states(text: str) -> list[str]:
    """State names with commas. Raises ArgumentTypeError."""
    found = [word.strip().lower() for word in text.split(",")]
    for word in found:
        if word not in STATES:
            raise argparse.ArgumentTypeError(f"there is no state {word!r}; there are {', '.join(STATES)}")
    return found


def moment(text: str) -> float:
    """A time that is over, as seconds since the epoch: so long ago (2h), or a date and time of here (ISO 8601). Raises
    ArgumentTypeError."""
    import time

    span = _seconds(text.strip().lower())
    if span is not None:
        return time.time() - span
    from datetime import datetime

    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a span of time (30m, 2h, 3d) nor a moment (2026-11-22, 2026-11-22T14:30)"
        ) from None


def until(text: str) -> float | None:
    """A time to come, as seconds since the epoch: so much from now (90d), a day of here, to its end, or a day and time
    (ISO 8601); None for `never`. Raises ArgumentTypeError."""
    import time

    said = text.strip().lower()
    if said == "never":
        return None
    span = _seconds(said)
    if span is not None:
        return time.time() + span
    from datetime import datetime, timedelta

    try:
        at = datetime.fromisoformat(text.strip())
        at += timedelta(days=1) if len(said) == _DAY_ONLY else timedelta(0)
        return at.timestamp()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a span of time (90d, 12h), nor a day (2026-12-31), nor `never`"
        ) from None


def words(text: str) -> list[str]:
    """Words with commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def after(text: str) -> list[dict[str, Any]]:
    """`7`, `7:any`, `7:ok,9:fail` as predecessors; without a word it means ok. Raises ArgumentTypeError."""
    found = []
    for part in text.split(","):
        number, _, word = part.strip().partition(":")
        on = word or "ok"
        if not (number.isascii() and number.isdigit()) or on not in ("any", "ok", "fail"):
            raise argparse.ArgumentTypeError(f"{part!r} is not ID, ID:any, ID:ok or ID:fail")
        found.append({"id": int(number), "on": on})
    return found


def whole(text: str) -> int:
    """A number of 0 or more. Raises ArgumentTypeError."""
    if text.isascii() and text.isdigit():
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")


def number(text: str) -> int:
    """A whole number, negative ones too. Raises ArgumentTypeError."""
    if re.fullmatch(r"[+-]?[0-9]+", text):
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")


def gpu_ids(text: str) -> list[int]:
    """`0,1` as GPU indices. Raises ArgumentTypeError."""
    return [whole(part.strip()) for part in text.split(",")]


def variable(text: str) -> tuple[str, str]:
    """NAME=VALUE. Raises ArgumentTypeError."""
    name, equals, value = text.partition("=")
    if equals and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return name, value
    raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")


def yes(text: str) -> bool:
    """Read yes or no, for `edit`. Raises ArgumentTypeError."""
    word = text.lower()
    if word in ("yes", "true", "1", "on"):
        return True
    if word in ("no", "false", "0", "off"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither yes nor no")


# option -> (field on the wire, how to read it, what stands for a value, help)
VALUES: dict[str, tuple[str, Callable[[str], Any], str, str]] = {
    "name": ("name", str, "TEXT", "what to call the task"),
    "project": ("project", str, "TEXT", "what it belongs to"),
    "env": ("env", str, "ENV", "conda environment (its name) or the path of a venv"),
    "setup": ("setup", str, "CMD", "a bash line to run first, in the task's own shell"),
    "cwd": ("cwd", str, "DIR", "folder to run in (default: this one where the master sees it too, else its root)"),
    "gpus": ("gpus", whole, "N", "how many GPUs (default: 0)"),
    "gpu-ids": ("gpu_ids", gpu_ids, "0,1", "exactly these GPUs of the node"),
    "cpus": ("cpus", whole, "N", "how many CPUs to count it for (without GPUs and this: one slot)"),
    "node": ("node", str, "NAME", "only on this node"),
    "after": ("after", after, "ID[:any|ok|fail],…", "start after these tasks ended (ok: well; this is the default)"),
    "priority": ("priority", number, "N", "higher starts first (default: 0)"),
    "time-limit": ("time_limit_s", seconds, "TIME", f"end it after this long: {_TIME_HELP}"),
    "log": ("log", str, "PATH", "where its output goes (default: the master's log folder)"),
}


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `submit` that describe the task."""
    group = parser.add_argument_group("what the task needs")
    for option, (field, read, metavar, text) in VALUES.items():
        action = "extend" if option == "after" else "store"
        group.add_argument(f"--{option}", dest=field, type=read, metavar=metavar, help=text, action=action)
    group.add_argument("--var", dest="variables", type=variable, action="append", metavar="NAME=VALUE",
                       help="set a variable for the task (may be repeated)")  # fmt: skip
    group.add_argument("--urgent", action="store_true", help="before everything that is not urgent")
    group.add_argument("--hold", action="store_true", help="queue it, but start it only after `muster release ID`")


def spec(options: argparse.Namespace) -> dict[str, Any]:
    """What was asked for, as the fields of `task.submit`; what was not said is left to the master."""
    found = {field: getattr(options, field) for field, *_ in VALUES.values()}
    found["variables"] = dict(options.variables) if options.variables else None
    found["urgent"] = options.urgent or None
    found["hold"] = options.hold or None
    return {field: value for field, value in found.items() if value is not None}
