"""What others wrote lies here as they published it, but for what the manifest says, with its licence."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from tests.web.javascript import STATIC

VENDOR = STATIC / "vendor"
MANIFEST: dict[str, dict[str, Any]] = json.loads((VENDOR / "manifest.json").read_text(encoding="utf-8"))


def test_every_file_is_in_the_manifest() -> None:
    code = {path.name for path in VENDOR.iterdir() if path.suffix in {".js", ".css"}}
    assert code == set(MANIFEST)


@pytest.mark.parametrize("name", MANIFEST)
def test_a_file_is_what_was_published(name: str) -> None:
    entry = MANIFEST[name]
    data = (VENDOR / name).read_bytes()
    assert hashlib.sha256(data).hexdigest() == entry["sha256"]
    if "appended" in entry:
        data = data.removesuffix(entry["appended"].encode())
    if "replaced" in entry:
        before, after = map(str.encode, entry["replaced"])
        assert data.count(after) == 1
        data = data.replace(after, before)
    assert hashlib.sha256(data).hexdigest() == entry["sha256_published"]


@pytest.mark.parametrize("name", MANIFEST)
def test_a_file_has_its_licence_beside_it(name: str) -> None:
    entry = MANIFEST[name]
    text = (VENDOR / entry["licence_file"]).read_text(encoding="utf-8")
    assert {"MIT": "MIT", "Apache-2.0": "Apache License"}[entry["licence"]] in text
