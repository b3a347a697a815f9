"""Gives a lab its identity, and keeps it beside conf.json for clients to compare, and in its state folder, which no
other lab may have. `wire.lab` and `wire.state_folder` own the formats."""

from __future__ import annotations

import json
import logging
import os
import secrets
from contextlib import suppress
from pathlib import Path

from wire.lab import Lab, path_of, read, stored
from wire.state_folder import RECORD

log = logging.getLogger("muster")

_MODE = 0o644
_PRIVATE = 0o600


def settle(conf: Path) -> Lab:
    """The lab of this conf.json, with an identity of its own, which is written if need be. Without one where it cannot
    be written: clients compare the path of conf.json then."""
    path, lab = Path(path_of(str(conf))), read(str(conf))
    if lab.identity and not lab.moved_from and _is_right(path, lab):
        return lab
    if lab.copied_from:
        log.info("%s is a copy of %s: this lab gets an identity of its own", lab.conf, lab.copied_from)
    kept = "" if lab.moved_from else lab.identity
    made = Lab(kept or secrets.token_hex(16), lab.conf, lab.file)
    try:
        _write(path, made, _MODE)
    except OSError as error:
        log.warning("%s cannot be written (%s): clients compare the path of conf.json", path, error.strerror)
        return lab
    return made


def note_in(folder: Path, lab: Lab) -> None:
    """Say in the state folder whose it is. Where it cannot be written, nothing keeps another lab away while no master
    runs."""
    path = folder / RECORD
    if not lab.identity or stored(str(path)) == (lab.identity, lab.conf):
        return
    try:
        _write(path, lab, _PRIVATE)
    except OSError as error:
        log.warning("%s cannot be written (%s): it does not say which lab has the folder", path, error.strerror)


def _is_right(path: Path, lab: Lab) -> bool:
    try:
        mode = path.lstat().st_mode & 0o777
    except OSError:
        return False
    return mode == _MODE and stored(str(path)) == (lab.identity, lab.conf)


def _write(path: Path, lab: Lab, mode: int) -> None:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, mode)
            file.write(json.dumps({"lab": lab.identity, "conf": lab.conf}).encode() + b"\n")
            file.flush()
            os.fsync(fd)
        draft.replace(path)
    except OSError:
        with suppress(FileNotFoundError):
            draft.unlink()
        raise
