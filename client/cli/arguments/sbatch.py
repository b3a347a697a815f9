"""The `#SBATCH` lines at the head of a script, as options of `submit`.

They mean what the manual page of Slurm's sbatch says. An option without a counterpart here is named, never guessed.
"""

from __future__ import annotations

import argparse
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MARK = "#SBATCH"
_SHORT = {
    "-J": "--job-name", "-t": "--time", "-G": "--gpus", "-c": "--cpus-per-task", "-d": "--dependency", "-o": "--output",
    "-N": "--nodes", "-n": "--ntasks", "-D": "--chdir", "-w": "--nodelist", "-x": "--exclude", "-H": "--hold",
    "-e": "--error", "-p": "--partition", "-A": "--account", "-a": "--array", "-q": "--qos", "-C": "--constraint",
}  # fmt: skip
_ALONE = frozenset({"--hold", "--exclusive", "--requeue", "--no-requeue", "--overcommit", "--parsable", "--wait"})
"""Options that are written without a value."""
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_GPUS = re.compile(r"(?:([A-Za-z][\w.-]*):)?(\d+)")
_AFTER = {"afterok": "ok", "afterany": "any", "afternotok": "fail"}


_HINTS = {
    "--array": " (say --array to submit; the index is in MUSTER_ARRAY_INDEX)",
    "--error": " (both streams go into one log)",
}


class Read:
    """`words`: options of `submit`. `taken`: what was understood, and as what; `left`: what was not, each as it was
    written."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.taken: list[str] = []
        self.left: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.taken or self.left)

    def add(self, name: str, value: str) -> None:
        """One option, as it was written."""
        written = f"{name}={value}" if value else name
        counterpart = _COUNTERPARTS.get(name)
        words = counterpart(value) if counterpart is not None else None
        if words is None or not _can_be_read(words):
            self.left.append(written + _HINTS.get(name, ""))
            return
        self.words += words
        self.taken.append(f"{written} is {' '.join(words)}" if words else f"{written} needs nothing")


def _can_be_read(words: list[str]) -> bool:
    """Would the options take these values? `--mem=0`, for example, has no counterpart here, but the script is
    accepted."""
    from client.cli.arguments import fields

    for option, value in zip(words[::2], words[1::2], strict=False):
        try:
            fields.VALUES[option.removeprefix("--")][1](value)
        except argparse.ArgumentTypeError:
            return False
    return True


def read(text: str) -> Read:
    """Read the lines at the head of a script. Raises ValueError for a line with an unclosed quote."""
    import shlex

    found = Read()
    for raw in text.splitlines():
        line = raw.strip()
        if line and not line.startswith("#"):
            break
        if not line.startswith(f"{MARK} "):
            continue
        words = shlex.split(line.removeprefix(MARK), comments=True)
        while words:
            found.add(*_next(words))
    return found


def _next(words: list[str]) -> tuple[str, str]:
    word = words.pop(0)
    name, equals, value = word.partition("=")
    if word[:2] in _SHORT and not word.startswith("--"):
        name, value = _SHORT[word[:2]], word[2:].removeprefix("=")
        equals = value
    if not equals and name not in _ALONE and words and not words[0].startswith("-"):
        value = words.pop(0)
    return name, value


def _time(value: str) -> list[str] | None:
    if value.upper() in ("0", "UNLIMITED", "INFINITE"):
        return []
    match = _TIME.fullmatch(value)
    if match is None:
        return None
    days, first, second, third = (None if part is None else int(part) for part in match.groups())
    parts = [first or 0, *(part for part in (second, third) if part is not None)]
    if days is not None:  # D-H, D-H:M, D-H:M:S
        hours, minutes, seconds = [*parts, 0, 0][:3]
    elif len(parts) == 3:  # noqa: PLR2004  (H:M:S)
        hours, minutes, seconds = parts
    else:  # M, M:S
        hours, minutes, seconds = 0, *[*parts, 0][:2]
    return ["--time-limit", str((days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds)]


def _gpus(value: str) -> list[str] | None:
    match = _GPUS.fullmatch(value)
    if match is None:
        return None
    return ["--gpus", match[2], *(["--gpu-model", match[1]] if match[1] else [])]


def _gres(value: str) -> list[str] | None:
    kind, _, rest = value.partition(":")
    if kind != "gpu" or "," in value:
        return None
    if not rest:
        return ["--gpus", "1"]
    return _gpus(rest if rest[-1:].isdigit() and (":" in rest or rest.isdigit()) else f"{rest}:1")


def _dependency(value: str) -> list[str] | None:
    found = []
    for part in value.split(","):
        kind, *ids = part.split(":")
        if kind not in _AFTER or not ids or not all(one.isascii() and one.isdigit() for one in ids):
            return None
        found += [f"{one}:{_AFTER[kind]}" for one in ids]
    return ["--after", ",".join(found)]


def _output(value: str) -> list[str] | None:
    path = value.replace("%j", "{id}")
    return None if "%" in path or not path else ["--log", path]


def _number(option: str) -> Callable[[str], list[str] | None]:
    def counterpart(value: str) -> list[str] | None:
        return [option, value] if value.isascii() and value.isdigit() else None

    return counterpart


def _one(value: str) -> list[str] | None:
    return [] if value == "1" else None


def _as_it_is(option: str) -> Callable[[str], list[str] | None]:
    def counterpart(value: str) -> list[str] | None:
        return [option, value] if value else None

    return counterpart


def _mib(option: str) -> Callable[[str], list[str] | None]:
    def counterpart(value: str) -> list[str] | None:
        if not re.fullmatch(r"\d+[MGT]?", value):
            return None
        return [option, value if value[-1:].isalpha() else f"{value}M"]

    return counterpart


_COUNTERPARTS: dict[str, Callable[[str], list[str] | None]] = {
    "--job-name": _as_it_is("--name"),
    "--time": _time,
    "--gres": _gres,
    "--gpus": _gpus,
    "--gpus-per-node": _gpus,
    "--cpus-per-task": _number("--cpus"),
    "--mem": _mib("--mem"),
    "--tmp": _mib("--tmp-disk"),
    "--dependency": _dependency,
    "--output": _output,
    "--nodes": _number("--nodes"),
    "--ntasks": _one,
    "--chdir": _as_it_is("--cwd"),
    "--nodelist": _as_it_is("--node"),
    "--exclude": _as_it_is("--exclude"),
    "--hold": lambda value: None if value else ["--hold"],
}
