"""`scheduler.log_bytes`: who prints without end is warned and then ended; others, and files that are no logs, go on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from client.api import Client
from tests.system.lab import Lab
from tests.waiting import until

LIMIT = 4 << 20
PRINTS = "head -c {} /dev/zero | tr '\\0' x; read word < {}; yes"


@pytest.fixture
def small_logs(lab: Lab) -> Lab:
    lab.write_conf(scheduler={"grace_s": 1.0, "log_bytes": LIMIT})
    lab.start()
    return lab


def is_warned(client: Client, task: int) -> bool:
    """Once there is a warning: is it about the size of the log, in whole MiB?"""
    shown = until("a warning", lambda: one if (one := client.show(task))["warning"] else None)
    told = shown["warning_args"] or {}
    return (shown["warning_key"], told["size"] >> 20, told["limit"]) == ("large_log", 3, LIMIT)


def test_a_log_is_told_at_80_percent_and_ends_its_task_beyond_the_limit(small_logs: Lab, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    with small_logs.client() as client:
        task = client.submit(PRINTS.format(LIMIT * 85 // 100, gate), gpus=1)
        quiet = client.submit(f"head -c {LIMIT * 2} /dev/zero > {tmp_path}/checkpoint; echo kept; sleep 1000", gpus=1)
        assert is_warned(client, task)
    commands = (
        ["queue"],
        ["show", str(task)],
        ["queue", "--json"],
        ["why", str(task)],
        ["top", "--once"],
        ["top", "--json"],
    )
    for words in commands:
        assert "its log has 3 MiB" in small_logs.muster(*words).stdout, words
    small_logs.kill_master()
    small_logs.kill_agent("node0")
    small_logs.start()
    with small_logs.client() as client:
        assert is_warned(client, task)  # whoever restarts hears it again
        gate.write_text("go\n", encoding="utf-8")
        assert client.wait([task], 60)[task]["state"] == "failed"
        told = client.show(task)
        assert (told["reason"] or "").startswith("log_too_large: ")
        assert "4194304 are allowed" in (told["reason"] or "")
        assert told["warning"] is None
        assert client.show(quiet)["state"] == "running"
        assert (tmp_path / "checkpoint").stat().st_size == LIMIT * 2
        client.cancel([quiet])
        client.wait([quiet], 60)


def test_the_limit_holds_while_nobody_else_lives(small_logs: Lab, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    with small_logs.client() as client:
        task = client.submit(PRINTS.format(10, gate))
        client.wait([task], 60, until="started")
    small_logs.kill_master()
    small_logs.kill_agent("node0")
    gate.write_text("go\n", encoding="utf-8")
    until("the end of the task", lambda: not small_logs.attempts_alive())
    small_logs.start()
    with small_logs.client() as client:
        client.wait([task], 60)
        assert (client.show(task)["reason"] or "").startswith("log_too_large: ")


def test_without_a_limit_a_log_may_become_as_large_as_it_likes(lab: Lab, tmp_path: Path) -> None:
    lab.write_conf(scheduler={"grace_s": 1.0, "log_bytes": 0})
    lab.start()
    with lab.client() as client:
        task = client.submit(f"head -c {LIMIT * 2} /dev/zero; sleep 3; touch {tmp_path}/done")
        assert client.wait([task], 60)[task]["state"] == "succeeded"
