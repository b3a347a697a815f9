"""The owners of files: what `files` of conf.json says of a place, and what a user may see and change there.

A rule is a path, mostly with `{user}` or `{group}` in it. The longest rule that a place lies under applies; of two of
the same length, the one that names more of its folders. Pure: places are names, from the visible folder on; `beneath`
makes sure that these are the real ones, with links followed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from master.config.visible_folders import GROUP, USER, owned_parts

Kind = Literal["all", "own", "group"]
Place = Sequence[bytes]
"""Names from the visible folder on."""


class Who(NamedTuple):
    """The caller, as far as files go. `groups`: those with the caller as member or mentor."""

    user: str = ""
    groups: frozenset[str] = frozenset()
    sees_all: bool = False


class _Rule(msgspec.Struct, frozen=True):
    """`parts`: names, or None where anything stands; `at`: the part that names the user or group; `exactly`: it is of
    the folder itself, and of nothing in it."""

    parts: tuple[bytes | None, ...]
    kind: Kind
    at: int = 0
    exactly: bool = False

    def holds(self, place: Place) -> bool:
        """Does the place lie under it?"""
        if len(place) < len(self.parts) or (self.exactly and len(place) != len(self.parts)):
            return False
        return all(part is None or part == name for part, name in zip(self.parts, place, strict=False))

    def begins_beneath(self, place: Place) -> bool:
        """Are there places in this folder that it holds for?"""
        return len(self.parts) > len(place) and all(
            part is None or part == name for part, name in zip(self.parts, place, strict=False)
        )

    def lets(self, names: Mapping[Kind, frozenset[bytes]], place: Place) -> bool:
        """May somebody of these names see and change the place, which lies under it?"""
        return self.kind == "all" or place[self.at] in names[self.kind]


class Owners:
    """All rules. `rules`: as `files` of conf.json has them, and checked already."""

    def __init__(self, rules: Mapping[str, Kind] | None = None) -> None:
        found = {}
        for text, kind in (rules or {}).items():
            rule = _rule(owned_parts(text), kind)
            found[rule.parts] = rule
        for rule in list(found.values()):
            # The folder above users' own folders belongs to nobody, unless a rule says so.
            for index, part in enumerate(rule.parts):
                if part is None:
                    above = rule.parts[:index]
                    found.setdefault(above, _Rule(above, "all", exactly=True))
        self._rules = sorted(found.values(), key=lambda rule: (-len(rule.parts), [part is None for part in rule.parts]))

    def sight(self, who: Who) -> Sight | None:
        """Return what a user sees; None if that is everything."""
        names: dict[Kind, frozenset[bytes]] = {
            "own": frozenset({who.user.encode()} - {b""}),
            "group": frozenset(name.encode() for name in who.groups),
        }
        return Sight(self._rules, names) if self._rules and not who.sees_all else None


class Sight:
    """The files that one user may see and change. `names`: the names of the user and of the user's groups."""

    def __init__(
        self,
        rules: Sequence[_Rule],
        names: Mapping[Kind, frozenset[bytes]],
        root: tuple[bytes, ...] = (),
        but: tuple[bytes, ...] = (),
    ) -> None:
        self._rules = rules
        self._names = names
        self._root = root
        self._but = but

    def from_slash(self, root: str, but: str = "") -> Sight:
        """The same, of places whose names begin at `/`: those beneath `root` are the visible folders, and elsewhere
        there are no rules. `but`: nor in this folder."""
        return Sight(self._rules, self._names, _names(root), _names(but))

    def has(self, place: Place) -> bool:
        """Tell whether the user may see and change it, if it exists."""
        if self._but and tuple(place[: len(self._but)]) == self._but:
            return True
        if self._root:
            if tuple(place[: len(self._root)]) != self._root:
                return True
            place = place[len(self._root) :]
        for rule in self._rules:
            if rule.holds(place):
                return rule.lets(self._names, place)
        return True

    def may_differ_in(self, place: Place) -> bool:
        """Tell whether something in this folder may be hidden from the user, though they see the folder. True also if
        the folder is empty: only the rules decide, so that nobody learns anything from the answer."""
        return any(rule.kind != "all" and rule.begins_beneath(place) for rule in self._rules)


def _names(path: str) -> tuple[bytes, ...]:
    return tuple(os.fsencode(name) for name in path.split("/") if name)


def _rule(parts: Sequence[str], kind: Kind) -> _Rule:
    named = {"own": USER, "group": GROUP}.get(kind)
    plain = tuple(None if part in (USER, GROUP) else part.encode() for part in parts)
    return _Rule(plain, kind, parts.index(named) if named is not None else 0)
