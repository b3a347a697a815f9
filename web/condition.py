"""The console's condition, for `muster status`: which console runs, and the state of its certificate. Owns the file
`web.json` in task_info."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from web.certificates import Certificates
from wire.errors import ConfigError
from wire.version import VERSION

log = logging.getLogger("muster.web")

FILE = "web.json"


class Condition:
    """`url`: what people type into a browser; `path`: the file."""

    def __init__(self, path: Path, url: str, certificates: Certificates) -> None:
        self._path = path
        self._url = url
        self._certificates = certificates

    def tell(self, fault: str | None = None) -> None:
        """Write it anew. `fault`: why the certificate that lies there is not the one that is shown."""
        told = {
            "pid": os.getpid(),
            "version": VERSION,
            "url": self._url,
            "certificate_ends": None if fault else self._ends(),
            "certificate_fault": fault,
        }
        draft = self._path.with_name(f"{self._path.name}.new")
        try:
            draft.write_text(json.dumps(told) + "\n", encoding="ascii")
            draft.replace(self._path)
        except OSError as error:  # it works without
            log.warning("%s cannot be written: %s", self._path, error.strerror)

    def _ends(self) -> float | None:
        try:
            return self._certificates.ends().timestamp()
        except ConfigError:
            return None
