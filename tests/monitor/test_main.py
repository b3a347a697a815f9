"""The writer as a process: a real master, real agents, a real InfluxDB, and what each of them does not notice."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from client.cli.programs import beside
from client.cli.programs.beside import WRITER
from monitor import influx_follower
from monitor.influx_follower import Collector
from monitor.influx_status import StatusFile
from monitor.influx_writer import Buffer, Tally
from tests.faults import refusing
from tests.monitor.databases import Influx
from tests.system.lab import ROOT, Lab
from tests.waiting import PATIENCE_S, until
from wire.errors import ConflictError
from wire.message import Message

StartWriter = Callable[..., "subprocess.Popen[str]"]


def configure(lab: Lab, **section: Any) -> None:
    lab.write_scheduler(sample_s=0.5)
    lab.write_conf(influx=section)


def monitor(conf: Path) -> list[str]:
    return [sys.executable, "-m", "monitor", "--conf", str(conf)]


@pytest.fixture
def start_writer(lab: Lab) -> Iterator[StartWriter]:
    """Start `python -m monitor`; it must end when told to."""
    started: list[subprocess.Popen[str]] = []

    def start(**section: Any) -> subprocess.Popen[str]:
        configure(lab, **section)
        started.append(
            subprocess.Popen(monitor(lab.conf), cwd=ROOT, env=lab.environment(), stderr=subprocess.PIPE, text=True)
        )
        return started[-1]

    yield start
    for process in started:
        process.terminate()
        _, told = process.communicate(timeout=60)
        assert process.returncode == 0, told


def one(influx: Influx, text: str) -> Any:
    rows = influx.rows(text)
    return rows[0] if rows else None


def test_what_a_master_tells_is_in_influxdb_and_is_right(lab: Lab, influx: Influx, start_writer: StartWriter) -> None:
    start_writer(url=influx.url, version=1)  # before there is a master: it waits for one
    lab.start()
    with lab.client() as client:
        ids = client.submit_batch(["true"] * 5 + ["exit 3"], gpus=1)
        tasks = client.wait(ids, 60)
        user = tasks[ids[0]]["owner"]

    def ends() -> dict[str, int]:
        rows = influx.rows('SELECT sum("ends") AS n FROM "task" GROUP BY "state", "user"')
        return {row["state"]: row["n"] for row in rows if row["state"] and row["user"] == user}

    until("all ends are there", lambda: ends() == {"succeeded": 5, "failed": 1})
    assert one(influx, 'SELECT sum("starts") AS n, count("wait_s") AS waits FROM "task"') == {
        "time": 0,
        "n": 6,
        "waits": 6,
    }
    until("samples are there", lambda: influx.rows('SELECT "value" FROM "cpu" WHERE "cpu" = \'cpu-total\''))
    total = one(influx, 'SELECT last("total") AS total FROM "ram" WHERE "host" = \'node0\'')
    memory = dict(line.split(":") for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
    assert total["total"] == pytest.approx(int(memory["MemTotal"].split()[0]) * 1024, rel=0.01)
    until("the node is there", lambda: influx.rows('SELECT "online" FROM "node" WHERE "online" = 1'))
    node = one(influx, 'SELECT last("online") AS online, "gpus" FROM "node" WHERE "host" = \'node0\'')
    assert (node["online"], node["gpus"]) == (1, lab.gpus)


def test_the_writer_opens_no_connection_on_which_it_has_nothing_to_say(
    lab: Lab, influx: Influx, start_writer: StartWriter
) -> None:
    lab.write_conf(limits={"handshake_s": 15.0})  # nobody else takes so long
    lab.start()
    start_writer(url=influx.url, version=1)
    until(
        "both streams are followed",
        lambda: influx.rows('SELECT "online" FROM "node"') and influx.rows('SELECT * FROM "cpu"'),
    )
    with lab.client() as client:
        data = client.address.data
    with socket.create_connection(("127.0.0.1", data)) as silent:  # ours came later, so it is given up later
        assert silent.recv(1) == b""
    until("it is told", lambda: "no request within" in lab.server_log())
    assert lab.server_log().count("no request within") == 1


def test_it_follows_over_the_death_of_the_master_and_counts_nothing_twice_or_not_at_all(
    lab: Lab, influx: Influx, start_writer: StartWriter
) -> None:
    start_writer(url=influx.url, version=1)
    lab.start()
    with lab.client() as client:
        client.wait([client.submit("true"), client.submit("true")], 60)
        sleeper = client.submit("sleep 1; exit 4")
        client.wait([sleeper], 60, until="started")
    lab.kill_master()
    lab.start()
    with lab.client() as client:
        client.wait([sleeper, client.submit("true")], 60)

    def counted() -> tuple[Any, Any] | None:
        found = one(influx, 'SELECT sum("starts") AS starts, sum("ends") AS ends FROM "task"')
        return found and (found["starts"], found["ends"])

    until("four starts and four ends", lambda: counted() == (4, 4))


def test_an_outage_of_the_database_leaves_no_hole(lab: Lab, influx: Influx, start_writer: StartWriter) -> None:
    start_writer(url=influx.url, version=1)
    lab.start()
    until("samples arrive", lambda: influx.rows('SELECT "value" FROM "cpu"'))
    with listening(lab) as heard:
        until("one that comes before", lambda: heard)
        influx.stop()
        before = len(heard)
        with lab.client() as client:
            client.wait(client.submit_batch(["true"] * 4), 60)
        until("some that come meanwhile", lambda: len(heard) > before + 3)
        influx.start()
        ended = 'SELECT sum("ends") AS n FROM "task"'
        until("the ends of that time are there", lambda: (one(influx, ended) or {}).get("n") == 4)
        after = len(heard)
        until("some that come after", lambda: len(heard) > after + 3)

    def missing() -> list[float]:
        rows = influx.rows('SELECT "value" FROM "cpu" WHERE "cpu" = \'cpu-total\'')
        kept = {round(row["time"] / 1e9, 3) for row in rows}
        return [at for at in heard if round(at, 3) not in kept]

    until("every sample is there", lambda: not missing(), seen=missing)


@contextmanager
def listening(lab: Lab) -> Iterator[list[float]]:
    """When the samples were taken of which the master tells meanwhile."""
    heard: list[float] = []
    over = threading.Event()

    def listen() -> None:
        with lab.client() as client:
            for message in client.watch("nodes"):
                if message["method"] == "node.sample":
                    heard.append(message["params"]["at"])
                if over.is_set():
                    return

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        yield heard
    finally:
        over.set()
        listener.join()


def test_a_database_that_swallows_everything_is_nothing_to_the_master(lab: Lab, start_writer: StartWriter) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as hole:
        start_writer(url=f"http://127.0.0.1:{hole.getsockname()[1]}", version=1)
        lab.start()
        with lab.client() as client:
            connection, _ = hole.accept()  # the writer is stuck in its first request from here on
            tasks = client.wait(client.submit_batch(["true"] * 20), 60)
            connection.close()
    assert {task["state"] for task in tasks.values()} == {"succeeded"}


def test_up_starts_it_and_down_ends_it(lab: Lab, influx: Influx) -> None:
    configure(lab, url=influx.url, version=1)
    lock = lab.task_info / "influx.lock"
    up = lab.muster("up", "--detach")
    assert (up.returncode, up.stderr) == (0, "")
    pid = int(lock.read_text(encoding="ascii"))
    second = subprocess.run(
        monitor(lab.conf), cwd=ROOT, env=lab.environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert second.returncode == 1
    assert second.stderr == f"error: locked: {Message('influx_lock_held', path=str(lock), pid=str(pid))}\n"
    until("points are there", lambda: influx.rows('SELECT "value" FROM "cpu"'))
    assert lab.muster("down").returncode == 0
    until("it is gone", lambda: pid not in {process.pid for process in lab.processes()})


def test_up_in_the_foreground_has_it_beside_and_takes_it_along(lab: Lab, influx: Influx) -> None:
    configure(lab, url=influx.url, version=1)
    lock = lab.task_info / "influx.lock"
    command = [sys.executable, "-m", "muster", "up", "--conf", str(lab.conf)]
    with subprocess.Popen(command, cwd=ROOT, env=lab.environment(), stderr=subprocess.PIPE, text=True) as up:
        try:
            until("points are there", lambda: influx.rows('SELECT "value" FROM "cpu"'))
            pid = int(lock.read_text(encoding="ascii"))
            assert lab.muster("down").returncode == 0
            _, told = up.communicate(timeout=60)
        finally:
            up.kill()
    assert up.returncode == 0, told
    until("it is gone", lambda: pid not in {process.pid for process in lab.processes()})


def test_what_a_dead_master_left_is_ended_by_down_and_replaced_by_up(lab: Lab, influx: Influx) -> None:
    configure(lab, url=influx.url, version=1)
    lock = lab.task_info / "influx.lock"
    assert lab.muster("up", "--detach").returncode == 0
    first = lock.read_text(encoding="ascii")
    with lab.client() as client:
        subprocess.run(["kill", "-9", str(client.info()["pid"])], check=True)
    assert lab.muster("up", "--detach").returncode == 0
    second = lock.read_text(encoding="ascii")
    assert first != second
    with lab.client() as client:
        subprocess.run(["kill", "-9", str(client.info()["pid"])], check=True)
    down = lab.muster("down")
    assert down.returncode == 3
    assert str(Message("program_left_behind", name=WRITER.name)) in down.stderr
    until("it is gone", lambda: int(second) not in {process.pid for process in lab.processes()})


def test_status_tells_of_the_writer_and_up_starts_one_that_was_killed(lab: Lab, influx: Influx) -> None:
    configure(lab, url=influx.url, version=1)
    begun = time.time()
    assert lab.muster("up", "--detach").returncode == 0

    def metrics() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(lab.muster("status", "--json").stdout)["metrics"]
        return found

    said = Path(WRITER.log_file(str(lab.conf)))
    until("the writer says where it writes", lambda: said.exists() and influx.url in said.read_text("utf-8"))
    assert metrics()["last_word"] in said.read_text("utf-8").splitlines()
    pid = int((lab.task_info / "influx.lock").read_text(encoding="ascii"))
    assert metrics()["pid"] == pid
    until("points are written", lambda: metrics().get("written"))
    assert begun <= metrics()["last_write"] <= time.time()
    assert re.search(
        rf"\nmetrics  pid {pid}; [\d,]+ points written, the last \d+s ago[,;] ", lab.muster("status").stdout
    )
    again = lab.muster("up", "--detach")
    assert (again.returncode, again.stderr.partition(" a master runs")[0]) == (1, "error: conflict:")
    os.kill(pid, signal.SIGKILL)
    until("it is gone", lambda: metrics()["pid"] is None)
    assert "written" not in metrics(), "what a writer of before said is not how things are"
    assert "\nmetrics  NOT written: the writer does not run (`muster up` starts it); " in lab.muster("status").stdout
    again = lab.muster("up")
    assert (again.returncode, again.stderr) == (0, "")
    assert "the writer of metrics did not, and was started" in again.stdout
    assert metrics()["pid"] not in (None, pid)
    assert lab.muster("down").returncode == 0


def test_who_only_asks_whether_a_writer_runs_does_not_keep_one_from_starting(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To ask is to take the lock for an instant, and `muster up` asks while the writer starts."""
    monkeypatch.setattr(influx_follower, "LOCK_S", PATIENCE_S)  # this process may be stopped, and its timer with it
    configure(lab, url="http://127.0.0.1:1")
    lock = lab.task_info / "influx.lock"
    lab.task_info.mkdir(exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        threading.Timer(0.1, fcntl.flock, (file, fcntl.LOCK_UN)).start()
        os.close(influx_follower._lock(lock))
    assert lock.read_text(encoding="ascii") == f"{os.getpid()}\n"


def test_a_writer_that_ends_by_itself_while_it_is_told_to_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "_GONE_S", PATIENCE_S)
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    with (tmp_path / WRITER.lock).open("w") as file:
        file.write(str(gone.pid))
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        threading.Timer(0.1, fcntl.flock, (file, fcntl.LOCK_UN)).start()
        assert WRITER.stop(str(tmp_path), str(tmp_path / "conf.json"))


