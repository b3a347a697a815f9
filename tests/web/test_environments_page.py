"""Environments in the browser: which there are, what is in one, and in what two differ."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.people_here import PeopleHere
from tests.system.lab import Lab
from tests.system.test_envs import distribution
from tests.web.browser import signed_in
from tests.web.console import PASSWORD, Console

ADMIN = "alice"
"""An admin with an account here: nobody's environment is looked into as root."""
PYTHON = "/usr/bin/python3"
"""One that every account may run."""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """A lab with two environments, in a folder that other accounts may enter."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        made = Lab(folder / "lab", nodes=1)
        made.before = PeopleHere(folder).inside
        for env, packages in (("old", {"torch": "2.1.0", "typing_extensions": "4.0"}),
                              ("new", {"torch": "2.4.0", "typing-extensions": "4.0", "only-here": "1"})):  # fmt: skip
            place = made.folder / "conda" / "envs" / env
            subprocess.run([PYTHON, "-m", "venv", "--without-pip", str(place)], check=True)
            for package, version in packages.items():
                distribution(place, package, version)
        made.write_conf(conda=str(made.folder / "conda"))
        made.start()
        with made.client() as owner:
            owner.people.add(ADMIN, role="admin", password=PASSWORD)
            owner.people.add("eve", role="viewer", password=PASSWORD)
        yield made
        assert made.close() == []


def test_an_environment_is_looked_into_and_compared_with_another(browser: Browser, console: Console) -> None:
    with signed_in(browser, console, ADMIN) as seen:
        seen.go("environments")
        seen.page.keyboard.press("j")
        expect(seen.page.locator(".env-one h1")).to_have_text("new")
        expect(seen.page.locator(".env-one .is-good")).to_have_text("Tasks can use it, as node0 sees it")
        expect(seen.page.locator(".env-packages td.of-package")).to_have_text(
            ["only-here", "torch", "typing-extensions"]
        )
        seen.page.select_option(".env-packages select", "old")
        expect(seen.page.locator(".env-packages td.of-package")).to_have_text(["only-here", "torch"])
        expect(seen.page.locator(".env-packages td.of-there")).to_have_text(["not there", "2.1.0"])
        seen.page.click("a:has-text('Submit with it')")
        expect(seen.page.locator("select[name=env]")).to_have_value("new")


def test_an_environment_that_cannot_be_used_says_why(browser: Browser, console: Console) -> None:
    with signed_in(browser, console, ADMIN) as seen:
        seen.go("environments?env=<b>none</b>")
        expect(seen.page.locator(".env-one .refusal").first).to_contain_text("<b>none</b>")


def test_who_may_look_on_only_sees_which_there_are(browser: Browser, console: Console) -> None:
    with signed_in(browser, console, "eve", language="zh-CN") as seen:
        seen.go("environments?env=new")
        expect(seen.page.locator(".env-one")).to_contain_text("管理员")
