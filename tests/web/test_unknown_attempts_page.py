"""Attempts of unknown origin on the page of their node: an admin adopts one, ends one and leaves one alone."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, expect

from tests.system.lab import Lab
from tests.system.test_unknown_attempts import emptied, found, lose, training
from tests.waiting import until
from tests.web.browser import signed_in
from tests.web.console import PASSWORD, Console


def test_an_admin_adopts_one_ends_one_and_leaves_one_alone(browser: Browser, lab_of_one: Lab, tmp_path: Path) -> None:
    lab = lab_of_one
    holds = [tmp_path / f"holds{at}" for at in range(3)]
    lab.start()
    with lab.client() as client:
        numbers = [training(client, one, gpus=1) for one in holds]
    lose(lab, emptied)
    launches = {one["task"]: str(one["launch_id"]) for one in found(lab)}
    adopted, ended, dismissed = (launches[number] for number in numbers)
    with lab.client() as client:
        for name, role in (("root2", "admin"), ("ann", "user")):
            client.people.add(name, role=role, password=PASSWORD)
    with Console(lab) as console:
        with signed_in(browser, console, "ann") as seen:
            seen.go("nodes/node0")
            expect(seen.page.locator(".facts")).to_be_visible()
            assert "Attempts of unknown origin" not in seen.texts("h2")
        with signed_in(browser, console) as seen:
            seen.go("nodes/node0")
            assert seen.count("tbody .gpu.is-foreign") == len(holds)
            assert seen.count("button:has-text('Return it')") == 0, "nobody set them aside"
            said = seen.page.locator("td .warned code").first
            assert said.evaluate("(one) => getComputedStyle(one).display") == "inline", "within its sentence"
            press(seen.page, adopted, "Adopt")
            seen.page.fill("dialog input", "ann")
            seen.page.click("dialog button.primary")
            with lab.client() as client:
                until("it is a task of ann's", lambda: [one["owner"] for one in client.tasks()] == ["ann"])
            press(seen.page, dismissed, "Dismiss")
            seen.page.click("dialog button.primary")
            expect(row(seen.page, dismissed)).to_contain_text("dismissed")
            press(seen.page, ended, "End")
            expect(seen.page.locator("dialog code")).to_have_text(f"muster node attempts node0 --end {ended}")
            seen.page.click("dialog button.primary")
            expect(row(seen.page, ended)).to_have_count(0)
            expect(row(seen.page, adopted)).to_have_count(0)
    assert [one["launch_id"] for one in found(lab)] == [dismissed]
    for one in holds:
        one.with_suffix(".go").touch()
    until("all have ended", lambda: lab.attempts_alive() == [])


def row(page: Page, launch: str) -> Locator:
    return page.locator("tr", has=page.locator("td:first-child code", has_text=launch))


def press(page: Page, launch: str, what: str) -> None:
    row(page, launch).get_by_role("button", name=what).click()
