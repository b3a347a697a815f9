"""What a server's answer means: an outage, a refusal, or that it is no InfluxDB; and whose certificate counts."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from monitor.influx_errors import UnavailableError
from monitor.influx_server import connect
from monitor.influx_writer import Buffer, Writer
from tests.monitor.databases import stub
from tests.monitor.test_influx_writer import QUICK, add, said, settings, writer
from tests.waiting import until


@pytest.fixture(autouse=True)
def _heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "muster.influx")


@pytest.mark.parametrize(
    ("status", "body", "header", "told"),
    [
        (200, b"<html>welcome</html>", {}, "/write answers 200, as no InfluxDB would"),
        (302, b"", {"Location": "http://grafana/login"}, "302 Found, see http://grafana/login"),
        (400, b"Client sent an HTTP request to an HTTPS server.", {}, "400 Client sent an HTTP request to an HTTPS"),
        (405, b"<html>405</html>", {}, "405 <html>405</html>"),
        (404, b"404 page not found", {}, "404 404 page not found, and it could not be made: 404 404 page not found"),
    ],
)
def test_a_server_that_is_no_influxdb_is_told_and_takes_no_point_away(
    caplog: pytest.LogCaptureFixture, status: int, body: bytes, header: dict[str, Any], told: str
) -> None:
    buffer = Buffer()
    add(buffer, 1)
    with stub(lambda *_: (status, body), **header) as url, writer(buffer, settings(url)):
        until("it is told", lambda: said(caplog))
    assert said(caplog)[0].startswith(f"InfluxDB refuses ({told}")
    assert "see influx.token, influx.org, influx.bucket and influx.url in conf.json" in said(caplog)[0]
    assert buffer.points == 1


def test_a_page_that_is_no_text_is_one_line_and_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    buffer = Buffer()
    add(buffer, 1)
    with stub(lambda *_: (502, "网关错误".encode("gbk"))) as url, writer(buffer, settings(url)) as made:
        until("it was tried often", lambda: made.fails > 3)
    assert said(caplog)[0] == "InfluxDB takes no points (its answer is no text): they are kept and written later"
    assert buffer.points == 1


def date(seconds: float) -> str:
    return formatdate(time.time() + seconds, usegmt=True)


@pytest.mark.parametrize(
    ("asked", "least", "most"),
    [
        (lambda: "45", 45, 45),
        (lambda: date(500), 400, 500),
        (lambda: "86400", 600, 600),
        (lambda: date(-9), 0, 0.5),
        (lambda: "soon", 0, 0.5),
    ],
    ids=["seconds", "a date", "a day", "a date of the past", "nonsense"],
)
def test_it_comes_again_when_it_was_asked_to_but_not_after_days(
    asked: Callable[[], str], least: float, most: float
) -> None:
    buffer = Buffer()
    add(buffer, 1)
    with stub(lambda *_: (429, None), Retry_After=asked()) as url:
        made = Writer(buffer, lambda: connect(settings(url)))
        batch = buffer.peek()
        assert batch is not None
        assert least <= made.write(batch) <= most
        made._server.close()


def test_a_defect_is_told_without_what_it_says_since_that_may_be_the_token(caplog: pytest.LogCaptureFixture) -> None:
    buffer = Buffer()
    add(buffer, 1)
    where = settings("http://127.0.0.1:1", version=2, login="s3cret密")
    made = Writer(buffer, lambda: connect(where), QUICK)
    batch = buffer.peek()
    assert batch is not None
    made.write(batch)
    made._server.close()
    assert "s3cret" not in caplog.text
    assert "InfluxDB takes no points (UnicodeEncodeError)" in caplog.text


@pytest.mark.parametrize("version", [1, 2])
def test_a_certificate_of_the_labs_own_authority_is_taken_from_who_knows_it_and_from_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    with stub(lambda *_: (204, None), tmp_path / "tls") as url:
        where = settings(url, version=version, login="any:body")
        with pytest.raises(UnavailableError, match=r"^SSLError .*CERTIFICATE_VERIFY_FAILED"):
            connect(where).write(b"m v=1 1\n")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "tls" / "ca.pem"))
        connect(where).write(b"m v=1 1\n")
        with pytest.raises(UnavailableError, match="Hostname mismatch"):
            connect(settings(url.replace("127.0.0.1", "localhost"), version=version, login="a:b")).write(b"m v=1 1\n")


def test_how_many_points_were_refused_is_found_in_a_long_answer(caplog: pytest.LogCaptureFixture) -> None:
    buffer = Buffer()
    for number in range(3):
        add(buffer, number)
    answer = {"error": f"partial write: field type conflict: {'x' * 1000} dropped=2"}
    with stub(lambda *_: (400, answer)) as url, writer(buffer, settings(url)):
        until("it is told", lambda: said(caplog))
    assert said(caplog)[0].startswith("InfluxDB refused 2 points for good: 400 partial write: ")
