"""Every page in a real browser, in both languages and on a phone: it is there, not cut off, and nothing complains."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.system.lab import Lab
from tests.waiting import until
from tests.web.browser import LANGUAGES, NARROW, WIDE, signed_in, visit
from tests.web.console import PASSWORD, Console
from tests.web.javascript import sentences

HOSTILE = "<img src=x onerror=alert(1)>\u202egpj.exe\x1b[2J\u200b"
CHINESE = re.compile(r"[\u4e00-\u9fff]")
TOP = "document.querySelector('header.top').getBoundingClientRect().top"
PATHS = (
    *(
        "",
        "queue",
        "queue?show=all",
        "tasks/1",
        "tasks/1?tab=why",
        "tasks/1?tab=details",
        "tasks/1?tab=files",
        "tasks/1?tab=compare&with=3",
        "tasks/3?tab=compare",
        "tasks/3?tab=edit",
        "tasks/2",
        "sweeps/4",
        "no/such/page",
    ),
    *("submit", "submit?like=1", "nodes", "nodes/node0", "nodes/none", "me"),
    *("files", "files/data", "files/data/none", "files/%zz", "environments"),
    *("admin", "admin/users?at=ann", "admin/groups", "admin/projects", "admin/tokens", "admin/settings"),
    *("admin/conf", "admin/conf?file=registry", "admin/maintenance", "admin/audit", "admin/log", "admin/none"),
)


@pytest.fixture(scope="module", autouse=True)
def tasks(lab: Lab) -> None:
    """One that fails with a hostile name and log, one that waits for it to succeed, one that is held."""
    with lab.client() as client:
        client.submit(
            r"printf '\033[31mred\033[0m <b>bold</b> \342\200\256evil\n 10%%\r 100%%\n'; exit 3",
            name=HOSTILE,
            hold=True,
        )
        client.submit(["true"], name="王伟的训练", after=[{"id": 1, "on": "ok"}])
        client.submit(["true"], name="held", hold=True)
        client.submit_array("echo {lr}", sweep={"lr": ["1", "2"]}, name=f"{HOSTILE}-{{lr}}", hold=True)
        client.release(1)
        until("the task failed", lambda: client.show(1)["state"] == "failed")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_page_is_there_whole_and_on_a_phone_too(browser: Browser, console: Console, language: str) -> None:
    with signed_in(browser, console, language=language) as seen:
        for path in PATHS:
            seen.go(path)
            words = seen.page.locator("body").inner_text()
            assert words.strip()
            is_chinese = bool(CHINESE.search(words.replace("王伟的训练", "").replace("中文", "")))
            assert is_chinese == (language == "zh-CN"), path
            for width, height in (WIDE, NARROW):
                seen.page.set_viewport_size({"width": width, "height": height})
                until(f"{path} fits into {width} pixels", lambda: not seen.is_wider_than_the_window())
                assert seen.page.evaluate(TOP) == 0, path
            seen.page.set_viewport_size({"width": WIDE[0], "height": WIDE[1]})


def test_what_a_task_is_called_and_prints_is_text_and_nothing_else(browser: Browser, console: Console) -> None:
    with signed_in(browser, console) as seen:
        seen.go("queue?show=all")
        shown = r"<img src=x onerror=alert(1)>\u202egpj.exe\x1b[2J\u200b"
        name = seen.page.locator("td.of-name").filter(has_text=re.compile(rf"^\s*{re.escape(shown)}\s*$"))
        expect(name).to_have_count(1)
        seen.go("tasks/1")
        expect(seen.page.locator("h1")).to_have_text(shown)
        seen.page.wait_for_selector(".log-line")
        lines = seen.texts(".log-line")
        assert lines[0] == r"red <b>bold</b> \u202eevil"
        assert "100%" in lines, "of a progress bar only how it ended"
        assert seen.texts(".log-line .fg1") == ["red"]
        assert seen.count("main img, main b, .log b") == 0


HIDES_TEXT = "(one) => one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1"


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "phone"])
def test_a_command_line_is_shown_whole_and_a_sentence_shows_commands_as_such(
    browser: Browser, console: Console, lab: Lab, size: tuple[int, int]
) -> None:
    with lab.client() as client:
        number = client.submit(["true"], name="消融实验" * 12, hold=True)
    with signed_in(browser, console, language="zh-CN", size=size) as seen:
        seen.go(f"tasks/{number}?tab=details")
        line = seen.page.locator(".command code")
        expect(line).to_contain_text("消融实验" * 12)
        assert not line.evaluate(HIDES_TEXT)
        seen.go("tasks/99999")
        expect(seen.page.locator("main .empty p code")).to_have_text("muster queue --all")
        seen.go("admin/audit")
        expect(seen.page.locator("td.of-verb").first).to_be_visible()
        for title in seen.page.locator("thead th").all():
            assert not title.evaluate(HIDES_TEXT), title.inner_text()
        seen.go("queue")
        seen.page.keyboard.press("?")
        words = seen.page.locator("dialog .keys dd")
        expect(words.first).to_be_visible()
        starts = words.evaluate_all("all => all.map((one) => Math.round(one.getBoundingClientRect().left))")
        assert len(set(starts)) == (2 if size == WIDE else 1), "what keys do stands in columns"


def test_somebody_signs_in_with_a_password_and_out_of_a_page_that_ended(browser: Browser, console: Console) -> None:
    with visit(browser, console) as seen:
        seen.sign_in("ann")
        assert seen.texts(".who") == ["ann"]
        seen.page.evaluate("localStorage.clear()")
        seen.page.goto(f"{console.url}/queue")
        seen.page.wait_for_selector("input[name=user]")


def test_a_wrong_password_is_told_in_the_language_of_the_page(browser: Browser, console: Console) -> None:
    for language in LANGUAGES:
        with visit(browser, console, language=language) as seen:
            seen.page.goto(console.url)
            seen.page.fill("input[name=user]", "ann")
            seen.page.fill("input[name=password]", f"not {PASSWORD}")
            seen.page.click("button[type=submit]")
            seen.page.wait_for_selector(".refusal")
            assert seen.texts(".refusal") == [sentences(language)["wrong_password"]]
            seen.complaints = [one for one in seen.complaints if "401" not in one]


def test_a_viewer_is_told_why_he_can_do_nothing(browser: Browser, console: Console) -> None:
    with signed_in(browser, console, "eve") as seen:
        seen.go("tasks/3?tab=details")
        buttons = seen.page.locator(".task-actions button")
        assert {buttons.nth(at).get_attribute("aria-disabled") for at in range(buttons.count())} == {"true"}
        assert buttons.first.get_attribute("title") == "You may look on only: ask an admin for the role user."


def test_theme_and_language_are_chosen_and_kept(browser: Browser, console: Console) -> None:
    with signed_in(browser, console, theme="dark") as seen:
        seen.go("queue")
        assert seen.page.evaluate("document.documentElement.dataset.theme") == "dark"
        ground = seen.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert ground == "rgb(16, 20, 27)"


def test_on_a_phone_nothing_is_squeezed_out_of_sight(browser: Browser, console: Console) -> None:
    with signed_in(browser, console, language="zh-CN", size=NARROW) as seen:
        seen.go("queue?show=all&group=owner")
        assert seen.page.locator("tr.group b").first.evaluate("(one) => one.clientWidth") > 0, "the name of a group"
        seen.go("admin/maintenance")
        expect(seen.page.locator("td.of-name a")).to_be_in_viewport(ratio=1)
        seen.go("admin/log")
        expect(seen.page.locator(".admin nav [aria-current]")).to_be_in_viewport(ratio=1)
        seen.go("nodes/node0")
        seen.page.wait_for_selector("table.plain")
        heights = seen.page.locator("table.plain thead th").evaluate_all("all => all.map((one) => one.offsetHeight)")
        assert max(heights) < 40, "each title is one line"
        seen.go("tasks/1?tab=compare&with=3")
        for column in (0, 1):
            expect(seen.page.locator(".compare-table thead th").nth(column)).to_be_in_viewport(ratio=1)
