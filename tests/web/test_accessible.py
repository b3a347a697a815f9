"""Who cannot see the console, or has no mouse, can use it: axe-core finds nothing (WCAG 2.2 AA), light or dark."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.system.lab import Lab
from tests.waiting import until
from tests.web.browser import signed_in, visit
from tests.web.console import Console

AXE = Path(__file__).parents[1] / "data" / "axe" / "axe.min.js"
SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}}
PATHS = (
    "",
    "queue?show=all",
    "tasks/1",
    "tasks/1?tab=details",
    "tasks/2?tab=why",
    "tasks/2?tab=edit",
    "submit",
    "nodes",
    "nodes/node0",
    "files",
    "environments",
    "admin/users?at=ann",
    "admin/settings?at=scheduler.urgent",
    "admin/maintenance",
    "admin/conf",
    "files/data",
    "me",
)


@pytest.fixture(scope="module", autouse=True)
def tasks(lab: Lab) -> None:
    with lab.client() as client:
        client.submit("echo 'Error: no'; exit 3", name="fails")
        client.submit(["true"], name="held", hold=True)
        until("the task failed", lambda: client.show(1)["state"] == "failed")


def found(page: Any) -> list[str]:
    """What axe-core has against the page, a line for each rule and its first element."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    result = page.evaluate("rules => axe.run(document, rules)", RULES)
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]} {one['nodes'][0]['failureSummary']}"
        for one in result["violations"]
    ]


def test_axe_is_what_was_published() -> None:
    assert hashlib.sha256(AXE.read_bytes()).hexdigest() == SHA256


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(browser: Browser, console: Console, theme: str) -> None:
    with signed_in(browser, console, theme=theme) as seen:
        for path in PATHS:
            seen.go(path)
            assert found(seen.page) == [], path
        seen.page.goto(f"{console.url}/wall")
        seen.page.wait_for_selector(".wall-node")
        assert found(seen.page) == [], "wall"
        seen.go("")
        seen.page.keyboard.press("?")
        seen.page.wait_for_selector("dialog[open]")
        assert found(seen.page) == [], "the keys"
    with visit(browser, console, theme=theme) as seen:
        seen.page.goto(console.url)
        seen.page.wait_for_selector("form")
        assert found(seen.page) == [], "sign in"
