"""The master's own log in the browser: for admins, followed, searched, and nothing in it acts on the page."""

from __future__ import annotations

from playwright.sync_api import Browser, expect

from tests.system.lab import Lab
from tests.web.browser import Visit, signed_in
from tests.web.console import Console

HOSTILE = "WARNING muster.ports: <img src=x onerror=alert(1)> \x1b[2J\x1b]0;evil\x07\u202egpj.exe\n".encode()


def test_an_admin_reads_the_log_of_the_master_as_it_is_written_and_searches_it(seen: Visit, lab: Lab) -> None:
    seen.go("admin/log")
    expect(seen.page.locator(".log-tools .chip.is-live")).to_have_text("Following")
    assert seen.texts(".under .command code") == ["muster logs --server -f"]
    with (lab.folder / "server_log.log").open("ab") as log:
        log.write(b"2026-05-01 12:00:00,000 ERROR muster.engine: needle of this test\n")
    line = seen.page.locator(".log-line", has_text="needle of this test")
    expect(line).to_be_visible()
    expect(line).to_have_class("log-line is-fault")
    seen.page.keyboard.press("/")
    seen.page.keyboard.type("NEEDLE of")
    seen.page.keyboard.press("Enter")
    seen.page.click(".log-found li button")
    expect(seen.page.locator(".log-line.is-marked")).to_contain_text("needle of this test")
    assert "admin/log?at=" in seen.page.url


def test_the_log_is_downloaded_as_it_lies(seen: Visit, lab: Lab) -> None:
    with (lab.folder / "server_log.log").open("ab") as log:
        log.write(b"2026-05-01 12:00:00,000 ERROR muster.engine: to be kept \xff\n")
    seen.go("admin/log")
    expect(seen.page.locator(".log-line", has_text="to be kept")).to_be_visible()
    with seen.page.expect_download() as begun:
        seen.page.click("button[aria-label=Download]")
    assert begun.value.suggested_filename == "server.log"
    kept = begun.value.path().read_bytes()
    whole = (lab.folder / "server_log.log").read_bytes()
    assert b"to be kept \xff\n" in kept
    assert whole.startswith(kept), "what the master wrote since is not in it"


def test_what_strangers_have_the_master_say_is_text_and_nothing_else(seen: Visit, lab: Lab) -> None:
    with (lab.folder / "server_log.log").open("ab") as log:
        log.write(HOSTILE)
    seen.go("admin/log")
    line = seen.page.locator(".log-line", has_text="onerror")
    expect(line).to_contain_text("<img src=x onerror=alert(1)>")
    expect(line).to_contain_text(r"\u202egpj.exe")
    assert seen.count(".log img") == 0
    assert "\x1b" not in line.inner_text()
    assert "\u202e" not in line.inner_text()


def test_who_is_no_admin_is_refused_by_the_master_and_shown_nothing(browser: Browser, console: Console) -> None:
    with console.sign_in("ann").live() as live:
        for verb, more in (("log.read", {}), ("log.search", {"pattern": "master"})):
            refused = live.answer(verb, server=True, **more)
            assert refused["error"]["data"]["code"] == "forbidden", refused
    ann = console.sign_in("ann").http
    made = ann.post("/tickets", json={"path": "server/log"}).json()["url"]
    assert ann.get(made).json()["code"] == "forbidden"
    with signed_in(browser, console, "ann") as seen:
        seen.go("admin/log")
        expect(seen.page.locator("main .empty")).to_have_text("This page is for admins.")
        assert seen.count(".log-line") == 0
