"""The console of a lab with two hundred nodes with long Chinese names: pages are whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.system.lab import Lab
from tests.web.browser import LANGUAGES, NARROW, WIDE, signed_in
from tests.web.console import PASSWORD, Console
from tests.web.test_accessible import found
from tests.web.test_whole_console import BEYOND, CLIPPED, keep

NODES, GPUS = 200, 8
LONG = "计算节点" * 8
MOST_ELEMENTS = {"nodes": 2_500, "": 7_000}
"""Of a page: a list has those rows that one sees; the overview has each GPU."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One whose nodes dial in, and have not yet: no agent runs."""
    made = Lab(tmp_path_factory.mktemp("large") / "lab", nodes=0)
    entry = {"ip": "192.0.2.1", "driver": "report", "gpu_count": GPUS, "gpu_info": ["RTX4090"] * GPUS}
    made.write_registry([{"name": f"{LONG}-{number}", **entry} for number in range(NODES)])
    made.start()
    with made.client() as owner:
        owner.people.add("root2", role="admin", password=PASSWORD)
    yield made
    assert made.close() == []


@pytest.mark.soak
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "phone"])
def test_two_hundred_nodes_are_shown_whole(
    browser: Browser, console: Console, language: str, size: tuple[int, int]
) -> None:
    odd: list[str] = []
    with signed_in(browser, console, language=language, size=size) as seen:
        for path, most in MOST_ELEMENTS.items():
            seen.go(path)
            expect(seen.page.get_by_text(f"{LONG}-0", exact=True).first).to_be_attached()
            keep(seen, f"large-{language}-{size[0]}-{path or 'overview'}")
            odd += [f"{path}: wider than the window"] if seen.is_wider_than_the_window() else []
            odd += [f"{path}: cut off: {one}" for one in seen.page.evaluate(CLIPPED)]
            odd += [f"{path}: out of sight: {one}" for one in seen.page.evaluate(BEYOND)]
            odd += [f"{path}: {one}" for one in found(seen.page)]
            count = int(seen.page.evaluate("document.querySelectorAll('*').length"))
            odd += [f"{path}: {count} elements"] if count > most else []
    assert odd == []
