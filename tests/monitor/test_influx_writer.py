"""The writer against databases that live, die, come back, hang, and do not know us."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from monitor.influx_server import connect
from monitor.influx_settings import Settings
from monitor.influx_writer import BATCH_BYTES, Buffer, Pace, Writer
from tests.monitor.conftest import InfluxMaker
from tests.monitor.databases import ADMIN, Influx, Victoria, stub
from tests.ports import free_ports
from tests.waiting import PATIENCE_S, until
from wire.errors import ConfigError

QUICK = Pace(flush=0.02, first=0.05, longest=0.2, denied=0.2, report=0.1)
BEGIN = 1_700_000_000


def settings(url: str, *, version: int = 1, login: str = "", org: str = "", bucket: str = "muster") -> Settings:
    return Settings(url, version, login, org, bucket)


@contextmanager
def writer(buffer: Buffer, *where: Settings) -> Iterator[Writer]:
    """A writer that runs; of several settings it takes the next one after each refused token."""
    left = list(where)
    made = Writer(buffer, lambda: connect(left.pop(0) if len(left) > 1 else left[0]), QUICK)
    made.start()
    try:
        yield made
    finally:
        made.stop(0.2)
        made.join(PATIENCE_S)  # it ends by itself: `stop` waits for little more than it was given
        assert not made.is_alive()


def add(buffer: Buffer, number: int) -> None:
    """A point of its own moment; as many as asked for: they are told apart by their time."""
    buffer.add(f"cpu,cpu=cpu-total,host=node1 value={number}.0 {(BEGIN + number) * 10**9}\n", 1)


def times(database: Influx) -> list[int]:
    return [row["time"] // 10**9 - BEGIN for row in database.rows('SELECT "value" FROM "cpu"')]


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "muster.influx"]


def test_influxdb_1_gets_its_database_and_every_point(influx: Influx) -> None:
    buffer = Buffer()
    for number in range(100):
        add(buffer, number)
    with writer(buffer, settings(influx.url)):
        until("all points are there", lambda: len(times(influx)) == 100)
    assert times(influx) == list(range(100))


def test_a_database_with_a_name_that_needs_quoting_is_made(influx: Influx) -> None:
    buffer = Buffer()
    add(buffer, 1)
    name = 'my "lab" 1'
    with writer(buffer, settings(influx.url, bucket=name)):
        until("the point is written", lambda: not buffer.points)
    assert influx.query('SELECT "value" FROM "cpu"', name)[0]["values"] == [[(BEGIN + 1) * 10**9, 1]]


def test_the_points_of_an_outage_arrive_with_their_times(influx: Influx, caplog: pytest.LogCaptureFixture) -> None:
    buffer = Buffer()
    with writer(buffer, settings(influx.url)):
        add(buffer, 0)
        until("the first point is written, and the writer knows", lambda: not buffer.points)
        assert times(influx) == [0]
        influx.stop()
        for number in range(1, 50):
            add(buffer, number)
        until("the outage is told", lambda: any("takes no points" in line for line in said(caplog)))
        influx.start()
        until("the points of the outage are there", lambda: times(influx) == list(range(50)))
    assert len([line for line in said(caplog) if "takes no points" in line]) == 1
    assert any("takes points again; 49 were waiting" in line for line in said(caplog))


def test_an_outage_longer_than_the_buffer_loses_the_oldest_and_tells_how_many(
    influx: Influx, caplog: pytest.LogCaptureFixture
) -> None:
    influx.stop()
    buffer = Buffer(limit=1000)
    for number in range(100):  # before it looks: it tells what was dropped since it told last
        add(buffer, number)
    kept = buffer.points
    assert buffer.size <= 1000
    with writer(buffer, settings(influx.url)):
        until("the loss is told", lambda: any("dropped" in line for line in said(caplog)))
        influx.start()
        until("what was kept is there", lambda: times(influx) == list(range(100 - kept, 100)))
    assert f"{100 - kept} points were dropped, the oldest first: the buffer is full" in said(caplog)


def test_whoever_adds_points_never_waits_for_a_database_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A black hole: it takes the connection and says nothing, then hears everything again when the call gave up."""
    monkeypatch.setattr("monitor.influx_server.TIMEOUT_MS", 100)
    with closing(socket.create_server(("127.0.0.1", 0))) as hole:
        buffer = Buffer(limit=10_000)
        with writer(buffer, settings(f"http://127.0.0.1:{hole.getsockname()[1]}")) as made:
            for number in range(5000):
                add(buffer, number)
            until("it has given up a try", lambda: made.fails > 0)
            assert 0 < buffer.size <= 10_000


