"""The versions that labs run already, frozen in `tests/data/landed`: unpacked where a test may start them, and asked in
their own words by their own client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

FROZEN = Path(__file__).parent / "data" / "landed"
VERSIONS = ("users", "before", "earlier")
PATIENCE_S = 120.0
_ASK = """
import json, sys
from client.api import connect
with connect(conf=sys.argv[1]) as lab:
    answers = [getattr(lab, name)(*words, **keys) for name, words, keys in json.load(sys.stdin)]
print(json.dumps(answers))
"""


def unpack(version: str, folder: Path) -> Path:
    """Lay out the code of one of `VERSIONS` in `folder`, which is what has to be on the path to run it."""
    with tarfile.open(FROZEN / f"{version}.tar.xz") as archive:
        # As an attribute, for a Python 3.11 older than 3.11.4 knows no filters, and a newer one wants to be told.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _path: member)
        archive.extractall(folder)  # noqa: S202  (our own files)
    return folder


def ask(code: Path, conf: Path, *calls: tuple[str, list[Any], dict[str, Any]]) -> list[Any]:
    """Have that code's client call its methods, (name, arguments, keywords) each; what they gave."""
    return list(json.loads(run(code, "-c", _ASK, str(conf), told=json.dumps(calls))))


def run(code: Path, *words: str, told: str = "", **settings: str) -> str:
    """Run this Python with that code, and these settings in the environment; what it wrote. Raises
    CalledProcessError."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=code,
        env={**os.environ, "PYTHONPATH": str(code), **settings},
        input=told,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    ).stdout


def as_now(task: dict[str, Any]) -> dict[str, Any]:
    """A task as a version before wrote it, as this one would: where its attempt was sent stands in the attempt's one
    part, and that somebody cancelled it is why its end was asked for."""
    now = dict(task)
    sent, cancelled = now.pop("launch", None), now.pop("cancel_requested", False)
    if sent is not None:
        (place,) = task["allocation"]
        now["allocation"] = [{**place, **{key: value for key, value in sent.items() if key != "node"}}]
    if cancelled:
        now["asked_end"] = {"why": "cancel", "by": ""}
    return now
