"""The console as a whole, with all of it there: each page in Chinese, English, dark and on a phone, looked through by
axe-core and walked by keyboard; away from the network and back; many tabs; a hundred thousand tasks; a log of a GiB.

Whatever the browser complains of fails, here as in every test of a page. Slow, so most is `make soak`'s. Who wants to
look at the pages names a folder in MUSTER_PICTURES.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.system.lab import Lab
from tests.waiting import until
from tests.web.browser import NARROW, WIDE, Visit, signed_in
from tests.web.console import Console
from tests.web.test_accessible import found
from tests.web.test_pages import PATHS as PAGES

PATHS = (
    *(path for path in PAGES if "%" not in path),
    *(
        "queue?show=all&group=array",
        "queue?show=ended&q=state:failed",
        "sweeps/1",
        "environments?env=none",
        "submit?env=none",
    ),
    "nodes?q=none",
)
LOOKS: dict[str, dict[str, Any]] = {
    "en": {"language": "en", "size": WIDE},
    "zh": {"language": "zh-CN", "size": WIDE},
    "dark": {"language": "zh-CN", "size": WIDE, "theme": "dark"},
    "phone": {"language": "zh-CN", "size": NARROW},
    "phone-en": {"language": "en", "size": NARROW},
}
PICTURES = os.environ.get("MUSTER_PICTURES")
LONG = "消融实验" * 30
GIB = 1 << 30
CLIPPED = """() => [...document.querySelectorAll("main button, main label, main h1, main h2, main .chip")]
    .filter((one) => one.offsetParent && getComputedStyle(one).overflow !== "visible")
    .filter((one) => one.scrollWidth > one.clientWidth + 1)
    .filter((one) => !one.matches(".unseen") && !one.title && !one.closest("[title]"))
    .map((one) => one.outerHTML.slice(0, 120))"""
BEYOND = """() => [...document.querySelectorAll("body *")].filter((one) => {
    const box = one.getBoundingClientRect();
    if (!box.width || box.right <= innerWidth + 1 || getComputedStyle(one).position === "fixed") return false;
    for (let up = one.parentElement; up; up = up.parentElement)
        if (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(up).overflowX)) return false;
    return true;
}).map((one) => one.outerHTML.slice(0, 120))"""
FOCUS = """() => {
    const one = document.activeElement;
    if (!one || one === document.body) return null;
    const style = getComputedStyle(one);
    const box = one.getBoundingClientRect();
    const isSeen = box.width > 0 && box.height > 0;
    const isMarked = style.outlineStyle !== "none" || style.boxShadow !== "none";
    return { html: one.outerHTML.slice(0, 120), isSeen, isMarked };
}"""


@pytest.fixture(scope="module", autouse=True)
def tasks(lab: Lab) -> None:
    """Some of each kind, with long names, and one whose name is another direction's."""
    with lab.client() as client:
        client.submit("echo 'Error: no such file'; exit 3", name="fails")
        client.submit(["true"], name=LONG, hold=True, project="很长的项目名称" * 5)
        client.submit(["true"], name="\u202eevil\u2066name\u200f", hold=True)
        client.submit_array("echo {lr}", sweep={"lr": ["1", "2", "3"]}, name="扫描-{lr}", hold=True)
        client.people.edit("ann", display="欧阳" * 20)
        until("the task failed", lambda: client.show(1)["state"] == "failed")


@pytest.mark.soak
@pytest.mark.parametrize("look", LOOKS)
def test_every_page_is_whole_and_axe_finds_nothing(browser: Browser, console: Console, look: str) -> None:
    odd: list[str] = []
    with signed_in(browser, console, **LOOKS[look]) as seen:
        for path in PATHS:
            seen.go(path)
            seen.page.wait_for_load_state("networkidle")
            keep(seen, f"{look}-{path}")
            odd += [f"{path}: wider than the window"] if seen.is_wider_than_the_window() else []
            odd += [f"{path}: cut off: {one}" for one in seen.page.evaluate(CLIPPED)]
            odd += [f"{path}: out of sight: {one}" for one in seen.page.evaluate(BEYOND)]
            odd += [f"{path}: {one}" for one in found(seen.page)]
    assert odd == []


def keep(seen: Visit, name: str) -> None:
    """A picture, for who asked for them."""
    if PICTURES:
        path = Path(PICTURES) / f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}.png"
        seen.page.screenshot(path=path)