def test_a_wrong_token_is_one_line_and_the_right_one_is_found_without_a_restart(
    make_influx: InfluxMaker, caplog: pytest.LogCaptureFixture
) -> None:
    influx = make_influx(auth=True)
    buffer = Buffer()
    add(buffer, 1)
    wrong, right = settings(influx.url, login="admin:guess"), settings(influx.url, login=ADMIN)
    with writer(buffer, wrong, wrong, wrong, right):
        until("the point is there", lambda: times(influx) == [1])
    (line,) = [line for line in said(caplog) if "refuses" in line]
    assert line.startswith("InfluxDB refuses (401 authorization failed): see influx.token, ")
    assert "guess" not in caplog.text


def test_a_token_that_was_corrected_after_a_refusal_is_used_at_the_very_next_try(
    make_influx: InfluxMaker, caplog: pytest.LogCaptureFixture
) -> None:
    influx = make_influx(auth=True)
    used: list[str] = []
    login = ["admin:guess"]

    class Noting:
        def __init__(self, token: str) -> None:
            self._token = token
            self._server = connect(settings(influx.url, login=token))

        def write(self, body: bytes) -> None:
            used.append(self._token)
            self._server.write(body)

        def make_bucket(self) -> None:
            self._server.make_bucket()

        def close(self) -> None:
            self._server.close()

    buffer = Buffer()
    add(buffer, 1)
    made = Writer(buffer, lambda: Noting(login[0]), QUICK._replace(denied=0.5))
    made.start()
    until("the guess is refused", lambda: any("refuses" in line for line in said(caplog)))
    login[0] = ADMIN
    until("the point is there", lambda: times(influx) == [1])
    made.stop(0.2)
    assert used[:2] == ["admin:guess", ADMIN]
    assert made.tally()[:4] == (1, 0, 0, 0)
    assert (made.tally().last_write or 0) > BEGIN


def test_no_token_where_one_is_wanted_is_told_as_a_refused_one(
    make_influx: InfluxMaker, caplog: pytest.LogCaptureFixture
) -> None:
    buffer = Buffer()
    add(buffer, 1)
    with writer(buffer, settings(make_influx(auth=True).url)):
        until("it is told", lambda: any("InfluxDB refuses (401 " in line for line in said(caplog)))
    assert buffer.points == 1


def test_points_that_are_refused_for_good_do_not_hold_up_the_others(
    influx: Influx, caplog: pytest.LogCaptureFixture
) -> None:
    buffer = Buffer()
    with writer(buffer, settings(influx.url)):
        add(buffer, 1)
        until("the first is there", lambda: times(influx) == [1])
        buffer.add(f"cpu,cpu=cpu-total,host=node1 value=2i {(BEGIN + 2) * 10**9}\n", 1)
        add(buffer, 3)
        until("the third is there", lambda: times(influx) == [1, 3])
        until("the second is told", lambda: any("refused 1 points for good" in line for line in said(caplog)))
        until("nothing is tried again", lambda: not buffer.points)
    assert any("field type conflict" in line for line in said(caplog))


def test_what_is_added_during_a_write_stays() -> None:
    buffer = Buffer()
    add(buffer, 1)
    batch = buffer.peek()
    add(buffer, 2)
    assert batch is not None
    buffer.done(batch)
    left = buffer.peek()
    assert left is not None
    assert (left.body.split()[1], left.points, buffer.points) == (b"value=2.0", 1, 1)


