"""The first admin of a new queue, who can also log in from other machines: added before its master was ever started."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

import msgspec

from master.config.config import Config
from master.core.people.people import LINK_S, People, check_name
from master.edited_files.ownership import make_folder, make_private, user_name
from master.people.desktop_names import check_is_not_one
from master.people.passwords import TODAY, derive, prepared
from master.setup.people.offline import change_people, has_queue
from master.verbs.auth import check_password, sha256
from wire.errors import ConflictError
from wire.file_fault import fault
from wire.message import Message


class FirstAdmin(msgspec.Struct, frozen=True):
    """`name`, and the `link` for choosing a password, `until` then (seconds since the epoch); null if the admin has
    one."""

    name: str
    link: str | None
    until: float | None


def check_first_admin(task_info: Path, name: str, password: str | None) -> None:
    """Raise BadRequestError if this user cannot be admin, ConflictError where there is a queue, which may have
    users."""
    check_name(name)
    if password is not None:
        check_password(password, name)
    if has_queue(task_info):
        raise ConflictError(Message("queue_is_there", folder=str(task_info), name=name))


def add_first_admin(config: Config, name: str, password: str | None) -> FirstAdmin:
    """Begin the queue with this admin; without a password there is a link. Raises what `check_first_admin` does,
    ConfigError, and ConflictError if desktop clients act by that name."""
    check_first_admin(config.task_info, name, password)
    check_is_not_one(config.desktop_client, name)
    now, by = time.time(), user_name(os.geteuid())
    if password is None:
        made = FirstAdmin(name, secrets.token_hex(32), now + LINK_S)
        opens = {"link": sha256(made.link or ""), "link_until": made.until}
    else:
        made = FirstAdmin(name, None, None)
        opens = {"password": derive(prepared(password), TODAY)}
    try:
        make_private(config.task_info)
        make_folder(config.server_log.parent)
    except OSError as error:
        raise fault(config.task_info, Message("folder_unmakable", detail=error.strerror)) from None

    def change(people: People) -> None:
        people.add(name, {config.desktop_client.user}, role="admin", at=now, by=by, **opens)

    change_people(config, "user.add", name, change)
    return made
