"""How several ids or names are told in short: `3-12, 15` and `gpu[01-20]`, and what is told of them when it is the same
but for their own address; the same by the master and by its clients.

Pure. It shortens what is told and loses nothing of it.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_NUMBERED = re.compile(r"(.*?)(\d{1,15})(\D*)", re.DOTALL | re.ASCII)
_LEAST = 3
"""So many names that follow on each other are told as a range."""


def ids_in_short(ids: Iterable[int]) -> str:
    """Ids in their order, each once, ranges folded: `3-12, 15`."""
    return ", ".join(part for part, _ in ids_in_parts(ids))


def ids_in_parts(ids: Iterable[int]) -> list[tuple[str, int]]:
    """The parts of `ids_in_short`, each with how many ids it stands for."""
    parts: list[list[int]] = []
    for one in sorted(set(ids)):
        if parts and parts[-1][1] == one - 1:
            parts[-1][1] = one
        else:
            parts.append([one, one])
    return [(str(low) if low == high else f"{low}-{high}", high - low + 1) for low, high in parts]


def names_in_short(names: Iterable[str], most: int | None = None) -> str:
    """Names in the order given; those that differ by a number that counts on are folded: `gpu[01-20], big`. `most`: so
    many entries are told, and of the others how many there are."""
    told = names_in_parts(names)
    left = 0 if most is None else sum(count for _, count in told[most:])
    text = ", ".join(entry for entry, _ in told[:most])
    return f"{text} and {left} more" if left else text


def names_in_parts(names: Iterable[str]) -> list[tuple[str, int]]:
    """The parts of `names_in_short`, each with how many names it stands for."""
    told: list[tuple[str, int]] = []
    run: list[str] = []
    for name in names:
        if run and not _follows(run[-1], name):
            told += _folded(run)
            run = []
        run.append(name)
    return told + _folded(run)


def _follows(name: str, following: str) -> bool:
    one, other = _NUMBERED.fullmatch(name), _NUMBERED.fullmatch(following)
    if one is None or other is None or (one[1], one[3]) != (other[1], other[3]) or int(other[2]) != int(one[2]) + 1:
        return False
    # a9, a10 count on, a09, a10 do; a09, a010 are two ways to write numbers
    return len(one[2]) == len(other[2]) or (one[2][0] != "0" and other[2][0] != "0")


def _folded(run: list[str]) -> list[tuple[str, int]]:
    """The names of a run, in as many entries as it takes, each with how many names it stands for."""
    if len(run) >= _LEAST:
        first, last = _NUMBERED.fullmatch(run[0]), _NUMBERED.fullmatch(run[-1])
        if first is not None and last is not None:
            return [(f"{first[1]}[{first[2]}-{last[2]}]{first[3]}", len(run))]
    return [(name, 1) for name in run]


def impersonal(text: str, address: str) -> str:
    """What is said of a machine, with `it` for its address, with or without a port, so that it can be said of many.
    `address`: a name or number, or `user@host:port`; empty where it has none."""
    host = address.rpartition("@")[2].rpartition(":")[0] if "@" in address else address
    return re.sub(rf"(?<![\w.:-])\[?{re.escape(host)}\]?(:\d+)?(?![\w-])(?!\.\w)", "it", text) if host else text
