"""Whom the console hears: names and pages that are its own, and of proxies only those that it was told."""

from __future__ import annotations

import os
import socket

import pytest

from web.whence import Gate, Whence
from wire.errors import ForbiddenError

GATE = Gate(["queue.lab"], ["10.1.0.0/24", "127.0.0.1"])


def asked(address: str, scheme: str = "https", **headers: str) -> Whence:
    """Whence a request comes, by what a connection says of it."""
    told = {"host": "queue.lab:8443"} | {name.replace("_", "-"): value for name, value in headers.items()}
    raw = [(name.encode(), value.encode()) for name, value in told.items()]
    return GATE.whence({"type": "http", "scheme": scheme, "client": (address, 5), "headers": raw})


@pytest.mark.parametrize(
    "host", ["evil.example", "queue.lab.evil.example", "", "queue.lab@evil", "a b", "[::1", "queue.lab:x"]
)
def test_a_name_that_somebody_bound_to_our_address_is_not_answered_to(host: str) -> None:
    with pytest.raises(ForbiddenError):
        asked("10.0.0.9", host=host)


@pytest.mark.parametrize(
    "host", ["queue.lab", "QUEUE.lab:8443", "192.168.1.4:8443", "[fd00::4]:8443", "localhost:8443"]
)
def test_its_own_names_and_any_address_are(host: str) -> None:
    assert asked("10.0.0.9", host=host).host == host


def test_of_a_stranger_nothing_is_believed_about_whom_he_asks_for() -> None:
    said = asked(
        "10.0.0.9", "http", x_forwarded_for="127.0.0.1", x_forwarded_proto="https", x_forwarded_host="localhost",
        x_forwarded_prefix="/x",
    )  # fmt: skip
    assert said == Whence("10.0.0.9", "http", "queue.lab:8443", "", is_plain=True)


def test_of_a_proxy_it_is_believed_for_whom_it_asks_and_beneath_which_path() -> None:
    said = asked(
        "10.1.0.3", "http", x_forwarded_for="10.0.0.9", x_forwarded_proto="https", x_forwarded_prefix="/muster/"
    )
    assert said == Whence("10.0.0.9", "https", "queue.lab:8443", "/muster", is_plain=False)


def test_what_a_client_wrote_before_the_proxies_own_word_is_not_believed() -> None:
    assert asked("10.1.0.3", x_forwarded_for="127.0.0.1, 10.0.0.9, 10.1.0.4").address == "10.0.0.9"
    assert asked("10.1.0.3", x_forwarded_for="10.0.0.9, <script>").address == "10.1.0.3"


@pytest.mark.parametrize("prefix", ['/"><script>', "muster", "/a//b", "/a?b"])
def test_a_path_that_is_none_is_left_out(prefix: str) -> None:
    assert asked("10.1.0.3", x_forwarded_prefix=prefix).prefix == ""


def test_plain_text_is_heard_from_this_machine_alone() -> None:
    assert asked("10.0.0.9", "http").is_plain
    assert not asked("127.0.0.2", "http").is_plain
    assert asked("127.0.0.1", "http", x_forwarded_for="10.0.0.9").is_plain


@pytest.mark.real
def test_of_a_process_of_this_machine_the_account_is_known_and_of_nobody_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        accepted, client = server.accept()
        with accepted:
            ends = {"type": "http", "scheme": "https", "client": client, "server": accepted.getsockname()}
            host = (b"host", b"localhost")
            own = Gate([], [])
            assert own.whence({**ends, "headers": [host]}).account == os.geteuid()
            assert own.whence({**ends, "client": ("10.0.0.9", 5), "headers": [host]}).account is None
            assert own.whence({**ends, "client": ("127.0.0.1", 5), "headers": [host]}).account is None
            assert own.whence({**ends, "client": None, "headers": [host]}).account is None
            proxied = [host, (b"x-forwarded-for", b"10.0.0.9")]
            assert GATE.whence({**ends, "headers": proxied}).account is None, "that is the proxy's"


def test_a_page_of_another_origin_asks_for_nothing() -> None:
    whence = asked("10.0.0.9")
    for origin in ("https://evil.example", "http://queue.lab:8443", "https://queue.lab", "null"):
        with pytest.raises(ForbiddenError):
            GATE.check_origin(whence, {"origin": origin}, needed=False)
    with pytest.raises(ForbiddenError):
        GATE.check_origin(whence, {}, needed=True)
    GATE.check_origin(whence, {"origin": "https://queue.lab:8443"}, needed=True)
