"""audit.read: who changed what."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from master.people.audit import AuditEntry, Wanted
from master.verbs.base import Context
from wire.errors import StorageError
from wire.message import Message


class ReadAudit(msgspec.Struct, forbid_unknown_fields=True):
    """audit.read: at most `limit` lines, not older than `since` (seconds since the epoch), of this `user`, about this
    `verb`, or about all of a noun (`task`)."""

    since: float | None = None
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 100
    user: str | None = None
    verb: Annotated[str | None, Meta(examples=["task.cancel"])] = None


class AuditPage(msgspec.Struct, frozen=True):
    """`entries`: lines of the audit log, the newest first. `unreadable`: so many lines were met that are none."""

    entries: list[AuditEntry]
    unreadable: int


async def read(context: Context, params: ReadAudit) -> AuditPage:
    """Return who changed what, and who was refused, newest first."""
    audit = context.master.audit
    try:
        found = await audit.read(Wanted(params.since, params.user, params.verb), params.limit)
    except OSError as error:
        why = error.strerror or str(error)
        raise StorageError(Message("audit_unreadable", folder=str(audit.folder), why=why)) from error
    return AuditPage(found.entries, found.unreadable)
