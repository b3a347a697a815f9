"""The master that answers is that of another lab: the refusal, which names both. Loaded only where there is one."""

from __future__ import annotations

import os
import shlex

from wire.errors import ConflictError
from wire.lab import file_of
from wire.message import Message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from wire.lab import Lab


class OtherLabError(ConflictError):
    """The master that answers is that of another lab: it was asked for nothing."""


def check_conf(lab: Lab | None, told: dict[str, Any], where: tuple[str, int]) -> None:
    """For a master that does not say which lab it is of: compare the conf.json that it tells (`told`: `server.info`).
    Raises OtherLabError."""
    conf = told.get("conf")
    if lab is None or not isinstance(conf, str) or not conf:
        return
    if os.path.realpath(conf) != lab.conf and (not lab.file or file_of(conf) != lab.file):
        raise other_lab(lab, where, conf)


def other_lab(lab: Lab, where: tuple[str, int], theirs: str = "") -> OtherLabError:
    """The refusal, with the other lab by name. `theirs`: its conf.json, where that is known."""
    host, port = where
    at = f"{host}:{port}"
    ours = Message("copy_of_lab", conf=lab.conf, original=lab.copied_from) if lab.copied_from else lab.conf
    if theirs:
        # A copy of conf.json on another machine, or in another home, reads what works there.
        way = f"--conf {shlex.quote(theirs)}" if os.path.isfile(theirs) else f"--master {at}"
        return OtherLabError(Message("lab_differs", at=at, theirs=theirs, ours=ours, way=way))
    from wire.listener import holder

    held = holder(host, port)
    if held:
        return OtherLabError(Message("lab_differs_held", at=at, holder=held, ours=ours))
    return OtherLabError(Message("lab_differs_unseen", at=at, ours=ours))
