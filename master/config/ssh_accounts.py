"""The SSH accounts over which the tasks of their owners run on nodes where nobody is root, as conf.json and the
registry name them, and what is wrong with a key that opens one.

Anybody who can read such a key is that user on the nodes: a file that others can read or change is refused as a key.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from master.edited_files import json_file
from master.edited_files.ownership import user_name
from wire.message import Message
from wire.pattern import Pattern

_OWNER = Pattern(r"[a-z_][a-z0-9_-]{0,31}")
_LOGIN = Pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
ROOT = "root"


class SshAccount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`user_name`: the account on the node; `key_file`: of the private key that opens it, on the master."""

    user_name: str
    key_file: str


def typed(accounts: Mapping[str, SshAccount], path: Path, key: str) -> dict[str, SshAccount]:
    """The accounts by their owners, with absolute paths of keys; those in the file are meant from its folder on. `path`
    and `key` are for the messages. Raises ConfigError."""
    for owner, account in accounts.items():
        if not _OWNER.fullmatch(owner):
            raise json_file.wrong(path, key, owner, Message("names_of_users"))
        if not _LOGIN.fullmatch(account.user_name) or account.user_name == ROOT:
            allowed = Message("account_not_root")
            raise json_file.wrong(path, f"{key}.{owner}.user_name", account.user_name, allowed)
        if not account.key_file.strip():
            raise json_file.wrong(path, f"{key}.{owner}.key_file", account.key_file, Message("path_of_key"))
    return {
        owner: SshAccount(account.user_name, str(path.parent.absolute() / Path(account.key_file).expanduser()))
        for owner, account in accounts.items()
    }


def key_fault(key_file: str) -> Message | None:
    """Why a file is not taken for the key of an account: it is not there, or somebody else has a hand in it; None where
    it is."""
    try:
        info = Path(key_file).stat()
    except OSError as error:
        return Message("key_file_unreadable", path=key_file, said=error.strerror)
    if info.st_uid not in (0, os.geteuid()):
        return Message("key_file_of_another", path=key_file, owner=user_name(info.st_uid), ours=user_name(os.geteuid()))
    if not stat.S_ISREG(info.st_mode) or info.st_mode & 0o077:
        return Message("key_file_open", path=key_file)
    return None
