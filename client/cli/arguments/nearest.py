"""The name that was probably meant by one that does not exist: an option, a key, an action, a setting. Loaded only
after a mistake."""

from __future__ import annotations

from difflib import get_close_matches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_ELSEWHERE = {
    "--time": ("--time-limit",), "-t": ("--time-limit",), "--gres": ("--gpus",), "-G": ("--gpus",), "-g": ("--gpus",),
    "-J": ("--name",), "--job-name": ("--name",), "-c": ("--cpus",), "--cpus-per-task": ("--cpus",),
    "-d": ("--after",), "--dependency": ("--after",), "-o": ("--log",), "--output": ("--log",), "-w": ("--node",),
    "--nodelist": ("--node",), "-x": ("--exclude",), "-D": ("--cwd",), "--chdir": ("--cwd",), "-N": ("--nodes",),
    "--licenses": ("--licence",), "--license": ("--licence",), "-e": ("--var",), "--export": ("--var",),
    "--constraint": ("--gpu-model",), "--gpu-type": ("--gpu-model",), "--memory": ("--mem",), "--workdir": ("--cwd",),
    "--tmp": ("--tmp-disk",),
    "-n": ("--limit",), "--lines": ("--tail", "--limit"), "--last": ("--tail", "--limit"), "--dir": ("--cwd",),
}  # fmt: skip
"""Names from Slurm and other queues, and what they are called here; the first one that exists is meant."""
_MOST_MEANT = 4
_LIKE = 0.65


def option(name: str, known: Iterable[str]) -> str:
    """` (did you mean …?)` for an option that does not exist, `known` being those that do; "" where none is like it."""
    known = list(known)
    found = [one for one in _ELSEWHERE.get(name, ()) if one in known][:1]
    if not found and name.startswith("--"):
        found = [f"--{one}" for one in _close(name[2:], [one[2:] for one in known])]
    elif not found:
        found = [one for one in known if one[2:3] == name[1:2]]
    return _asked(found)


def key(name: str, known: Iterable[str]) -> str:
    """The same for any other name."""
    return _asked(keys(name, known))


def keys(name: str, known: Iterable[str]) -> list[str]:
    """The names that were probably meant by such a name; none where none is like it, or too many are."""
    known = list(known)
    meant = [one.removeprefix("--") for one in _ELSEWHERE.get(f"--{name}", ())]
    parts = [one for one in known if one.rpartition(".")[2] == name]
    found = [one for one in meant if one in known][:1] or parts or _close(name, known) or _ends(name, known)
    return found if len(found) <= _MOST_MEANT else []


def _ends(name: str, known: list[str]) -> list[str]:
    """Those whose last part is like the name: `grace` for `scheduler.grace_s`."""
    close = _close(name, [one.rpartition(".")[2] for one in known])
    return [one for one in known if one.rpartition(".")[2] in close]


def _close(name: str, known: list[str]) -> list[str]:
    by_small = {one.lower().replace("_", "-"): one for one in known}
    return [by_small[one] for one in get_close_matches(name.lower().replace("_", "-"), by_small, 1, _LIKE)]


def _asked(found: list[str]) -> str:
    return f" (did you mean {' or '.join(found)}?)" if 0 < len(found) <= _MOST_MEANT else ""
