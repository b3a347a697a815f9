"""A page whose name leads to the master by now (DNS rebinding), in a real Chromium: each port is then an origin of its
own, and the browser lets the page read what comes from there, choose headers and methods, and try again over TLS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from client.api import connect
from tests.desktop.client import DesktopClient
from tests.rights import need_program
from tests.system.lab import PORTS, Lab
from tests.system.pc import Pc
from tests.system.test_hostile_page import BODIES, FORM, PATIENCE_MS, SUBMIT, WEBSOCKET, log_in
from tests.web.browser import driver

REBOUND = "rebound.example"
GUARDS = "LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests,PrivateNetworkAccessRespectPreflightResults"
"""What newer browsers keep pages from by themselves: nobody knows who has which."""


SAME_ORIGIN = """async ([body]) => {
    const asked = [];
    const told = (answer) => answer.text().then((text) => "answered " + text, () => "cut");
    for (const headers of [{}, {"Content-Type": "application/json"}, {"X-Odd": "\\t{\\"jsonrpc\\""}])
        asked.push(fetch("/", {method: "POST", credentials: "include", headers, body}).then(told, () => "cut"));
    for (const path of ["/", "/%0a" + encodeURIComponent(body), "/?" + encodeURIComponent(body)])
        asked.push(fetch(path, {credentials: "include"}).then(told, () => "cut"));
    for (const method of ["PUT", "DELETE", "PATCH", "OPTIONS", '{"op":'])
        try {
            asked.push(fetch("/", {method, body}).then(told, () => "cut"));
        } catch { asked.push("cut"); }
    return await Promise.all(asked);
}"""
"""What a page may do at its own origin: read answers, any header, any method that the browser lets through."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    need_program("chromium", "chromium")
    args = ["--no-sandbox", f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1", f"--disable-features={GUARDS}"]
    chromium = driver().chromium.launch(executable_path="/usr/bin/chromium", args=args)
    yield chromium
    chromium.close()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path, nodes=1)
    lab.start()
    yield lab
    lab.close()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_page_whose_name_leads_to_the_master_by_now_gets_no_word_of_it_while_people_are_connected(
    lab: Lab, browser: Browser, scheme: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The page came from elsewhere; since then its name is the master's address, and each port an origin of its own.
    Whoever sits there has a window of the desktop client open, a connection as the admin, and a log-in in a file; over
    https he has said that the certificate is fine."""
    log_in(Pc(tmp_path_factory.mktemp("person") / "pc"), lab)
    with ExitStack() as stack:
        stack.enter_context(DesktopClient({name: ("127.0.0.1", lab.keys["socket_info"][name]) for name in PORTS}))
        owner = stack.enter_context(lab.client())
        owner.call("user.add", {"name": "ann", "role": "admin"}, repeatable=False)
        stack.enter_context(connect(conf=str(lab.conf), token=owner.call("token.new", {"name": "ann"})["token"])).info()
        context = stack.enter_context(browser.new_context(ignore_https_errors=True))
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        for port in lab.keys["socket_info"].values():
            origin = f"{scheme}://{REBOUND}:{port}/"
            page.route(origin, lambda route: route.fulfill(content_type="text/html", body="<body>a page"))
            page.goto(origin)
            page.unroute(origin)
            for body in BODIES.values():
                told = page.evaluate(SAME_ORIGIN, [body])
                assert set(told) == {"cut"}, told
                page.evaluate(FORM, [origin, body])
                assert page.evaluate(WEBSOCKET, [origin.replace("http", "ws", 1), f"\n{SUBMIT}\n{body}"]) == "cut"
        assert [user["name"] for user in owner.call("user.list", {}) if not user["is_owner_only"]] == ["ann", "wang"]
        assert owner.list_tasks(ended=True)[1] + owner.list_tasks(active=True)[1] == 0
    lab.stop_master()
    assert "looks like HTTP" in lab.server_log(), "it came"
