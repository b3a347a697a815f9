"""What others try on somebody who has the console open, in a real Chromium: pages of other sites, a name that leads to
our address, words that would be scripts; and what the browser makes of the certificate, with the root and without."""

from __future__ import annotations

import http.server
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from playwright.sync_api import Browser, BrowserType, Error, Page

from tests.rights import need_program
from tests.system.lab import Lab
from tests.web.browser import CHROMIUM, Visit, driver, need_chromium, signed_in
from tests.web.console import PASSWORD, Console

EVIL, REBOUND, BANK = "evil.example", "rebound.example", "bank.example"
MAPPED = ", ".join(f"MAP {name} 127.0.0.1" for name in (EVIL, REBOUND, BANK))
ARGS = ["--no-sandbox", f"--host-resolver-rules={MAPPED}", "--disable-features=LocalNetworkAccessChecks"]
SCRIPT = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
UNKNOWN = "ERR_CERT_AUTHORITY_INVALID"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(tmp_path_factory.mktemp("browser") / "lab", nodes=1)
    (made.folder / "data").mkdir()
    made.write_conf(visible_folders=["data"])
    made.start()
    with made.client() as owner:
        for name in ("root2", "leaver"):
            owner.people.add(name, role="admin", password=PASSWORD)
    yield made
    assert made.close() == []


@pytest.fixture(scope="module")
def console(lab: Lab) -> Iterator[Console]:
    with Console(lab) as made:
        yield made


@pytest.fixture(scope="module")
def chromiums() -> BrowserType:
    """What the system's browser is started by."""
    need_chromium()
    return driver().chromium


@contextmanager
def started(chromiums: BrowserType, home: Path) -> Iterator[Browser]:
    """One with certificates of its own."""
    browser = chromiums.launch(executable_path=CHROMIUM, args=ARGS, env={"HOME": str(home)})
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def browser(chromiums: BrowserType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One that trusts nobody of ours."""
    with started(chromiums, tmp_path_factory.mktemp("home")) as made:
        yield made


# -- the certificate --------------------------------------------------------------------------------------------------


def trusting(home: Path, root: Path) -> Path:
    """A home in whose store the root was installed, as the import in the settings does."""
    need_program("certutil", "libnss3-tools")
    store = home / ".pki" / "nssdb"
    store.mkdir(parents=True)
    told = ["certutil", "-d", f"sql:{store}"]
    subprocess.run([*told, "-N", "--empty-password"], check=True)
    subprocess.run([*told, "-A", "-n", "muster", "-t", "C,,", "-i", str(root)], check=True)
    return home


def fetched_root(console: Console, into: Path) -> Path:
    """The root as people get it, from the console."""
    into.write_bytes(console.http().get("/authority.pem").content)
    return into


def test_without_the_root_the_browser_warns(console: Console, browser: Browser) -> None:
    page = browser.new_page()
    with pytest.raises(Error, match=UNKNOWN):
        page.goto(console.url)
    page.close()


def test_with_the_root_installed_it_does_not_and_one_signs_in(
    console: Console, chromiums: BrowserType, tmp_path: Path
) -> None:
    root = fetched_root(console, tmp_path / "authority.pem")
    with started(chromiums, trusting(tmp_path, root)) as browser:
        page = browser.new_page()
        for host in ("localhost", "127.0.0.1"):
            told = page.goto(f"https://{host}:{console.port}")
            assert told is not None
            assert told.status == 200
        someone = Visit(page, console)
        someone.sign_in()
        assert page.evaluate("isSecureContext")
        assert someone.complaints == []


def test_whoever_steals_the_authority_can_show_himself_as_nobody_else(
    console: Console, chromiums: BrowserType, tmp_path: Path
) -> None:
    """It is bound to the console's names: what it signs for another is not believed."""
    folder = console.lab.task_info / "web"
    chains = [forged(name, folder, tmp_path / f"{name}.pem") for name in ("localhost", BANK)]
    with (
        started(chromiums, trusting(tmp_path, folder / "authority.pem")) as browser,
        site(chains[0], "a console") as ours,
        site(chains[1], "a bank") as port,
    ):
        page = browser.new_page()
        page.goto(f"https://localhost:{ours}")
        assert "a console" in page.content()
        with pytest.raises(Error, match="ERR_CERT_"):
            page.goto(f"https://{BANK}:{port}")


def forged(name: str, folder: Path, into: Path) -> Path:
    """A certificate for this name by the authority of that folder, and its key."""
    issuer = x509.load_pem_x509_certificate((folder / "authority.pem").read_bytes())
    signing = serialization.load_pem_private_key((folder / "authority.key").read_bytes(), None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    own, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer.subject)
        .public_key(own.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(signing, hashes.SHA256())
    )
    none = serialization.NoEncryption()
    text = own.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, none)
    into.write_bytes(text + made.public_bytes(serialization.Encoding.PEM))
    return into


