"""The fields of a task's request: the options of `submit` and `run`, and the keys of `edit`, read from one table.

Owns the spelling and the syntax of values; whether they make sense is the master's decision.
"""

from __future__ import annotations

import re

from client.cli.arguments import file_name
from client.cli.arguments.wrong import wrong
from client.refusals import coded_error
from client.states import STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any

_LONGEST_S = 1e10
_MOST_GPUS = 4096
_MOST_NODES = 1024
_BASE = 60
_DAY_ONLY = len("2026-12-31")
_ALL = 100
_SIZES = {"m": 1, "g": 1024, "t": 1024 * 1024}
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
# Patterns, and not compiled here: most commands that load this read no time.
_SPANS = r"(\d+(?:\.\d+)?)([smhd])"
_SLURM = r"(?:(\d+)-(\d+)(?::(\d\d?))?(?::(\d\d?))?|(\d+):(\d\d?):(\d\d?))"
_BEGIN_HELP = "22:00 (the next one), now+2h, 2026-11-23T06:00 (of here) or 2026-11-23T06:00+08:00"
_SIGNAL_NUMBERS = {"1": "HUP", "2": "INT", "3": "QUIT", "10": "USR1", "12": "USR2", "15": "TERM"}
_ON = ("any", "ok", "fail")
_TIME_HELP = "90 (seconds), 45m, 2h, 1h30m, 1-12:00 (a day and 12 hours) or 2:30:00"


