"""What happens at the wrong moment: a button pressed twice, rights that end under a page, the way back, two tabs that
change the same, a console of another version behind an open page."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, WebSocketRoute, expect

from tests.system.lab import Lab
from tests.waiting import until
from tests.web.browser import Visit, signed_in
from tests.web.console import Console
from web.pages import FOLDER


def named(lab: Lab, name: str) -> int:
    """How many tasks are called so."""
    with lab.client() as client:
        return len({task["id"] for task in client.tasks(ended=True) + client.tasks() if task["name"] == name})


@pytest.mark.parametrize("how", ["double click", "keys"])
def test_a_form_that_is_sent_twice_in_a_moment_files_one_task(seen: Visit, lab: Lab, how: str) -> None:
    seen.go("submit")
    seen.page.fill("textarea[name=command]", "true")
    seen.page.fill("input[name=name]", how)
    seen.page.check("input[name=hold]")
    if how == "keys":
        seen.page.keyboard.down("Control")
        seen.page.keyboard.press("Enter")
        seen.page.keyboard.press("Enter")
        seen.page.keyboard.up("Control")
    else:
        seen.page.get_by_role("button", name="Submit", exact=True).dblclick()
    expect(seen.page.locator(".task-head")).to_be_visible()
    assert named(lab, how) == 1


def test_nothing_can_be_chosen_before_the_rows_are_there(seen: Visit, lab: Lab) -> None:
    with lab.client() as client:
        client.submit(["true"], name="comes late", hold=True)
    kept = []  # what tells it, on its way to the page

    def between(page: WebSocketRoute) -> None:
        server = page.connect_to_server()
        server.on_message(
            lambda told: kept.append(lambda: page.send(told)) if "comes late" in str(told) else page.send(told)
        )

    seen.page.route_web_socket("**", between)
    seen.page.goto(f"{seen.console.url}/queue?q=comes")
    box = seen.page.locator("thead input")
    expect(box).to_be_disabled()
    expect(seen.page.locator("main [aria-busy=true]")).to_have_text("Loading…")
    until("the rows are on their way", lambda: seen.page.title() and kept)
    kept.pop()()
    box.click()
    expect(seen.page.locator(".action-count")).to_contain_text("1")


def test_a_token_that_is_asked_for_twice_in_a_moment_is_one(seen: Visit) -> None:
    seen.go("me")
    rows = seen.count("table:has(.mono) tbody tr")
    seen.page.fill("input[name=label]", "twice")
    seen.page.get_by_role("button", name="New token").dblclick()
    expect(seen.page.locator("tr", has_text="twice")).to_have_count(1)
    seen.page.reload()
    expect(seen.page.locator("table:has(.mono) tbody tr")).to_have_count(rows + 1)


def test_who_is_no_admin_any_more_loses_what_only_admins_see(browser: Browser, console: Console, lab: Lab) -> None:
    with lab.client() as owner:
        owner.people.edit("ann", role="admin")
    with signed_in(browser, console, "ann") as seen:
        seen.go("admin/settings?at=scheduler.urgent")
        with lab.client() as owner:
            owner.people.edit("ann", role="user")
        seen.page.click("nav a[href='admin/tokens']")
        expect(seen.page.locator("nav.side a[href=admin]")).to_have_count(0)
        expect(seen.page.locator("main")).not_to_contain_text("Add a user")


def test_the_way_back_leads_to_the_list_as_it_was(seen: Visit, lab: Lab) -> None:
    with lab.client() as client:
        number = client.submit(["true"], name="there and back", hold=True)
    seen.go("queue")
    seen.page.fill(".filter input", "there and back")
    expect(seen.page.locator("td.of-id")).to_have_text([str(number)])
    seen.page.locator("td.of-id a", has_text=str(number)).click()
    expect(seen.page.locator(".task-head")).to_be_visible()
    seen.page.go_back()
    expect(seen.page.locator(".filter input")).to_have_value("there and back")
    expect(seen.page.locator("td.of-id")).to_have_text([str(number)])
    seen.page.go_forward()
    expect(seen.page.locator(".task-id")).to_have_text(str(number))


def test_who_has_only_keys_comes_back_to_the_list_as_it_was(seen: Visit, lab: Lab) -> None:
    with lab.client() as client:
        number = client.submit(["true"], name="there and back by keys", hold=True)
    seen.go("queue?show=all&q=by+keys")
    expect(seen.page.locator("td.of-id")).to_have_text([str(number)])
    seen.page.keyboard.press("j")
    for key, shown in (("Enter", ".task-head"), ("w", "[role=tabpanel]")):
        seen.page.keyboard.press(key)
        expect(seen.page.locator(shown)).to_be_visible()
    expect(seen.page.locator("[role=tab][aria-selected=true]")).to_have_text("Why")
    seen.page.keyboard.press("Escape")
    expect(seen.page.locator(".filter input")).to_have_value("by keys")
    expect(seen.page.locator("td.of-id")).to_have_text([str(number)])
    assert "show=all" in seen.page.url
    seen.go("nodes?q=node0")
    seen.page.click("td.of-name a")
    expect(seen.page.locator(".node-head")).to_be_visible()
    seen.page.keyboard.press("Escape")
    expect(seen.page.locator("main input[type=search]")).to_have_value("node0")


PRESS_C = """
new MutationObserver(function () {
  if (!document.querySelector(".task-head")) return;
  this.disconnect();
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "c", bubbles: true }));
}).observe(document, { childList: true, subtree: true });
"""


def test_a_key_holds_as_soon_as_what_it_is_for_is_shown(seen: Visit, lab: Lab) -> None:
    """The page may be drawn after its task has come, and then is whole when it is drawn first."""
    with lab.client() as client:
        number = client.submit(["true"], name="at once", hold=True)
    seen.page.add_init_script(PRESS_C)
    seen.go(f"tasks/{number}")
    expect(seen.page.locator("dialog[open]")).to_be_visible()
    seen.go("queue")
    seen.page.evaluate(PRESS_C)
    seen.page.evaluate("id => document.querySelector(`a[href$='tasks/${id}']`).click()", number)
    expect(seen.page.locator("dialog[open]")).to_be_visible()


def test_keys_that_are_pressed_in_a_row_are_kept_for_the_page_that_opens(seen: Visit, lab: Lab) -> None:
    with lab.client() as client:
        number = client.submit(["true"], name="in a row", hold=True)
    modules: list[Route] = []  # of the page of a task, on their way
    seen.page.route("**/pages/task.js", lambda route: modules.append(route))  # noqa: PLW0108  (Playwright needs a function)

    def open_and_press(*keys: str) -> None:
        seen.go("queue?show=all&q=in+a+row")
        expect(seen.page.locator("td.of-id")).to_have_text([str(number)])
        for key in ("j", "Enter", *keys):
            seen.page.keyboard.press(key)
        until("the module is on its way", lambda: seen.page.title() and modules)

    open_and_press("d")
    modules.pop().continue_()
    expect(seen.page.locator("[role=tab][aria-selected=true]")).to_have_text("Details")
    open_and_press("c", "x")
    modules.pop().continue_()
    expect(seen.page.locator("dialog[open] .hits li")).to_contain_text(str(number))
    open_and_press("l", "Escape")
    modules.pop().continue_()
    expect(seen.page.locator(".filter input")).to_have_value("in a row")
    open_and_press("c")
    seen.page.click("nav a[href=nodes]")
    expect(seen.page.locator("td.of-name")).to_have_text("node0")
    modules.pop().continue_()
    seen.page.click("nav a[href=queue]")
    expect(seen.page.locator("td.of-id").first).to_be_visible()
    expect(seen.page.locator("dialog")).to_have_count(0)


def test_the_enter_key_is_a_link_s_that_has_the_focus(seen: Visit, lab: Lab) -> None:
    with lab.client() as client:
        client.submit(["true"], name="not opened", hold=True)
    seen.go("queue?q=not+opened")
    expect(seen.page.locator("td.of-id")).to_have_count(1)
    seen.page.keyboard.press("j")
    seen.page.focus("nav a[href=nodes]")
    seen.page.keyboard.press("Enter")
    expect(seen.page.locator("td.of-name")).to_have_text("node0")
    seen.page.focus("td.of-name a")
    seen.page.keyboard.press("Enter")
    expect(seen.page.locator(".node-head")).to_be_visible()


def test_of_two_tabs_the_second_is_told_what_the_first_did(seen: Visit, lab: Lab) -> None:
    with lab.client() as client:
        number = client.submit(["true"], name="of both", hold=True)
    seen.go(f"tasks/{number}")
    other = seen.page.context.new_page()
    other.goto(f"{seen.console.url}/tasks/{number}")
    expect(other.locator(".task-head")).to_be_visible()
    other.keyboard.press("c")
    expect(other.locator("dialog[open]")).to_be_visible()
    with lab.client() as client:
        client.cancel([number])
    expect(seen.page.locator(".task-head .is-cancelled")).to_be_visible()
    other.locator("dialog[open] button.is-danger, dialog[open] button.primary").last.click()
    expect(other.locator(".toast, [role=alert], [role=status].toasts *").first).to_be_visible()
    expect(other.locator(".task-head .is-cancelled")).to_be_visible()


def test_a_page_of_another_version_is_loaded_whole_when_one_goes_on(
    browser: Browser, console: Console, tmp_path: Path
) -> None:
    with signed_in(browser, console) as seen:
        seen.go("submit")
        seen.page.fill("textarea[name=command]", "what I was just writing")
        old = version(seen)
        console.end()
        pages = tmp_path / "static"
        shutil.copytree(FOLDER, pages)
        (pages / "start.js").write_text(f"// of tomorrow\n{(pages / 'start.js').read_text('utf-8')};0", "utf-8")
        console.start(pages)
        expect(seen.page.locator(".live.is-live")).to_be_visible()
        expect(seen.page.locator("textarea[name=command]")).to_have_value("what I was just writing")
        assert version(seen) == old

        def gone_on() -> bool:
            seen.page.click("nav a[href=nodes]")
            seen.page.wait_for_selector("td.of-name")
            seen.page.click("nav a[href=submit]")
            return version(seen) != old

        until("the page is of the new version", gone_on)
        expect(seen.page.locator("textarea[name=command]")).to_have_value("what I was just writing")
        console.end()
        console.start()
        seen.complaints = []


def version(seen: Visit) -> str:
    """Of the files that the page was made of."""
    found = re.search(r"v-[0-9a-f]{16}", str(seen.page.evaluate("document.querySelector('script').src")))
    assert found is not None
    return found[0]