@contextmanager
def site(chain: Path | None, body: str) -> Iterator[int]:
    """A site of somebody else's, on a port of its own."""

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    if chain is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# -- other sites ------------------------------------------------------------------------------------------------------

FETCHES = """async ([url, key]) => {
    const told = [];
    const asked = [
        ["POST", "/api/v1/tasks", "application/json"], ["POST", "/api/v1/rpc/server.stop", "text/plain"],
        ["POST", "/api/v1/rpc/server.stop", "application/json"], ["GET", "/api/v1/me", ""], ["DELETE", "/session", ""],
    ];
    for (const [method, path, type] of asked)
        for (const more of [{}, {"X-Muster-Key": key}]) for (const mode of ["cors", "no-cors"])
            try {
                const headers = {...more, ...(type ? {"Content-Type": type} : {})};
                const how = {method, mode, credentials: "include", headers};
                if (method === "POST") how.body = '{"command": ["true"]}';
                const answer = await fetch(url + path, how);
                told.push(answer.type === "opaque" ? "nothing" : await answer.text());
            } catch { told.push("nothing"); }
    return told;
}"""
FORM = """([url]) => {
    document.body.innerHTML = `<iframe name=into></iframe><form method=post enctype=text/plain target=into
        action="${url}/api/v1/rpc/server.stop"><input name='{"a":"' value='"}'></form>`;
    document.forms[0].submit();
}"""
SOCKET = """([url, key]) => new Promise((done) => {
    const socket = new WebSocket(url.replace("http", "ws") + "/live");
    socket.onopen = () => socket.send(JSON.stringify({key}));
    socket.onmessage = (event) => done(event.data);
    socket.onclose = (event) => done("closed " + event.code);
})"""


def key_of(page: Page) -> str:
    """Both halves are there; the one that scripts of the page can read."""
    return str(page.evaluate("JSON.parse(localStorage.getItem('muster.key'))"))


def test_a_page_of_another_site_moves_and_reads_nothing_in_the_browser_of_who_is_signed_in(
    lab: Lab, console: Console, browser: Browser
) -> None:
    """Even if it knew the half of the log-in that no other site can read."""
    with signed_in(browser, console) as someone, site(None, "<body>a page") as port:
        someone.go("queue")
        key = key_of(someone.page)
        page = someone.page.context.new_page()
        page.goto(f"http://{EVIL}:{port}")
        assert set(page.evaluate(FETCHES, [console.url, key])) == {"nothing"}
        page.evaluate(FORM, [console.url])
        assert page.evaluate(SOCKET, [console.url, key]) == "closed 4403"
        page.close()
        someone.go("queue")
        assert someone.page.evaluate("document.title") != "taken"
    with lab.client() as owner:
        assert owner.info()["pid"]
        assert owner.tasks(ended=True) == []


def test_a_name_that_leads_to_our_address_by_now_is_answered_nothing(console: Console, browser: Browser) -> None:
    context = browser.new_context(ignore_https_errors=True)
    page = context.new_page()
    told = page.goto(f"https://{REBOUND}:{console.port}/")
    assert told is not None
    assert (told.status, "muster" in told.text().lower().replace("urn:muster", "")) == (403, False)
    told = page.goto(f"https://{REBOUND}:{console.port}/api/v1/info")
    assert told is not None
    assert told.status == 403
    context.close()


def test_who_is_disabled_sees_in_his_open_page_that_he_is_out(lab: Lab, console: Console, browser: Browser) -> None:
    with signed_in(browser, console, "leaver") as someone:
        someone.go("queue")
        with lab.client() as owner:
            owner.people.disable("leaver")
        someone.page.wait_for_selector("input[name=password]")
        someone.page.goto(f"{console.url}/admin")
        someone.page.wait_for_selector("input[name=password]")
        assert [said for said in someone.complaints if "401" not in said] == []
        someone.complaints.clear()


# -- words that would be scripts --------------------------------------------------------------------------------------


def test_scripts_in_a_tasks_name_its_log_and_a_files_name_are_shown_and_not_run(
    lab: Lab, console: Console, browser: Browser
) -> None:
    (lab.folder / "data" / SCRIPT.replace("/", "∕")).write_text(SCRIPT, encoding="utf-8")
    with lab.client() as owner:
        number = owner.submit(["printf", "%s\n", SCRIPT], name=SCRIPT, project="<b>x</b>")
        owner.wait([number])
    with signed_in(browser, console) as someone:
        for path in ("queue?show=all", f"tasks/{number}", f"tasks/{number}?tab=details", "files/data", "admin/audit"):
            someone.go(path)
            assert someone.page.title() != "taken", path
            assert someone.count("img[onerror]") == someone.count("main script") == 0, path
        someone.go(f"tasks/{number}")
        someone.page.wait_for_selector("text=onerror")
    with lab.client() as owner:
        owner.remove(number)
