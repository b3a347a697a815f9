"""A page of somebody else's in the browser of a person who may come in, and who has a log-in in the file of `muster
login`: a real Chromium, a real master.

The page does what any page can: requests with bodies of its choice, forms, WebSockets, connections opened ahead. What
it writes must be obeyed by no port, whatever it is made to look like; each test looks into the master's log for the
connections of the browser, for a page that reached nothing would show nothing.
"""

from __future__ import annotations

import http.server
import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.desktop.client import DesktopClient, form, request
from tests.system.lab import PORTS, Lab
from tests.system.pc import Pc
from tests.web.browser import CHROMIUM, driver, need_chromium

SUBMIT = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "task.submit", "params": {"command": ["touch", "x"]}})
FRAME = request("add_task", form("touch x")).decode()
BODIES = {
    "a line of ours": f"\n{SUBMIT}\n",
    "the desktop client's frame": FRAME,
    "its frame behind a string that is open": f'"_<END_SEND>_{FRAME}',
    "its frame behind an empty one": f"_<END_SEND>_{FRAME}{FRAME}",
    "both": f"\n{SUBMIT}\n{FRAME}\n{SUBMIT}\n",
}
COUNTED = re.compile(r"(\d+) more like this")
PUSHES = ("monitor_port", "train_state_port")
SILENT_S = 0.3
PATIENCE_MS = 60_000
PASSWORD = "gull kettle 七 orchard"  # noqa: S105
FETCH = """async ([urls, body]) => {
    const asked = [];
    for (const url of urls)
        for (const credentials of ["omit", "include"])
            asked.push(fetch(url, {method: "POST", mode: "no-cors", credentials, body})
                .then(() => "answered", () => "cut"));
    return await Promise.all(asked);
}"""
FORM = """async ([url, body]) => {
    const frame = document.createElement("iframe");
    frame.name = "f" + Math.random();
    const form = document.createElement("form");
    Object.assign(form, {method: "post", enctype: "text/plain", action: url, target: frame.name});
    const field = document.createElement("textarea");
    field.name = body;
    form.append(field);
    document.body.append(frame, form);
    const done = new Promise((resolve) => { frame.onload = resolve; });
    form.submit();
    await done;
}"""
WEBSOCKET = """async ([url, body]) => await new Promise((resolve) => {
    const socket = new WebSocket(url);
    socket.onopen = () => { socket.send(body); };
    socket.onmessage = (event) => resolve(event.data);
    socket.onclose = () => resolve("cut");
})"""
AHEAD = """([url]) => {
    for (const crossOrigin of [null, "anonymous"]) {
        const link = document.createElement("link");
        Object.assign(link, {rel: "preconnect", href: url, crossOrigin});
        document.head.append(link);
    }
}"""


class _Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>a page</title><body>")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def pc(tmp_path_factory: pytest.TempPathFactory) -> Pc:
    """The home of the person at the browser."""
    return Pc(tmp_path_factory.mktemp("person") / "pc")


def log_in(pc: Pc, lab: Lab) -> None:
    """Give that person an admin's log-in."""
    with lab.client() as owner:
        owner.people.add("wang", role="admin", password=PASSWORD)
    pc.log_in("wang", PASSWORD, f"127.0.0.1:{lab.keys['socket_info']['data_port']}")
    assert [path.stat().st_mode & 0o777 for path in pc.logins] == [0o600]


@pytest.fixture
def browser(pc: Pc) -> Iterator[Browser]:
    need_chromium()
    chromium = driver().chromium.launch(
        executable_path=CHROMIUM, args=["--no-sandbox"], env={**os.environ, "HOME": str(pc.home)}
    )
    yield chromium
    chromium.close()


@contextmanager
def _page(browser: Browser) -> Iterator[Page]:
    """A page of a site that has nothing to do with the master."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Site) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(f"http://127.0.0.1:{site.server_address[1]}/")
        yield page
        page.close()
        site.shutdown()


@pytest.fixture
def lab(tmp_path: Path, pc: Pc) -> Iterator[Lab]:
    lab = Lab(tmp_path, nodes=1)
    lab.write_conf(desktop_client={"silent_s": SILENT_S})
    lab.start()
    log_in(pc, lab)
    yield lab
    lab.close()


def _addresses(lab: Lab, scheme: str = "http") -> dict[str, str]:
    return {name: f"{scheme}://127.0.0.1:{port}/" for name, port in lab.keys["socket_info"].items()}


def _closed(lab: Lab) -> int:
    """How many connections the master has closed, by what its log lists and what it counts. It has ended then."""
    lab.stop_master()
    lines = [line for line in lab.server_log().splitlines() if "looks like HTTP" in line or "client begins so" in line]
    return sum(int(found[1]) if (found := COUNTED.search(line)) else 1 for line in lines)


def _queued(lab: Lab) -> int:
    with lab.client() as client:
        return client.list_tasks(ended=True)[1] + client.list_tasks(active=True)[1]


def test_what_a_page_posts_to_a_port_is_not_obeyed(lab: Lab, browser: Browser) -> None:
    addresses = _addresses(lab)
    with _page(browser) as page:
        for body in BODIES.values():
            told = page.evaluate(FETCH, [list(addresses.values()), body])
            assert told == ["cut"] * len(told), "no answer, of which a page could learn anything"
            for url in addresses.values():
                page.evaluate(FORM, [url, body])
    assert _queued(lab) == 0
    assert _closed(lab) >= 3 * len(addresses) * len(BODIES), "all of it came"


def test_a_page_gets_no_websocket_to_a_port(lab: Lab, browser: Browser) -> None:
    with _page(browser) as page:
        for url in _addresses(lab, "ws").values():
            assert page.evaluate(WEBSOCKET, [url, f"\n{SUBMIT}\n{FRAME}"]) == "cut"
    assert _queued(lab) == 0
    assert _closed(lab) >= len(_addresses(lab))


@pytest.mark.parametrize("has_window", [False, True], ids=["alone", "beside the desktop client of the same person"])
def test_a_page_that_was_silent_first_is_no_desktop_client_when_it_speaks(
    lab: Lab, browser: Browser, *, has_window: bool
) -> None:
    """Connections that a browser opens ahead are silent, and its next request goes over them."""
    addresses = _addresses(lab)
    pushes = [addresses[name] for name in PUSHES]
    with ExitStack() as stack:
        if has_window:
            stack.enter_context(DesktopClient({name: ("127.0.0.1", lab.keys["socket_info"][name]) for name in PORTS}))
        page = stack.enter_context(_page(browser))
        for body in BODIES.values():
            for url in pushes:
                page.evaluate(AHEAD, [url])
            page.wait_for_timeout(
                2_000 * SILENT_S
            )  # this is the attack: longer than the silence that told a desktop client
            assert page.evaluate(FETCH, [pushes, body]) == ["cut"] * 4
            for url in pushes:
                page.evaluate(FORM, [url, body])
    assert _queued(lab) == 0
    assert _closed(lab) >= 3 * len(pushes) * len(BODIES), "all of it came"
