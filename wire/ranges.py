"""How several ids or names are told in short: `3-12, 15` and `gpu[01-20]`, how such names are read, and what is told of
them when it is the same but for their own address; the same by the master and by its clients.

Pure. It shortens what is told and loses nothing of it.
"""

from __future__ import annotations

import re
from functools import lru_cache

from wire.pattern import Pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_NUMBERED = Pattern(r"(.*?)(\d{1,15})(\D*)", re.DOTALL | re.ASCII)
_BRACKETED = Pattern(r"([^\[\]]*)\[([^\[\]]*)\]([^\[\]]*)")
_RUN = Pattern(r"([0-9]{1,15})(?:-([0-9]{1,15}))?")
_LEAST = 3
"""So many names that follow on each other are told as a range."""


def ids_in_short(ids: Iterable[int]) -> str:
    """Ids in their order, each once, ranges folded: `3-12, 15`."""
    return ", ".join(part for part, _ in ids_in_parts(ids))


def ids_in_parts(ids: Iterable[int], most: int | None = None) -> list[tuple[str, int]]:
    """The parts of `ids_in_short`, each with how many ids it stands for; or the first of them, so many at most."""
    parts: list[list[int]] = []
    for one in sorted(set(ids)):
        if parts and parts[-1][1] == one - 1:
            parts[-1][1] = one
        elif len(parts) == most:
            break
        else:
            parts.append([one, one])
    return [(str(low) if low == high else f"{low}-{high}", high - low + 1) for low, high in parts]


def names_in_short(names: Iterable[str], most: int | None = None) -> str:
    """Names in the order given; those that differ by a number that counts on are folded: `gpu[01-20], big`. `most`: so
    many entries are told, and of the others how many there are."""
    known = list(names)
    told = names_in_parts(known, most)
    left = len(known) - sum(count for _, count in told)
    text = ", ".join(entry for entry, _ in told)
    return f"{text} and {left} more" if left else text


def names_in_parts(names: Iterable[str], most: int | None = None) -> list[tuple[str, int]]:
    """The parts of `names_in_short`, each with how many names it stands for; or the first of them, so many at most."""
    told: list[tuple[str, int]] = []
    run: list[str] = []
    last: tuple[str, str, str] | None = None
    for name in names:
        number = _numbered(name)
        if run and not _follows(last, number):
            told += _folded(run)
            run = []
            if most is not None and len(told) >= most:
                break
        run.append(name)
        last = number
    return (told + _folded(run))[:most]


def names_of(text: str, most: int) -> list[str]:
    """The names that a text stands for: `a, gpu[01-03]` as `names_in_short` tells them, and `gpu[1,3,5-7]`. Raises
    ValueError for what is no such text, or stands for more than `most` names."""
    found: list[str] = []
    for entry in re.split(r",(?![^\[\]]*\])", text):
        name = entry.strip()
        match = _BRACKETED.fullmatch(name)
        if match is None:
            if not name or "[" in name or "]" in name:
                raise ValueError(f"{name!r} is no name of a node")
            found.append(name)
        else:
            found += [f"{match[1]}{number}{match[3]}" for number in _numbers_of(match[2], most)]
        if len(found) > most:
            raise ValueError(f"more than {most} names")
    return found


def _numbers_of(text: str, most: int) -> list[str]:
    found: list[str] = []
    for part in text.split(","):
        match = _RUN.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"[{text}] is no list of numbers, as in [01-03,07]")
        first, last = match[1], match[2] or match[1]
        if int(first) > int(last) or (first[0] == "0" != first and len(first) != len(last)):
            raise ValueError(f"{part} is no range: the smaller number stands first, written with as many digits")
        if int(last) - int(first) >= most:
            raise ValueError(f"more than {most} names")
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return found


@lru_cache(maxsize=4096)  # the nodes of a large lab are told again and again
def _numbered(name: str) -> tuple[str, str, str] | None:
    """Return the text before the first number of a name, the number, and the text after it; None without a number."""
    match = _NUMBERED.fullmatch(name)
    return None if match is None else (match[1], match[2], match[3])


def _follows(one: tuple[str, str, str] | None, other: tuple[str, str, str] | None) -> bool:
    """Does the number of the other name count on from that of the one?"""
    if one is None or other is None or one[0] != other[0] or one[2] != other[2] or int(other[1]) != int(one[1]) + 1:
        return False
    # a9, a10 count on, a09, a10 do; a09, a010 are two ways to write numbers
    return len(one[1]) == len(other[1]) or (one[1][0] != "0" and other[1][0] != "0")


def _folded(run: list[str]) -> list[tuple[str, int]]:
    """The names of a run, in as many entries as it takes, each with how many names it stands for."""
    if len(run) >= _LEAST:
        first, last = _numbered(run[0]), _numbered(run[-1])
        if first is not None and last is not None:
            return [(f"{first[0]}[{first[1]}-{last[1]}]{first[2]}", len(run))]
    return [(name, 1) for name in run]


def impersonal(text: str, address: str) -> str:
    """Return a message about a machine with `it` in place of its address and port, so that it can be about many.
    `address`: a name or number, or `user@host:port`; empty if it has none."""
    host = address.rpartition("@")[2].rpartition(":")[0] if "@" in address else address
    return re.sub(rf"(?<![\w.:-])\[?{re.escape(host)}\]?(:\d+)?(?![\w-])(?!\.\w)", "it", text) if host else text
