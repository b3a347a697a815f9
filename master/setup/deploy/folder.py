"""The folder that `muster deploy` writes into: its own files are renewed, nobody else's is ever touched.

A list of digests, `.muster-deploy.json`, tells what is still as we wrote it. A file that somebody changed, or that was
there before, is kept and told. Links are not followed, so nothing outside the folder is written.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from wire.errors import ConfigError
from wire.file_fault import fault
from wire.message import Message

LIST = ".muster-deploy.json"
State = Literal["written", "same", "kept", "removed"]


class Content(NamedTuple):
    """The content of a file. `goes_to`: where the admin puts it."""

    data: bytes
    goes_to: str = ""
    mode: int = 0o644


class Outcome(NamedTuple):
    """The result for a file. `path` is relative to the folder. `kept`: somebody changed it, so it is left as it was."""

    path: str
    state: State
    goes_to: str


def write(folder: Path, files: Mapping[str, Content], *, force: bool = False) -> list[Outcome]:
    """Bring the folder to `files` (relative path -> content); files of ours that are not among them any more go.

    `force`: changed files are written anew as well. Raises ConfigError when something cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _no_links(folder, folder / LIST)
        known = _known(folder / LIST)
        outcomes = [_bring(folder, path, content, known.get(path), force=force) for path, content in files.items()]
        outcomes += [gone for path in known.keys() - files.keys() if (gone := _remove(folder, path, known[path]))]
        digests = {path: _digest(content.data) for path, content in files.items()}
        kept = {outcome.path: known[outcome.path] for outcome in outcomes if _still_ours(outcome, known)}
        _put(folder / LIST, json.dumps({**digests, **kept}, indent=1, ensure_ascii=False).encode() + b"\n", 0o644)
    except OSError as error:
        raise fault(Path(error.filename or folder), Message("file_unwritable", detail=error.strerror)) from None
    return outcomes


def _bring(folder: Path, path: str, content: Content, ours: str | None, *, force: bool) -> Outcome:
    place = folder / path
    _no_links(folder, place)
    there = place.read_bytes() if place.is_file() else None
    if there == content.data and place.stat().st_mode & 0o777 == content.mode:
        return Outcome(path, "same", content.goes_to)
    if there is not None and there != content.data and _digest(there) != ours and not force:
        return Outcome(path, "kept", content.goes_to)
    place.parent.mkdir(parents=True, exist_ok=True)
    _put(place, content.data, content.mode)
    return Outcome(path, "written", content.goes_to)


def _remove(folder: Path, path: str, ours: str) -> Outcome | None:
    place = folder / path
    if Path(path).is_absolute() or ".." in Path(path).parts:
        return None
    _no_links(folder, place)
    if not place.is_file():
        return None
    if _digest(place.read_bytes()) != ours:
        return Outcome(path, "kept", "")
    place.unlink()
    return Outcome(path, "removed", "")


def _still_ours(outcome: Outcome, known: Mapping[str, str]) -> bool:
    """A changed file stays known by what we wrote last: changed back, it is ours again."""
    return outcome.state == "kept" and outcome.path in known


def _no_links(folder: Path, place: Path) -> None:
    for part in [*reversed(place.relative_to(folder).parents), place.relative_to(folder)]:
        step = folder / part
        if step != folder and step.is_symlink():
            raise ConfigError(Message("link_in_the_way", path=str(step)))


def _put(place: Path, data: bytes, mode: int) -> None:
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(fd, "wb") as out:
            os.fchmod(out.fileno(), mode)
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        draft.replace(place)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def _known(path: Path) -> dict[str, str]:
    """Return the digests of the files as last written, by path. An unreadable list counts as empty, so nothing is
    overwritten."""
    if not path.is_file():  # a pipe would be waited at
        return {}
    try:
        value: Any = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    items = value.items() if isinstance(value, dict) else ()
    return {name: digest for name, digest in items if isinstance(digest, str)}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
