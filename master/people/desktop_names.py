"""The user names of desktop clients. No name may be an admin's, because such a client only shows an address.

Admins are users with that role, the account that runs the master, and root. This module owns that rule and the places
where it is checked: conf.json and users that would break it are refused. If it is broken already, that name is closed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from master.config.conf_file import DesktopClient
from master.core.people.people import People
from master.edited_files.ownership import user_name
from wire.errors import ConflictError
from wire.file_fault import fault
from wire.message import Message


def named(access: DesktopClient) -> Iterator[tuple[str, str]]:
    """Each key of conf.json that names such a user, and the name."""
    yield "desktop_client.user", access.user
    yield from ((f"desktop_client.users.{address}", name) for address, name in access.users.items())


_account = cache(user_name)  # each connection asks, and a directory of accounts may answer slowly


def is_masters(name: str) -> bool:
    """Is it the name of the account that runs the master, or of root?"""
    return name in (_account(os.geteuid()), _account(0))


def is_admins(name: str, people: People) -> bool:
    """Is it the name of an admin? An admin who is disabled or has expired counts: they may come back."""
    user = people.named(name)
    return is_masters(name) or (user is not None and user.role == "admin")


def closed(access: DesktopClient, people: People) -> list[Message]:
    """The names that are closed to desktop clients, each with the key to change."""
    return [
        Message("desktop_name_is_admins", key=key, name=name) for key, name in named(access) if is_admins(name, people)
    ]


def check_names(access: DesktopClient, people: People, conf: Path) -> None:
    """Raise ConfigError where a key of conf.json names an admin."""
    for why in closed(access, people):
        raise fault(conf, why)


def check_is_not_one(access: DesktopClient, name: str) -> None:
    """Raise ConflictError if desktop clients act by this name, which is to become an admin's."""
    for key, one in named(access):
        if one == name:
            raise ConflictError(Message("admin_is_desktop_name", key=key, name=name))


def check_claim(access: DesktopClient, people: People, old: str, new: str) -> None:
    """Raise ConflictError where what desktop clients have queued would become an admin's."""
    for key, name in named(access):
        if name == old and is_admins(new, people):
            raise ConflictError(Message("claim_from_desktop_name", key=key, name=old, to=new))
