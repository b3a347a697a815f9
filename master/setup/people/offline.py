"""Changes users while the master is down: with the lock of the folder held, the change is written to the journal like
any other, and then to the audit log.

Only the owner of the queue's folder may do so, and root, who first becomes that account: the master could not read
files that root left there.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import pwd
from collections.abc import Callable
from pathlib import Path

from master.config.config import Config
from master.core.outcome import Pending
from master.core.people.people import People
from master.durable.disk import OsDisk
from master.durable.journal import JOURNAL
from master.durable.legacy import OldFolders
from master.durable.store import Store
from master.durable.witness import witness_path
from master.edited_files.ownership import user_name
from master.people.audit import AuditLog
from wire.errors import ForbiddenError, LockedError, NotFoundError
from wire.lab import read as read_lab
from wire.message import Message
from wire.state_folder import check_alone

AUDIT, OFFLINE = "audit", "offline"


def has_queue(folder: Path) -> bool:
    """Did a master ever work there?"""
    return (folder / JOURNAL).exists()


def change_people(config: Config, verb: str, name: str, change: Callable[[People], object]) -> None:
    """Make one change of the people that there are, which is about this user, as the verb of that name would. Raises
    what `change` does, NotFoundError where there is no queue, ForbiddenError, LockedError while a master has the
    folder, and what a start is refused for."""
    folder = config.task_info
    if not folder.exists():
        raise NotFoundError(Message("no_queue_yet", folder=str(folder)))
    lab = read_lab(str(config.path))
    by = _become_owner(folder)
    check_alone(str(config.path), str(folder), lab)
    store = Store(
        folder,
        OsDisk(),
        old_places=OldFolders(str(config.root), str(config.train_logs)),
        witness=witness_path(config.server_log),
    )
    try:
        image = store.open()
    except LockedError:
        raise LockedError(_held(folder)) from None
    try:
        pending = Pending()
        people = People(pending)
        people.load(image.state)
        change(people)
        outcome = pending.take()
        if outcome is not None:
            store.append(outcome.change)
            store.commit()
    finally:
        store.close()
    asyncio.run(_told(folder, by, verb, name))


def _become_owner(folder: Path) -> str:
    """Have the rights of who runs the master, and no others; gives who we were. Raises ForbiddenError."""
    owner, by = folder.stat().st_uid, user_name(os.getuid())
    if os.geteuid() == owner:
        return by
    if os.geteuid() != 0:
        whose = user_name(owner)
        raise ForbiddenError(Message("queue_of_another", folder=str(folder), owner=whose))
    # Modules that load later may lie where only root can read.
    codecs.lookup("ascii")
    import wire.english  # noqa: F401, PLC0415

    try:
        entry = pwd.getpwuid(owner)
    except KeyError:
        os.setgroups([])
        gid = folder.stat().st_gid
    else:
        os.initgroups(entry.pw_name, entry.pw_gid)
        gid = entry.pw_gid
    os.setresgid(gid, gid, gid)
    os.setresuid(owner, owner, owner)
    return by


def _held(folder: Path) -> Message:
    try:
        pid = int((folder / "lock").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return Message("master_holds_queue_unseen", folder=str(folder))
    return Message("master_holds_queue", folder=str(folder), pid=pid)


async def _told(folder: Path, by: str, verb: str, name: str) -> None:
    audit = AuditLog(folder / AUDIT)
    audit.record(by, OFFLINE, "owner", verb, name)
    audit.close()
