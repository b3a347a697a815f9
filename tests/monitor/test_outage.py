"""A database that is slow, or swallows what it is sent, is nothing to the scheduler: no start waits for it, and what
waits for it has a bound."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from client.api import Client
from tests.monitor.databases import stub
from tests.monitor.test_main import configure
from tests.system.lab import ROOT, Lab
from tests.waiting import PATIENCE_S, until

LIMIT = 4_000
SMALL = (
    "import sys; from monitor.influx_writer import Buffer; Buffer.__init__.__defaults__ = (int(sys.argv.pop(1)),);"
    "from monitor.influx_follower import main; sys.exit(main(sys.argv[1:]))"
)
"""The writer, with a small buffer: hours of an outage pass in a moment."""
SHORTEST_POINT = len("task,user=x starts=1i 1700000000000000000\n")
STARTS = 15


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


def start_some(client: Client) -> None:
    """One after the other. Raises TimeoutError where one waits for a database that never answers."""
    for _ in range(STARTS):
        task = client.submit("true")
        assert client.wait([task], PATIENCE_S)[task]["state"] == "succeeded"


@contextmanager
def swallowing() -> Iterator[str]:
    """It takes connections and says nothing."""
    with closing(socket.create_server(("127.0.0.1", 0))) as hole:
        yield f"http://127.0.0.1:{hole.getsockname()[1]}"


@contextmanager
def slow() -> Iterator[str]:
    """It reads the points, and answers when all is over."""
    over = threading.Event()

    def answer(_method: str, _path: str, _body: bytes) -> tuple[int, Any]:
        over.wait()
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
        start_some(client)
        client.wait(client.submit_batch(["true"] * 100), PATIENCE_S)
        found = until("the oldest were dropped", lambda: told(lab) if told(lab).get("dropped") else None)
        assert found["waiting"] <= LIMIT / SHORTEST_POINT
        assert re.search(r"\nmetrics  pid \d+; [\d,]+ points written.*, [\d,]+ dropped", lab.muster("status").stdout)
