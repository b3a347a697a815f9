"""A lab with users and a console, for tests that leave both as they are, and a browser with an admin in front of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.system.lab import Lab
from tests.web.browser import Visit, chromium, signed_in
from tests.web.console import PASSWORD, PROXY, Console


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A master with an admin, a user and a viewer, and an empty folder that they may see."""
    made = Lab(tmp_path_factory.mktemp("web") / "lab", nodes=1)
    (made.folder / "data").mkdir()
    made.write_conf(visible_folders=["data"])
    made.start()
    with made.client() as owner:
        for name, role in (("root2", "admin"), ("ann", "user"), ("eve", "viewer")):
            owner.people.add(name, role=role, password=PASSWORD)
    yield made
    assert made.close() == []


@pytest.fixture(scope="module")
def console(lab: Lab) -> Iterator[Console]:
    """Its console."""
    with Console(lab, proxies=[PROXY]) as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, with nothing open."""
    with chromium() as made:
        yield made


@pytest.fixture
def seen(browser: Browser, console: Console) -> Iterator[Visit]:
    """The console as an admin has it before him who signed in just now."""
    with signed_in(browser, console) as made:
        yield made


@pytest.fixture
def lab_of_one(tmp_path: Path) -> Iterator[Lab]:
    """A folder in which no master runs yet, nor is left at the end."""
    made = Lab(tmp_path / "lab", nodes=1)
    yield made
    assert made.close() == []
