"""The folders that people may see, and those of them that have owners, by the names that conf.json gives them."""

from __future__ import annotations

import os
from pathlib import Path

from wire.message import Message

USER, GROUP = "{user}", "{group}"
"""In a path of `files`: here stands the name of a user, or of a group."""


class PathError(ValueError):
    """A path of `files` is not one of the `allowed` ones."""

    def __init__(self, allowed: Message) -> None:
        super().__init__(allowed)
        self.allowed = allowed


def plain_name(name: str) -> str:
    """Return a visible folder, as conf.json names it, in its plainest form. Raises ValueError for an invalid name."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or not parts or ".." in parts or "\0" in name:
        raise ValueError(f"{name!r} is no folder in another one")
    return "/".join(parts)


def plain_names(visible: tuple[str, ...]) -> tuple[str, ...]:
    """All of them in their plainest form; one that lies in another is reached through that. Raises ValueError."""
    found = dict.fromkeys(map(plain_name, visible))
    return tuple(name for name in found if not any(name.startswith(f"{other}/") for other in found))


def overlapping(root: Path, visible: tuple[str, ...]) -> tuple[str, str] | None:
    """Two visible folders of which one really is, or lies in, the other; None where there are none."""
    places = [(name, os.path.realpath(root / name)) for name in plain_names(visible)]
    for name, place in places:
        for other, around in places:
            if other != name and f"{place}/".startswith(f"{around.rstrip('/')}/"):
                return name, other
    return None


def owned_parts(path: str) -> list[str]:
    """Return the names in a path of `files`, from the visible folder on. Raises PathError for an invalid path."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/"):
        raise PathError(Message("path_from_visible_folder"))
    if not parts or ".." in parts or "\0" in path:
        raise PathError(Message("path_of_names"))
    if wrong := [part for part in parts if part not in (USER, GROUP) and not {"{", "}"}.isdisjoint(part)]:
        raise PathError(Message("placeholder_as_name", user=USER, group=GROUP, found=wrong[0]))
    return parts


def check_owned(path: str, kind: str, visible: tuple[str, ...]) -> None:
    """Check a path of `files` of which `kind` is said. Raises PathError."""
    parts = owned_parts(path)
    needed = {"own": USER, "group": GROUP}.get(kind)
    if needed is not None and parts.count(needed) != 1:
        raise PathError(Message("path_with_placeholder", placeholder=needed, kind=kind))
    if not any(parts[: len(own)] == own for own in (name.split("/") for name in plain_names(visible))):
        if not visible:
            raise PathError(Message("path_in_no_visible_folder"))
        raise PathError(Message("path_in_visible_folders", folders=visible))