def test_a_writer_of_another_machine_is_not_said_to_have_ended(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as elsewhere:
        elsewhere.wait()
    with (tmp_path / WRITER.lock).open("w") as file:
        file.write(str(elsewhere.pid))
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        with refusing(ConflictError, "program_not_ended"):
            WRITER.stop(str(tmp_path), str(tmp_path / "conf.json"))


def test_a_master_that_makes_no_sense_does_not_end_the_writer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    collector = Collector(Buffer(), lambda: Tally(0, 0, 0, 0, None), StatusFile(tmp_path / "influx.json"))
    collector.messages.put(("nodes", {"method": "snapshot", "params": {"nodes": [{"name": "n", "gpus": [3]}]}}))
    ending = threading.Event()
    worker = threading.Thread(target=collector.run, args=(ending,))
    worker.start()
    until("it is told", lambda: "what the master told makes no sense: 'how things are'" in caplog.text)
    assert worker.is_alive()
    ending.set()
    worker.join()


def test_a_writer_that_cannot_start_is_told_by_up_and_the_master_serves(lab: Lab) -> None:
    section = {"url": "http://127.0.0.1:1", "token": "file:nowhere"}
    configure(lab, **section)
    up = lab.muster("up", "--detach")
    assert up.returncode == 0
    assert "metrics are not written: error: config: " in up.stderr
    assert "influx.token: " in up.stderr
    assert lab.muster("down").returncode == 0


def test_a_mistake_in_conf_json_is_one_line(lab: Lab) -> None:
    configure(lab, url="nonsense")
    told = subprocess.run(
        monitor(lab.conf), cwd=ROOT, env=lab.environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert told.returncode == 1
    assert told.stderr.startswith(f"error: config: {lab.conf}: influx.url: ")
    assert told.stderr.count("\n") == 1