def test_what_is_dropped_during_a_write_is_not_taken_for_what_came_after_it() -> None:
    buffer = Buffer(limit=120)
    add(buffer, 1)
    batch = buffer.peek()
    for number in (2, 3, 4):
        add(buffer, number)
    assert batch is not None
    before = buffer.points
    buffer.done(batch)
    assert (buffer.points, buffer.dropped()) == (before, 4 - before)


def test_much_is_written_in_several_requests_of_a_bounded_size() -> None:
    sizes: list[int] = []

    def answer(_method: str, _path: str, body: bytes) -> tuple[int, Any]:
        sizes.append(len(body))
        return 204, None

    buffer = Buffer()
    for number in range(2000):
        buffer.add(f"cpu,host={'n' * 1000} value={number} {number}\n", 1)
    total = buffer.size
    with stub(answer) as url, writer(buffer, settings(url)):
        until("all is written", lambda: not buffer.points)
    assert sum(sizes) == total
    assert max(sizes) <= BATCH_BYTES
    assert len(sizes) == -(-total // BATCH_BYTES)


def test_the_end_writes_what_is_buffered(influx: Influx) -> None:
    buffer = Buffer()
    made = Writer(buffer, lambda: connect(settings(influx.url)), Pace(flush=60.0))
    made.start()
    add(buffer, 1)
    until("the first is there", lambda: times(influx) == [1])
    add(buffer, 2)
    made.stop(PATIENCE_S)
    assert times(influx) == [1, 2]


def test_the_way_of_influxdb_2_fills_a_database_that_is_written_so(victoria: Victoria) -> None:
    buffer = Buffer()
    for number in range(20):
        add(buffer, number)
    where = settings(victoria.url, version=2, login="any", org="lab")
    with writer(buffer, where):
        until("all is written", lambda: not buffer.points)
        until("it is there", lambda: len(victoria.values("cpu_value", BEGIN).get("node1", [])) == 20)
    assert victoria.values("cpu_value", BEGIN) == {
        "node1": [(float(BEGIN + number), float(number)) for number in range(20)]
    }


def test_the_points_of_an_outage_arrive_the_way_of_influxdb_2_too(victoria: Victoria) -> None:
    buffer = Buffer()
    victoria.stop()
    with writer(buffer, settings(victoria.url, version=2, login="any", org="lab")) as made:
        for number in range(20):
            add(buffer, number)
        until("a try failed", lambda: made.fails > 0)
        victoria.start()
        until("all is written", lambda: not buffer.points)
    until("it is there", lambda: len(victoria.values("cpu_value", BEGIN).get("node1", [])) == 20)


def test_a_missing_bucket_of_influxdb_2_is_made_with_its_name_for_influxql() -> None:
    asked: list[tuple[str, str, Any]] = []

    def answer(method: str, path: str, body: bytes) -> tuple[int, Any]:
        path, _, query = path.partition("?")
        if path == "/api/v2/write":
            made = any(one[1] == "/api/v2/dbrps" for one in asked)
            missing = {"code": "not found", "message": 'bucket "gpus" not found'}
            asked.append((method, f"{path}?{query}", None))
            return (204, None) if made else (404, missing)
        asked.append((method, path, json.loads(body) if body else query))
        return {
            "/api/v2/orgs": (200, {"orgs": [{"id": "0rg", "name": "lab"}]}),
            "/api/v2/buckets": (201, {"id": "buck"}),
            "/api/v2/dbrps": (201, {"id": "map"}),
        }[path]

    buffer = Buffer()
    add(buffer, 1)
    with stub(answer) as url, writer(buffer, settings(url, version=2, login="t", org="lab", bucket="gpus")):
        until("the point is taken", lambda: not buffer.points)
    names = {"orgID": "0rg", "bucketID": "buck", "database": "gpus", "retention_policy": "autogen", "default": True}
    write = ("POST", "/api/v2/write?org=lab&bucket=gpus&precision=ns", None)
    assert asked == [
        write,
        ("GET", "/api/v2/orgs", "org=lab"),
        ("POST", "/api/v2/buckets", {"orgID": "0rg", "name": "gpus"}),
        ("POST", "/api/v2/dbrps", names),
        write,
    ]


def test_influxdb_1_8_behind_the_way_of_2_gets_its_database_made_the_old_way() -> None:
    asked: list[str] = []

    def answer(_method: str, path: str, _body: bytes) -> tuple[int, Any]:
        asked.append(path)
        if path.startswith("/api/v2/write"):
            made = any(one.startswith("/query") for one in asked)
            return (204, None) if made else (404, {"error": 'database not found: "muster"'})
        return (200, {"results": [{}]}) if path.startswith("/query") else (404, None)

    buffer = Buffer()
    add(buffer, 1)
    with stub(answer) as url, writer(buffer, settings(url, version=2, login="user:password")):
        until("the point is taken", lambda: not buffer.points)
    assert "/query?q=CREATE+DATABASE+%22muster%22" in asked


def test_a_bucket_that_may_not_be_made_is_told_with_both_reasons(caplog: pytest.LogCaptureFixture) -> None:
    def answer(_method: str, path: str, _body: bytes) -> tuple[int, Any]:
        if path.startswith("/api/v2/write"):
            return 404, {"code": "not found", "message": 'bucket "muster" not found'}
        return 403, {"code": "forbidden", "message": "insufficient permissions"}

    buffer = Buffer()
    add(buffer, 1)
    with stub(answer) as url, writer(buffer, settings(url, version=2, login="t", org="lab")):
        until("it is told", lambda: said(caplog))
    assert 'bucket "muster" not found, and it could not be made: 403 insufficient permissions' in said(caplog)[0]


def test_a_database_that_asks_for_patience_gets_its_points_afterwards() -> None:
    busy = iter([503, 429, 500])

    def answer(_method: str, _path: str, _body: bytes) -> tuple[int, Any]:
        return next(busy, 204), None

    buffer = Buffer()
    add(buffer, 1)
    with stub(answer) as url, writer(buffer, settings(url, version=2)):
        until("the point is taken", lambda: not buffer.points)


def test_settings_that_were_corrected_during_an_outage_are_found_without_a_restart(influx: Influx) -> None:
    (nobody,) = free_ports(1)
    buffer = Buffer()
    add(buffer, 1)
    with writer(buffer, settings(f"http://127.0.0.1:{nobody}"), settings(influx.url)):
        until("the point is there", lambda: times(influx) == [1])


def test_a_mistake_in_the_settings_is_one_line_however_often_they_are_looked_at(
    caplog: pytest.LogCaptureFixture,
) -> None:
    (nobody,) = free_ports(1)
    buffer = Buffer()
    add(buffer, 1)
    first = [connect(settings(f"http://127.0.0.1:{nobody}"))]

    def look() -> Any:
        if first:
            return first.pop()
        raise ConfigError("conf.json: influx.url: a text is expected")

    made = Writer(buffer, look, QUICK)
    made.start()
    until("it was tried often", lambda: made.fails > 3)
    made.stop(0.2)
    assert said(caplog).count("conf.json: influx.url: a text is expected") == 1


def test_text_that_no_encoding_knows_does_not_stop_the_others() -> None:
    buffer = Buffer()
    buffer.add("m,host=\ud800 v=1i 1\n", 1)
    batch = buffer.peek()
    assert batch is not None
    assert batch.body == b"m,host=? v=1i 1\n"


def test_what_comes_after_an_end_that_cannot_wait_is_told(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    buffer = Buffer()
    add(buffer, 1)
    with writer(buffer, settings(f"http://127.0.0.1:{port}")) as made:
        until("a try failed", lambda: made.fails > 0)
    assert "1 points were not written: InfluxDB did not take them in time" in said(caplog)
    assert not list(tmp_path.iterdir())


@pytest.fixture(autouse=True)
def _heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "muster.influx")
