"""The verbs `audit.…`: see `master.verbs.table`."""

from __future__ import annotations

from master.verbs import audit
from master.verbs.base import Verb

VERBS: dict[str, Verb] = {
    "audit.read": Verb(
        audit.ReadAudit, audit.AuditPage, audit.read, "admin", "admin", "none", repeatable=True, quiet=True
    ),
}
