"""The master goes and comes back: the page says so, shows what it last knew, and is live again by itself."""

from __future__ import annotations

import json
import signal
import socket
import ssl
from contextlib import closing, suppress

import pytest
from playwright.sync_api import Browser, Page, WebSocketRoute, expect

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


def test_who_loads_a_page_while_the_master_is_away_is_told_so_until_it_is_back(
    browser: Browser, console: Console, lab: Lab
) -> None:
    with signed_in(browser, console, language="zh-CN") as seen:
        lab.kill_master()
        loads: list[str] = []
        seen.page.on("request", lambda one: loads.append(one.url) if one.is_navigation_request() else None)
        with seen.page.expect_response(lambda one: one.url.endswith("/readyz")):
            seen.page.goto(f"{console.url}/nodes")
            expect(seen.page.get_by_role("alert")).to_contain_text("无法连接主控")
        with seen.page.expect_response(lambda one: one.url.endswith("/readyz")):
            expect(seen.page.locator("main")).to_contain_text("会自动重试")
        assert len(loads) == 1, "it is not loaded again and again meanwhile"
        lab.start()
        expect(seen.page.locator("td.of-name")).to_have_text("node0")
        seen.complaints = []


@pytest.mark.parametrize("verb", ["subscribe", "task.list"])
def test_lists_that_do_not_come_once_are_asked_for_again(
    browser: Browser, console: Console, lab: Lab, verb: str
) -> None:
    with lab.client() as client:
        client.submit(["true"], name=f"{verb} waits", hold=True)
    with signed_in(browser, console) as seen:
        refused = _refuse_once(seen.page, verb)
        seen.go("queue")
        names = seen.page.locator("td.of-name", has_text=verb)
        expect(names).to_have_text(f"{verb} waits")
        expect(seen.page.locator(".banner")).to_have_count(0)
        with lab.client() as client:
            client.submit(["true"], name=f"{verb} later", hold=True)
        expect(names).to_have_text([f"{verb} waits", f"{verb} later"])
        assert refused == [verb]


def test_what_a_page_asked_in_vain_is_asked_again_when_the_connection_is_back(
    browser: Browser, console: Console
) -> None:
    with signed_in(browser, console) as seen:
        refused = _refuse_once(seen.page, "token.list")
        seen.go("me")
        expect(seen.page.locator("main .refusal")).to_be_visible()
        console.kill()
        expect(seen.page.locator(".banner")).to_be_visible()
        console.start()
        expect(seen.page.locator(".banner")).to_have_count(0)
        expect(seen.page.locator("main .refusal")).to_have_count(0)
        assert refused == ["token.list"]
        seen.complaints = [one for one in seen.complaints if "WebSocket" not in one]


@pytest.mark.parametrize(
    ("path", "ended"), [("queue?show=ended&q=name:meanwhile", "td.of-name"), ("sweeps/{}", ".matrix .is-cancelled")]
)
def test_what_ends_while_the_connection_is_lost_is_seen_to_have_ended(
    browser: Browser, console: Console, lab: Lab, path: str, ended: str
) -> None:
    with lab.client() as client:
        ids = client.submit_array("true", sweep={"lr": ["1", "2"]}, name=f"meanwhile {ended}", hold=True)
    with signed_in(browser, console) as seen:
        seen.go(path.format(ids[0]))
        before = seen.count(ended)
        console.kill()
        expect(seen.page.locator(".banner")).to_be_visible()
        with lab.client() as client:
            client.cancel(ids)
        console.start()
        expect(seen.page.locator(ended)).to_have_count(before + 2)
        seen.complaints = [one for one in seen.complaints if "WebSocket" not in one]


def _refuse_once(page: Page, verb: str) -> list[str]:
    """The first such call gets the answer that a console gives while the master's port is not open yet. What is
    returned has the verb once that has happened."""
    refused: list[str] = []

    def between(browser_end: WebSocketRoute) -> None:
        console_end = browser_end.connect_to_server()

        def asked(message: str | bytes) -> None:
            call = json.loads(message)
            if call.get("method") != verb or refused:
                console_end.send(message)
                return
            refused.append(verb)
            data = {"code": "unreachable", "key": "master_away", "args": {}}
            error = {"code": -32001, "message": "the master is away", "data": data}
            browser_end.send(json.dumps({"jsonrpc": "2.0", "id": call["id"], "error": error}))

        browser_end.on_message(asked)

    page.route_web_socket("**/live", between)
    return refused


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
