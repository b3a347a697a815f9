"""The pictures of the console in the documents: each is there, small, and one that `make screenshots` makes."""

from __future__ import annotations

import re

import pytest

from tests.system.lab import ROOT
from tests.web.pictures import FOLDER, MOST_BYTES, MOST_TOGETHER

PAGES = ("docs/web.md", "docs/web.zh-CN.md", "README.md", "README.zh-CN.md")
SHOWN = re.compile(r"!\[([^\]]+)\]\(([^)]+\.png)\)")


def shown(page: str) -> list[str]:
    """The pictures that a document shows."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [str(((ROOT / page).parent / path).resolve().relative_to(ROOT)) for _, path in SHOWN.findall(text)]


@pytest.mark.parametrize("page", PAGES)
def test_every_picture_that_a_document_shows_is_there(page: str) -> None:
    assert shown(page)
    assert [path for path in shown(page) if not (ROOT / path).is_file()] == []


def test_every_picture_is_shown_and_small() -> None:
    sizes = {str(path.relative_to(ROOT)): path.stat().st_size for path in FOLDER.glob("*.png")}
    assert set(sizes) == {path for page in PAGES for path in shown(page)}
    assert [path for path, size in sizes.items() if size > MOST_BYTES] == []
    assert sum(sizes.values()) < MOST_TOGETHER
