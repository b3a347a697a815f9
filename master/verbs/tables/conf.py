"""The verbs `conf.…`: see `master.verbs.table`."""

from __future__ import annotations

from master.verbs import conf
from master.verbs.base import Verb
from master.verbs.kept_files import KeptFile

VERBS: dict[str, Verb] = {
    "conf.read": Verb(conf.OneFile, conf.FileText, conf.read, "admin", "admin", "none", repeatable=True),
    "conf.kept": Verb(conf.OneFile, list[KeptFile], conf.kept, "admin", "admin", "none", repeatable=True),
    "conf.write": Verb(conf.WriteFile, conf.FileWritten, conf.write, "admin", "admin", "none", "auth"),
}
