"""The console beneath a path of somebody else's host: behind a real nginx, as docs/web.md has it."""

from __future__ import annotations

import re
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from playwright.sync_api import Browser

from tests.ports import free_ports
from tests.rights import need_program
from tests.system.lab import ROOT, Lab
from tests.waiting import PATIENCE_S, until
from tests.web.browser import visit
from tests.web.console import PASSWORD, Console, Live
from tests.web.websocket import websocket

_CONF = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port} ssl;
        ssl_certificate {pem}; ssl_certificate_key {pem};
        {location}
    }}
}}
"""


class Proxy(NamedTuple):
    """An nginx before a console. `url`: what a browser types; `trust`: whom it believes."""

    console: Console
    url: str
    trust: ssl.SSLContext

    @property
    def origin(self) -> str:
        """Of its pages."""
        return self.url.removesuffix("/muster")


def shown_in_the_docs(port: int) -> str:
    """The location that people copy, with our port in it."""
    [location] = re.findall(r"```nginx\n(.*?)```", (ROOT / "docs" / "web.md").read_text(encoding="utf-8"), re.DOTALL)
    return str(location).replace(":8443/", f":{port}/")


@pytest.fixture(scope="module")
def proxy(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    need_program("nginx", "nginx-light")
    folder: Path = tmp_path_factory.mktemp("nginx")
    [port] = free_ports(1)
    with Console(lab, proxies=["127.0.0.1"]) as console:
        pem = lab.task_info / "web" / "server.pem"
        conf = folder / "nginx.conf"
        location = shown_in_the_docs(console.port)
        conf.write_text(_CONF.format(folder=folder, port=port, pem=pem, location=location), encoding="utf-8")
        server = subprocess.Popen(["/usr/sbin/nginx", "-c", str(conf)], stderr=subprocess.DEVNULL)
        try:
            made = Proxy(console, f"https://localhost:{port}/muster", console.trust())

            def answers() -> bool:
                with suppress(httpx.TransportError):
                    return httpx.get(f"{made.url}/healthz", verify=made.trust).status_code == httpx.codes.OK
                return False

            until("nginx passes on", answers)
            yield made
        finally:
            server.terminate()
            server.wait(PATIENCE_S)


def test_somebody_signs_in_beneath_the_path_and_talks_to_the_master(proxy: Proxy) -> None:
    with httpx.Client(verify=proxy.trust, headers={"Origin": proxy.origin}, timeout=PATIENCE_S) as browser:
        signed = browser.post(f"{proxy.url}/session", json={"user": "ann", "password": PASSWORD})
        assert signed.status_code == 200, signed.text
        name, _, half = signed.headers["set-cookie"].partition(";")[0].partition("=")
        url = f"{proxy.url.replace('https', 'wss')}/live"
        with websocket(url, proxy.trust, proxy.origin, {"Cookie": f"{name}={half}"}) as socket:
            page = Live(socket, signed.json()["key"])
            assert page.ask("auth.whoami")["user"] == "ann"
            assert page.ask("subscribe", stream="nodes")["nodes"]
        assert browser.get(f"{proxy.url}/authority.pem").status_code == 200


def test_the_pages_work_beneath_the_path_in_a_browser(proxy: Proxy, browser: Browser, lab: Lab) -> None:
    (lab.folder / "data" / "here.txt").write_text("words", encoding="utf-8")
    with visit(browser, proxy.console, url=proxy.url) as seen:
        seen.sign_in()
        for path in ("queue", "nodes/node0", "submit", "files/data", "environments", "me"):
            seen.go(path)
            assert seen.page.url == f"{proxy.url}/{path}"
        seen.page.click("nav a[href='nodes']")
        seen.page.wait_for_selector("td.of-name a")
        assert seen.page.url == f"{proxy.url}/nodes"
        seen.page.reload()
        seen.page.click("td.of-name a")
        seen.page.wait_for_selector(".node-head")
        assert seen.page.url == f"{proxy.url}/nodes/node0"
        seen.go("files/data/here.txt")
        with seen.page.expect_download() as download:
            seen.page.keyboard.press("d")
        assert download.value.path().read_text(encoding="utf-8") == "words"


def test_a_page_of_the_hosts_other_origins_is_refused_there_too(proxy: Proxy) -> None:
    words = {"user": "ann", "password": PASSWORD}
    with httpx.Client(verify=proxy.trust, headers={"Origin": "https://localhost"}) as other:
        assert other.post(f"{proxy.url}/session", json=words).json()["key"] == "foreign_origin"


def test_what_is_made_is_told_with_the_path_before_it(proxy: Proxy, lab: Lab) -> None:
    with lab.client() as owner:
        token = owner.people.new_token(name="root2")["token"]
    with httpx.Client(verify=proxy.trust, headers={"Authorization": f"Bearer {token}"}) as script:
        made = script.post(f"{proxy.url}/api/v1/tasks", json={"command": ["true"], "hold": True})
        assert made.headers["location"] == f"/muster/api/v1/tasks/{made.json()['id']}"
        assert script.delete(f"{proxy.url}/api/v1/tasks/{made.json()['id']}").status_code == 200
