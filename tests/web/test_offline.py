"""The master goes and comes back: the page says so, shows what it last knew, and is live again by itself."""

from __future__ import annotations

import signal
import socket
import ssl
from contextlib import closing, suppress

from playwright.sync_api import Browser, expect

from tests.system.lab import Lab
from tests.waiting import PATIENCE_S
from tests.web.browser import signed_in
from tests.web.console import Console


def test_the_master_is_killed_and_comes_back(browser: Browser, console: Console, lab: Lab) -> None:
    with lab.client() as client:
        client.submit(["true"], name="before", hold=True)
    with signed_in(browser, console) as seen:
        seen.go("queue")
        expect(seen.page.locator("td.of-name")).to_have_text("before")
        lab.kill_master()
        expect(seen.page.locator(".banner")).to_be_visible()
        expect(seen.page.locator("td.of-name")).to_have_text("before")
        lab.start()
        with lab.client() as client:
            client.submit(["true"], name="after", hold=True)
        expect(seen.page.locator(".banner")).to_have_count(0)
        expect(seen.page.locator("td.of-name")).to_have_text(["before", "after"])
        seen.complaints = [one for one in seen.complaints if "WebSocket" not in one]


def test_a_console_that_says_nothing_any_more_is_given_up_without_its_consent(
    browser: Browser, console: Console
) -> None:
    with signed_in(browser, console) as seen:
        seen.go("queue")
        expect(seen.page.locator(".live.is-live")).to_be_attached()
        assert console.process
        console.process.send_signal(signal.SIGSTOP)
        try:
            seen.page.evaluate("const now = Date.now; Date.now = () => now() + 60_000")
            expect(seen.page.locator(".banner")).to_be_visible()
        finally:
            console.process.send_signal(signal.SIGCONT)
        expect(seen.page.locator(".banner")).to_have_count(0)
        expect(seen.page.locator(".live.is-live")).to_be_attached()


def test_a_connection_that_never_comes_about_stands_in_the_way_of_no_other(browser: Browser, console: Console) -> None:
    with signed_in(browser, console) as seen:
        seen.go("queue")
        console.kill()
        with closing(held(console)) as mute:
            assert mute.recv(9) == b"GET /live"
            console.start()
            seen.page.evaluate("const now = Date.now; Date.now = () => now() + 60_000")
            expect(seen.page.locator(".banner")).to_have_count(0)
            expect(seen.page.locator(".live.is-live")).to_be_attached()
        seen.complaints = [one for one in seen.complaints if "WebSocket" not in one]


def held(console: Console) -> ssl.SSLSocket:
    """The first connection that comes to the console's port, to somebody who looks like it and says nothing."""
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(console.lab.task_info / "web" / "server.pem")
    with socket.create_server(("127.0.0.1", console.port)) as mute:
        mute.settimeout(PATIENCE_S)
        while True:
            accepted, _ = mute.accept()
            accepted.settimeout(PATIENCE_S)
            with suppress(ssl.SSLError):  # this browser hangs up once before it overlooks who signed
                return shown.wrap_socket(accepted, server_side=True)


def test_a_page_that_could_not_be_loaded_comes_by_itself_once_the_console_is_back(
    browser: Browser, console: Console
) -> None:
    with signed_in(browser, console) as seen:
        seen.go("queue")
        console.kill()
        seen.page.click("nav a[href=environments]")
        with seen.page.expect_event("requestfailed", lambda request: request.url.endswith("/healthz")):
            expect(seen.page.locator("main .empty")).to_be_visible()
        console.start()
        expect(seen.page.locator("main .page")).to_be_visible()
        assert seen.page.url == f"{console.url}/environments"
        seen.complaints = []  # it told of all that did not come