@pytest.mark.soak
@pytest.mark.parametrize("path", [path for path in PATHS if not path.startswith("no/")])
def test_who_has_only_keys_sees_where_he_is_and_is_stuck_nowhere(browser: Browser, console: Console, path: str) -> None:
    with signed_in(browser, console) as seen:
        seen.go(path)
        been: list[str] = []
        for _ in range(45):
            seen.page.keyboard.press("Tab")
            at = seen.page.evaluate(FOCUS)
            if at is None:
                break
            assert at["isSeen"], at
            assert at["isMarked"], at
            been.append(at["html"])
        assert len(set(been)) > 8, "it leads on"


def test_a_page_away_from_the_network_says_so_and_comes_back(browser: Browser, console: Console, lab: Lab) -> None:
    with signed_in(browser, console) as seen:
        seen.go("queue")
        rows = seen.count("td.of-id")
        seen.page.context.set_offline(offline=True)
        console.kill()  # what is open already is not cut off by that
        expect(seen.page.locator(".banner")).to_be_visible()
        console.start()
        with lab.client() as client:
            number = client.submit(["true"], name="meanwhile", hold=True)
        expect(seen.page.locator("td.of-id")).to_have_count(rows)
        seen.page.context.set_offline(offline=False)
        expect(seen.page.locator("td.of-id", has_text=str(number))).to_be_visible()
        expect(seen.page.locator(".banner")).to_have_count(0)
        seen.complaints = []  # it told of what it did not reach


@pytest.mark.parametrize("count", [7, pytest.param(20, marks=pytest.mark.soak)])
def test_many_tabs_of_a_browser_are_all_told(browser: Browser, console: Console, lab: Lab, count: int) -> None:
    with signed_in(browser, console) as seen:
        seen.go("queue")
        pages = [seen.page, *(seen.page.context.new_page() for _ in range(count - 1))]
        key = seen.page.evaluate("localStorage.getItem('muster.key')")
        assert key
        for page in pages[1:]:
            page.goto(f"{console.url}/queue")
        for page in pages:
            page.wait_for_selector(".live.is-live", state="attached")
        with lab.client() as client:
            number = client.submit(["true"], name="for all", hold=True)
        for page in pages:
            expect(page.locator("td.of-id", has_text=str(number))).to_be_attached()


@pytest.mark.soak
def test_a_hundred_thousand_tasks_are_one_list(browser: Browser, console: Console, lab: Lab) -> None:
    with lab.client() as client:
        for _ in range(10):
            client.submit_batch(["true"] * 10_000, name="many", hold=True, project="crowd")
    with signed_in(browser, console) as seen:
        seen.go("queue?q=project:crowd")
        expect(seen.page.locator(".action-count")).to_have_text("100,000 tasks")
        seen.page.evaluate("document.querySelector('.table-box').scrollTop = 1e9")
        expect(seen.page.locator("tr[aria-rowindex='100001']")).to_be_visible()
        assert seen.page.evaluate("document.querySelectorAll('*').length") < 1_500
        seen.page.locator("thead input[type=checkbox]").click()
        expect(seen.page.locator(".action-count")).to_have_text("100,000 selected")
    with lab.client() as client:
        client.cancel(everything=True)


@pytest.mark.soak
def test_a_log_of_a_gib_is_shown_from_its_end_searched_and_gone_through(
    browser: Browser, console: Console, lab: Lab
) -> None:
    with lab.client() as client:
        number = client.submit("echo begin")
        until("it ended", lambda: client.show(number)["state"] == "succeeded")
        path = Path(client.show(number)["log_path"])
    block = b"".join(b"step %07d  loss 1.2345\n" % step for step in range(40_000))
    with path.open("ab") as log:
        log.write(b"needle near the start\n")
        log.writelines(block for _ in range(GIB // len(block)))
        log.write(b"the very end\n")
    with signed_in(browser, console) as seen:
        seen.go(f"tasks/{number}?tab=log")
        expect(seen.page.locator(".log-line", has_text="the very end")).to_be_visible()
        seen.page.get_by_role("button", name="Start", exact=True).click()
        expect(seen.page.locator(".log-line", has_text="needle near the start")).to_be_visible()
        seen.page.get_by_role("button", name="End", exact=True).click()
        expect(seen.page.locator(".log-line", has_text="the very end")).to_be_visible()
        seen.page.fill(".log-tools input[type=search]", "needle")
        seen.page.keyboard.press("Enter")
        expect(seen.page.locator(".log-found li").first).to_contain_text("needle near the start")
        assert seen.page.evaluate("document.querySelectorAll('.log-line').length") < 300
    path.unlink()
