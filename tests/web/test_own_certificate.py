"""The console with a certificate that the lab brings: it is shown, renewed without a restart, and kept while the next
one cannot be read."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator

import httpx
import pytest

from tests.certificates import Made, authority, made
from tests.system.lab import Lab
from tests.waiting import until
from tests.web.console import Console

EACH_TIME = {"process.LOOK_AT_CERTIFICATE_S": 0.0}


@pytest.fixture
def lab(lab_of_one: Lab) -> Iterator[Lab]:
    """A master that runs."""
    lab_of_one.start()
    yield lab_of_one
    lab_of_one.stop_master()


def brought(lab: Lab, by: Made) -> bytes:
    """Put a new certificate for this machine beside conf.json; what browsers are shown of it, as DER."""
    one = made("localhost", by=by, names=["localhost"])
    (lab.folder / "web.key").write_bytes(one.key_pem)
    (lab.folder / "web.key").chmod(0o600)
    (lab.folder / "web.pem").write_bytes(one.pem)
    return ssl.PEM_cert_to_DER_cert(one.pem.decode("ascii"))


def shown(console: Console, trust: ssl.SSLContext) -> bytes:
    """The certificate of a new connection, by who believes the lab's authority. Raises httpx.ConnectError."""
    with (
        httpx.Client(verify=trust) as browser,
        browser.stream("GET", f"{console.url}/healthz") as answer,
    ):
        assert answer.status_code == httpx.codes.OK
        found: bytes = answer.extensions["network_stream"].get_extra_info("ssl_object").getpeercert(True)  # noqa: FBT003
        return found


def test_it_is_shown_and_renewed_without_a_restart_and_kept_while_another_cannot_be_read(lab: Lab) -> None:
    signer = authority()
    trust = ssl.create_default_context(cadata=signer.pem.decode("ascii"))
    first = brought(lab, signer)
    with Console(lab, bounds=EACH_TIME, tls={"cert": "web.pem", "key": "web.key"}) as console:
        assert shown(console, trust) == first
        with httpx.Client(verify=trust) as browser:
            assert browser.get(f"{console.url}/authority.pem").status_code == httpx.codes.NOT_FOUND
        assert not (lab.task_info / "web" / "authority.pem").exists()
        second = brought(lab, signer)
        assert shown(console, trust) == second != first
        (lab.folder / "web.pem").write_text("nothing", encoding="ascii")
        assert shown(console, trust) == second
        until("it is told", lambda: "web.pem" in (fault(lab) or ""))
        assert "web.pem" in lab.muster("status").stdout
        third = brought(lab, signer)
        assert shown(console, trust) == third
        until("it is told no more", lambda: fault(lab) is None)


def fault(lab: Lab) -> str | None:
    told: str | None = json.loads((lab.task_info / "web.json").read_text(encoding="ascii"))["certificate_fault"]
    return told
