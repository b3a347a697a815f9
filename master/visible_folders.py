"""The folders that people may see, by the names that conf.json gives them."""

from __future__ import annotations


def plain_name(name: str) -> str:
    """A visible folder, as conf.json names it, in its plainest form. Raises ValueError for what is none."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or not parts or ".." in parts or "\0" in name:
        raise ValueError(f"{name!r} is no folder in another one")
    return "/".join(parts)


def plain_names(visible: tuple[str, ...]) -> tuple[str, ...]:
    """All of them in their plainest form; one that lies in another is reached through that. Raises ValueError."""
    found = dict.fromkeys(map(plain_name, visible))
    return tuple(name for name in found if not any(name.startswith(f"{other}/") for other in found))