def seconds(text: str) -> float:
    """A span of time in seconds, greater than 0. Raises ArgumentTypeError."""
    value = _seconds(text.strip().lower())
    if value is None or not 0 < value < _LONGEST_S:
        hint = " (hours or minutes? write 1h30m or 0:01:30)" if re.fullmatch(r"\d+:\d+", text) else ""
        raise wrong(f"{text!r} is not a time{hint}: {_TIME_HELP}")
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
            raise wrong(f"there is no state {word!r}; there are {', '.join(STATES)}")
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
        raise wrong(
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
        raise wrong(f"{text!r} is neither a span of time (90d, 12h), nor a day (2026-12-31), nor `never`") from None


def begin(text: str) -> float:
    """When to begin, as seconds since the epoch: so much from now (now+2h), a time of day here (the next one), or a day
    and time (ISO 8601; of here, where it names no zone). Raises ArgumentTypeError."""
    import time
    from datetime import datetime, timedelta

    said = text.strip()
    span = _seconds(said[4:].lower()) if said[:4].lower() == "now+" else 0.0 if said.lower() == "now" else None
    if span is not None:
        return time.time() + span
    try:
        if re.fullmatch(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?", said):
            hours, minutes, rest = (int(part) for part in f"{said}:0".split(":")[:3])
            now = datetime.now()  # noqa: DTZ005  (the times of day of here)
            at = now.replace(hour=hours, minute=minutes, second=rest, microsecond=0)
            return (at if at > now else at + timedelta(days=1)).timestamp()
        return datetime.fromisoformat(said).timestamp()
    except (ValueError, OverflowError):
        raise wrong(f"{text!r} is not a time: {_BEGIN_HELP}") from None


def choice(*allowed: str) -> Callable[[str], str]:
    """Return a function that reads one of these words, and raises ArgumentTypeError for another."""

    def read(text: str) -> str:
        word = text.strip().lower()
        if word in allowed:
            return word
        raise wrong(f"{text!r} is not one of {', '.join(allowed)}")

    return read


def choices(*allowed: str) -> Callable[[str], list[str]]:
    """Return a function that reads some of these words, separated by commas, and raises ArgumentTypeError for
    another."""
    one = choice(*allowed)
    return lambda text: list(dict.fromkeys(one(word) for word in text.split(",")))


def early_signal(text: str) -> dict[str, Any]:
    """`USR1@120`, `B:USR1@2m` as a signal before the time limit; without a time a minute before, as Slurm has it.
    Raises ArgumentTypeError."""
    only, colon, rest = text.strip().rpartition(":")
    name, at, early = rest.partition("@")
    name = name.upper().removeprefix("SIG")
    name = _SIGNAL_NUMBERS.get(name, name)
    if (colon and only.upper() != "B") or not name.isalnum():
        raise wrong(f"{text!r} is not NAME@TIME, as in USR1@120 (B:USR1@120: only the command)")
    return {"name": name, "before_s": seconds(early) if at else 60.0, "main_only": bool(colon)}


def words(text: str) -> list[str]:
    """Words with commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def after(text: str) -> list[dict[str, Any]]:
    """`7`, `7:any`, `7:ok,9:fail`, `3-4:any` as predecessors; without a word it means ok. `12/` is all of an array;
    `bert:any` a task by its name. Raises ArgumentTypeError."""
    from client.cli.arguments import ids
    from client.named import is_ids

    found: list[dict[str, Any]] = []
    for part in text.split(","):
        said, colon, on = part.strip().rpartition(":")
        if colon and on not in _ON and not is_ids(said):  # the name has a colon
            colon = ""
        said, on = (said, on or "ok") if colon else (part.strip(), "ok")
        if not said or on not in _ON:
            raise wrong(f"{part!r} is not ID, ID:any, ID:ok or ID:fail (3-4: several tasks; 12/: an array; or a name)")
        found += [
            {"id": one if isinstance(one, str) else int(one), "on": on}
            | ({"array": True} if isinstance(one, ids.Whole) else {})
            for one in ids.several(said)
        ]
    return found


def whole(text: str) -> int:
    """A number of 0 or more. Raises ArgumentTypeError."""
    if text.isascii() and text.isdigit():
        return int(text)
    raise wrong(f"{text!r} is not a whole number of 0 or more")


def number(text: str) -> int:
    """A whole number, negative ones too. Raises ArgumentTypeError."""
    if re.fullmatch(r"[+-]?[0-9]+", text):
        return int(text)
    raise wrong(f"{text!r} is not a whole number")


def gpu_count(text: str) -> int | tuple[int, int]:
    """`2`, or `1-4`: as many as there are at the start, of these. Raises ArgumentTypeError."""
    least, dash, most = text.partition("-")
    if not dash or not least or not most:
        return whole(text)
    if not 0 < whole(least) <= whole(most):
        raise wrong(f"{text!r} is no range: the smaller number stands first, and is 1 or more")
    return whole(least), whole(most)


def mib(text: str) -> int:
    """An amount of memory, or of a disk, in MiB: 8000, 8000m, 8g, 1.5t. Raises ArgumentTypeError."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([mgt]?)(?:i?b)?", text.strip().lower())
    amount = round(float(match[1]) * _SIZES[match[2] or "m"]) if match else 0
    if amount <= 0:
        raise wrong(f"{text!r} is no amount: 8000 (MiB), 8000m, 8g, 1.5t")
    return amount


def percent(text: str) -> float:
    """0 to 100, with or without a `%`. Raises ArgumentTypeError."""
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?\s*%?", text.strip()) and float(text.strip(" %")) <= _ALL:
        return float(text.strip(" %"))
    raise wrong(f"{text!r} is no share from 0 to 100 percent")


def licences(text: str) -> dict[str, int]:
    """Return how many of which: of `matlab`, `matlab=2,ansys`, or with a colon. Raises ArgumentTypeError."""
    found = {}
    for part in words(text):
        name, sign, count = (part if "=" in part else part.replace(":", "=", 1)).partition("=")
        if not name or ":" in name or (sign and not (count and whole(count))):
            raise wrong(f"{part!r} is not NAME or NAME=N, like matlab=2")
        found[name] = whole(count) if sign else 1
    return found


def gpu_ids(text: str) -> list[int]:
    """`0,1`, `0-3` as GPU indices. Raises ArgumentTypeError."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        low, high = whole(first), whole(last if dash else first)
        if not low <= high < _MOST_GPUS:
            raise wrong(f"{part!r} is no range of GPUs: the smaller number stands first")
        found += range(low, high + 1)
    return found


def gpus_named(text: str) -> list[int] | dict[str, list[int]]:
    """Return the GPUs of `0,1`, or of `gpu1:0,1` those of the node. Raises ArgumentTypeError."""
    if ":" not in text:
        return gpu_ids(text)
    which, _, numbers = text.rpartition(":")
    return gpus_on(f"{which}={numbers}")


def nodes(text: str) -> list[str]:
    """`gpu1,gpu2`, `gpu[01-20]` as names of nodes. Raises ArgumentTypeError."""
    from wire.ranges import names_of

    try:
        return names_of(text, _MOST_NODES)
    except ValueError as error:
        raise wrong(f"{text!r}: {error}") from None


def gpus_on(text: str) -> dict[str, list[int]]:
    """`gpu1=0,1`, or `gpu1=0,1;gpu2=2,3`, as the GPUs of each node. Raises ArgumentTypeError."""
    found: dict[str, list[int]] = {}
    for part in text.split(";"):
        which, equals, ids = part.rpartition("=")
        if not equals or not which.strip():
            raise wrong(f"{part!r} is not NODE=GPU,GPU, as in gpu1=0,1")
        for name in nodes(which):
            if name in found:
                raise wrong(f"node {name} is named twice; give all its GPUs at once")
            found[name] = gpu_ids(ids)
    return found


def variable(text: str) -> tuple[str, str]:
    """NAME=VALUE. Raises ArgumentTypeError."""
    name, equals, value = text.partition("=")
    if equals and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return name, value
    raise wrong(f"{text!r} is not NAME=VALUE")


def yes(text: str) -> bool:
    """Read yes or no, for `edit`. Raises ArgumentTypeError."""
    word = text.lower()
    if word in ("yes", "true", "1", "on"):
        return True
    if word in ("no", "false", "0", "off"):
        return False
    raise wrong(f"{text!r} is neither yes nor no")


# option -> (field on the wire, how to read it, what stands for a value, help)
VALUES: dict[str, tuple[str, Callable[[str], Any], str, str]] = {
    "name": ("name", str, "TEXT", "what to call the task"),
    "project": ("project", str, "TEXT", "what it belongs to"),
    "env": ("env", str, "ENV", "an environment of the lab (its name), or the path of one (./venv)"),
    "setup": ("setup", str, "CMD", "a bash line to run first, in the task's own shell"),
    "cwd": ("cwd", str, "DIR", "folder to run in (default: this one where the master sees it too, else its root)"),
    "gpus": ("gpus", gpu_count, "N", "how many GPUs (default: 0); 1-4: as many of these as are free when it starts"),
    "gpu-ids": (
        "gpu_ids",
        gpus_named,
        "[NODE:]0,1",
        "exactly these GPUs of the node; with NODE: as --gpus-on (may be repeated)",
    ),
    "gpu-mem": ("gpu_memory_mib", mib, "MIB", "memory on each GPU: 8000, 8g. With --share it gets that much of it"),
    "gpu-model": ("gpu_models", words, "NAME[,NAME]", "only GPUs of these models: A100, 3090,4090"),
    "min-free-util": ("min_free_util", percent, "PCT", "only GPUs with so much of their time unused, in percent"),
    "cpus": ("cpus", whole, "N", "how many CPUs to count it for (without GPUs and this: one slot)"),
    "mem": ("memory_mib", mib, "MIB", "memory of the node to count it for: 8000, 32g"),
    "tmp-disk": ("tmp_disk_mib", mib, "MIB", "space in the node's temporary folder to count it for: 20000, 50g"),
    "licence": (
        "licences",
        licences,
        "NAME[=N]",
        "licences that it uses while it runs, as the lab's conf.json names them",
    ),
    "nodes": ("nodes", whole, "N", "on so many nodes at once, with all this on each (default: 1)"),
    "node": ("node", nodes, "NAME[,NAME]", "only on this node; of several on one, with --nodes N on so many"),
    "gpus-on": (
        "gpus_on",
        gpus_on,
        "NODE=0,1",
        "on all these nodes at once, with exactly these GPUs (may be repeated)",
    ),
    "exclude": ("exclude", nodes, "NAME[,NAME]", "on none of these nodes; gpu[01-20] are twenty"),
    "in": ("within", str, "NAME", "on GPUs of this allocation (see `muster alloc`)"),
    "after": (
        "after",
        after,
        "ID[:any|ok|fail],…",
        "start after these tasks ended (ok: well; this is the default); 3-4 are two",
    ),
    "priority": ("priority", number, "N", "higher starts first (default: 0)"),
    "time-limit": ("time_limit_s", seconds, "TIME", f"end it after this long: {_TIME_HELP}"),
    "on-timeout": (
        "on_timeout",
        choice("fail", "requeue"),
        "WORD",
        "past its time limit: fail (the default), or requeue: behind all others, and on from there",
    ),
    "begin": ("begin_at", begin, "TIME", f"not before: {_BEGIN_HELP}"),
    "max-retries": ("max_retries", whole, "N", "try it again up to so many times, if it ends badly (default: 0)"),
    "retry-on": (
        "retry_on",
        choices("fail", "oom", "lost"),
        "WORD[,…]",
        "of which ends: fail, oom, lost (default: fail,oom,lost)",
    ),
    "signal": (
        "signal",
        early_signal,
        "NAME@TIME",
        "send this signal so long before the time limit, USR1@120, to each process that heeds it (B:…: to the command)",
    ),
    "checkpoint": ("checkpoint", str, "GLOB", "of --elastic: the files that it can go on from, quoted: 'out/*.pt'"),
    "log": (
        "log",
        file_name.log,
        "PATH",
        "where its output goes, {id} is the task's (default: the master's log folder)",
    ),
}


REPEATED = {"after": "extend", "gpu-ids": "append", "gpus-on": "append"}


def sweep(text: str) -> tuple[str, list[str]]:
    r"""`lr=0.1,0.01` as a name and its values; `\,` is a comma in one. Raises ArgumentTypeError."""
    name, equals, rest = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise wrong(f"{text!r} is not NAME=VALUE,VALUE (the name of letters a-z, digits and _; a value is any text)")
    if not rest:
        raise wrong(f"{name} has no values: {name}=0.1,0.01")
    return name, [value.replace("\\,", ",") for value in re.split(r"(?<!\\),", rest)]


def place(named: list[str]) -> dict[str, Any]:
    """Return the fields of the wire for the names given with `--node`."""
    return {"node": named[0]} if len(named) == 1 else {"node_list": named}


def counts(gpus: int | tuple[int, int] | None) -> dict[str, int | None]:
    """Return the fields of the wire for the value of `--gpus`."""
    return {"gpus": gpus[0], "gpus_max": gpus[1]} if isinstance(gpus, tuple) else {"gpus": gpus}


def exactly(numbers: list[list[int] | dict[str, list[int]]], on: list[dict[str, list[int]]]) -> dict[str, Any]:
    """Return the fields of the wire for several `--gpu-ids` and `--gpus-on`. Of several lists of GPUs without a node,
    the last one counts. Raises BadRequestError."""
    alone = [one for one in numbers if isinstance(one, list)]
    named = [*on, *(one for one in numbers if isinstance(one, dict))]
    if alone and len(alone) < len(numbers):
        raise coded_error("bad_request", "gpu_ids_of_some_nodes")
    return {"gpu_ids": alone[-1] if alone else None, "gpus_on": together(named) if named else None}


def together(said: list[dict[str, list[int]]]) -> dict[str, list[int]]:
    """Join the values of several `--gpus-on`. Raises BadRequestError for a node that two of them name."""
    found: dict[str, list[int]] = {}
    for one in said:
        for name in found.keys() & one.keys():
            raise coded_error("bad_request", "gpus_on_twice", node=name)
        found |= one
    return found


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `submit` that describe the task."""
    group = parser.add_argument_group("what the task needs")
    for option, (field, read, metavar, text) in VALUES.items():
        action = REPEATED.get(option, "store")
        group.add_argument(f"--{option}", dest=field, type=read, metavar=metavar, help=text, action=action)
    group.add_argument("--var", dest="variables", type=variable, action="append", metavar="NAME=VALUE",
                       help="set a variable for the task (may be repeated)")  # fmt: skip
    group.add_argument("--share", action="store_true",
                       help="share GPUs by memory: as much as --gpu-mem says, else as such tasks used")  # fmt: skip
    group.add_argument("--elastic", action="store_true",
                       help="of --gpus 1-4: more or fewer while it runs, each time from --checkpoint on")  # fmt: skip
    group.add_argument("--urgent", action="store_true", help="before everything that is not urgent")
    group.add_argument("--hold", action="store_true", help="queue it, but start it only after `muster release ID`")


def spec(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options that were given, as the fields of `task.submit`. The master decides about all others."""
    found = {field: getattr(options, field) for field, *_ in VALUES.values()}
    found |= counts(found["gpus"])
    found |= {"node": None, **place(found["node"])} if found["node"] else {}
    found |= exactly(found["gpu_ids"] or [], found["gpus_on"] or [])
    found["variables"] = dict(options.variables) if options.variables else None
    found["share"] = options.share or None
    found["elastic"] = options.elastic or None
    found["urgent"] = options.urgent or None
    found["hold"] = options.hold or None
    return {field: value for field, value in found.items() if value is not None}
