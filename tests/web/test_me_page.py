"""One's own page in the browser: another log-in is ended there, the password changed, language and theme kept."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from client.api import connect
from tests.system.lab import Lab
from tests.web.browser import signed_in, visit
from tests.web.console import PASSWORD, Console

GROUND = "getComputedStyle(document.documentElement).backgroundColor"


@pytest.fixture(autouse=True)
def bea(lab: Lab) -> None:
    """A user who has signed in nowhere."""
    with lab.client() as owner:
        if "bea" not in {one["name"] for one in owner.people.users()}:
            owner.people.add("bea", password=PASSWORD)
        owner.people.revoke_tokens([one["id"] for one in owner.people.tokens("bea")])


def test_a_log_in_of_another_browser_is_ended_and_its_open_page_with_it(browser: Browser, console: Console) -> None:
    with signed_in(browser, console, "bea") as here, signed_in(browser, console, "bea") as there:
        there.go("queue")
        here.go("me")
        buttons = here.page.locator("table td button.is-danger")
        expect(buttons).to_have_count(1)  # none ends the log-in of this page
        buttons.click()
        expect(here.page.locator("dialog[open] .command code")).to_contain_text("muster tokens revoke ")
        here.page.locator("dialog[open] button.is-danger").click()
        expect(buttons).to_have_count(0)
        expect(there.page.locator("input[name=user]")).to_be_visible()
        here.go("queue")
        there.complaints = []  # it told of the 401 that ended it


def test_a_password_is_changed_by_who_knows_the_one_before(browser: Browser, console: Console) -> None:
    other = "eight slow lanterns hum"
    with signed_in(browser, console, "bea") as seen:
        seen.go("me")
        for old, new in ((f"not {PASSWORD}", other), (PASSWORD, other)):
            seen.page.fill("input[name=old]", old)
            seen.page.fill("input[name=new]", new)
            seen.page.click("form:has(input[name=old]) button")
            expect(seen.page.locator("form .refusal" if old != PASSWORD else ".toast")).to_be_visible()
    with visit(browser, console) as seen:
        seen.sign_in("bea", other)
        seen.go("me")
        seen.page.fill("input[name=old]", other)
        seen.page.fill("input[name=new]", PASSWORD)
        seen.page.click("form:has(input[name=old]) button")
        expect(seen.page.locator(".toast")).to_be_visible()


IN_WORDS = (("en", "3 of your tasks wait, and 4 may"), ("zh-CN", "您有 3 个任务在等待，上限为 4"))


@pytest.mark.parametrize(("language", "words"), IN_WORDS)
def test_the_share_of_the_queue_is_shown_once_half_of_it_is_taken(
    lab: Lab, browser: Browser, console: Console, language: str, words: str
) -> None:
    with lab.client() as owner, connect(conf=str(lab.conf), token=owner.people.new_token("bea")["token"]) as bea:
        owner.settings.set("limits.waiting_tasks", 8)
        ids = [bea.submit(["true"], hold=True)]
        try:
            with signed_in(browser, console, "bea", language=language) as seen:
                seen.go("me")
                expect(seen.page.locator("form:has(input[name=old])")).to_be_visible()
                expect(seen.page.locator("#share")).to_have_count(0)
                ids += [bea.submit(["true"], hold=True) for _ in range(2)]
                expect(seen.page.locator("#share")).to_contain_text(words, timeout=20_000)
        finally:
            bea.cancel(ids)
            owner.settings.reset("limits.waiting_tasks")


def test_language_and_theme_are_those_that_were_chosen_also_at_the_next_visit(
    browser: Browser, console: Console
) -> None:
    with signed_in(browser, console, "bea", theme="light") as seen:
        seen.go("me")
        light = seen.page.evaluate(GROUND)
        seen.page.get_by_role("button", name="Dark").click()
        seen.page.get_by_role("button", name="中文").click()
        expect(seen.page.locator("main h2").first).to_have_text("此浏览器")
        seen.go("queue")
        assert seen.page.evaluate("document.documentElement.lang") == "zh-CN"
        assert seen.page.evaluate(GROUND) != light
