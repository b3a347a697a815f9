"""A part of a page that did not come (a browser gives up what it is fetching when an address comes or goes on its
machine, and asks for no module twice) is no reason to stay white: the page comes whole by itself."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.soak import one_in
from tests.web.browser import signed_in
from tests.web.console import Console

PARTS = (
    *("app.js", "style/base.css", "pages/queue.js", "words/zh-CN/index.js", "core/store.js", "vendor/preact.js"),
    *("style/parts.css", "words/zh-CN/tasks.js", "words/zh-CN/ui.js", "parts/table.js", "api/v1/me", "style/pages.css"),
)


STYLED = """() => {
    const [body, tabs] = [document.body, document.querySelector(".tools .tabs")];
    return body && tabs && getComputedStyle(body).margin === "0px" && getComputedStyle(tabs).display === "flex";
}"""


@pytest.mark.parametrize("part", one_in(3, PARTS))
def test_what_was_lost_once_comes_by_itself(browser: Browser, console: Console, part: str) -> None:
    with signed_in(browser, console, language="zh-CN") as seen:
        lost: list[str] = []

        def lose(route: Route) -> None:
            if lost:
                route.continue_()
            else:
                lost.append(route.request.url)
                route.abort("internetdisconnected")

        seen.page.route(f"**/{part}", lose)
        seen.page.goto(f"{console.url}/queue")
        seen.page.wait_for_selector(".live.is-live")
        expect(seen.page.locator("h1")).to_have_text("队列")
        seen.page.wait_for_function(STYLED)
        assert len(lost) == 1
        seen.complaints = []  # it told of what did not come


@pytest.mark.parametrize(("path", "part"), [("admin/settings", "pages/admin/settings.js"), ("nodes", "pages/nodes.js")])
def test_a_part_that_does_not_come_is_no_defect_of_the_page(
    browser: Browser, console: Console, path: str, part: str
) -> None:
    with signed_in(browser, console) as seen:
        seen.page.route(f"**/{part}", lambda route: route.abort("internetdisconnected"))
        seen.page.goto(f"{console.url}/{path}")
        expect(seen.page.locator("main .empty")).to_have_text(
            "A part of this page did not come; it is asked for again in a moment."
        )
        seen.page.unroute(f"**/{part}")
        expect(seen.page.locator("main table").first).to_be_visible()
        seen.complaints = []


def test_where_the_first_script_is_lost_there_is_something_to_click(browser: Browser, console: Console) -> None:
    with signed_in(browser, console) as seen:
        seen.page.route("**/start.js", lambda route: route.abort("internetdisconnected"))
        seen.page.goto(f"{console.url}/queue")
        expect(seen.page.get_by_role("link", name="Load again")).to_be_visible()
        seen.page.unroute("**/start.js")
        seen.page.get_by_role("link", name="Load again").click()
        seen.page.wait_for_selector(".live.is-live")
        seen.complaints = []
