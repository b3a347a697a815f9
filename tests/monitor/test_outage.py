"""A database that is slow, or swallows what it is sent, is nothing to the scheduler: no start waits for it, and what
waits for it has a bound."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from client.api import Client
from tests.monitor.databases import stub
from tests.monitor.test_main import configure
from tests.system.lab import ROOT, Lab
from tests.waiting import until

LIMIT = 4_000
SMALL = (
    "import sys; from monitor.influx_writer import Buffer; Buffer.__init__.__defaults__ = (int(sys.argv.pop(1)),);"
    "from monitor.influx_follower import main; sys.exit(main(sys.argv[1:]))"
)
"""The writer, with a small buffer: hours of an outage pass in a moment."""
SHORTEST_POINT = len("task,user=x starts=1i 1700000000000000000\n")
STARTS = 15
SLOW_S = 30.0
"""Far more than a start takes on a machine that has other things to do."""


@contextmanager
def writer(lab: Lab, url: str) -> Iterator[None]:
    configure(lab, url=url, version=1)
    command = [sys.executable, "-c", SMALL, str(LIMIT), "--conf", str(lab.conf)]
    with subprocess.Popen(command, cwd=ROOT, env=lab.environment(), stderr=subprocess.DEVNULL) as process:
        try:
            until("the writer runs", lambda: (lab.task_info / "influx.lock").exists() and told(lab))
            yield
        finally:
            process.kill()


def told(lab: Lab) -> dict[str, Any]:
    """What `muster status` says of the writer's points; nothing before it said something."""
    metrics: dict[str, Any] = json.loads(lab.muster("status", "--json").stdout).get("metrics") or {}
    return metrics if "written" in metrics else {}


def seconds_to_start(client: Client) -> float:
    """The most that some tasks took, from the submit to the start that the node tells."""
    spans = []
    for _ in range(STARTS):
        begun = time.time()
        task = client.submit("true")
        spans.append((client.wait([task], 60)[task]["started_at"] or begun) - begun)
    return max(spans)


@contextmanager
def swallowing() -> Iterator[str]:
    """It takes connections and says nothing."""
    with closing(socket.create_server(("127.0.0.1", 0))) as hole:
        yield f"http://127.0.0.1:{hole.getsockname()[1]}"


@contextmanager
def slow() -> Iterator[str]:
    """It takes the points, each time after a while."""
    over = threading.Event()

    def answer(_method: str, _path: str, _body: bytes) -> tuple[int, Any]:
        over.wait(SLOW_S)
        return 204, None

    with stub(answer) as url:
        try:
            yield url
        finally:
            over.set()


@pytest.mark.parametrize("database", [swallowing, slow])
def test_no_start_waits_for_it_and_what_waits_is_bounded(lab: Lab, database: Any) -> None:
    lab.start()
    with lab.client() as client, database() as url, writer(lab, url):
        assert seconds_to_start(client) < SLOW_S, "a start waited for the database"
        client.wait(client.submit_batch(["true"] * 100), 60)
        found = until("the oldest were dropped", lambda: told(lab) if told(lab).get("dropped") else None)
        assert found["waiting"] <= LIMIT / SHORTEST_POINT
        assert re.search(r"\nmetrics  pid \d+; [\d,]+ points written.*, [\d,]+ dropped", lab.muster("status").stdout)
