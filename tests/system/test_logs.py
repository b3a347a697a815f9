"""The output of real tasks, as people look at it: while it grows, with progress bars, with bytes that are no text."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.system.lab import ROOT, Lab
from tests.waiting import until

BARS = (
    "import sys, time\n"
    "print('begin')\n"
    "for n in range(0, 101, 10):\n"
    "    print(f'\\r{n:3}%', end='', flush=True)\n"
    "print('\\nend')\n"
)


def test_bars_are_one_line_each_if_so_asked(lab: Lab) -> None:
    lab.start()
    with lab.client() as client:
        task_id = client.submit([sys.executable, "-c", BARS])
        assert client.wait([task_id])[task_id]["state"] == "succeeded"
    raw = lab.muster("logs", str(task_id), "--raw").stdout
    assert raw == lab.muster("logs", str(task_id)).stdout
    assert raw.count("%") == 11
    collapsed = lab.muster("logs", "--collapse", str(task_id)).stdout
    assert collapsed == "begin\n100%\nend\n\nProgram Exit With Code 0\n"
    assert json.loads(lab.muster("logs", "--collapse", "--json", str(task_id)).stdout)["text"] == collapsed
    assert lab.muster("logs", "-f", "--collapse", str(task_id)).stdout == collapsed
    assert lab.muster("logs", "--server").stdout.count("serving on") == 1


def test_a_follower_sees_what_comes_and_ends_with_the_task(lab: Lab) -> None:
    lab.start()
    flag = lab.folder / "go"
    script = f"echo one; until [ -e {flag} ]; do sleep 0.01; done; printf 'two\\377\\n'"
    with lab.client() as client:
        task_id = client.submit(script)
    with subprocess.Popen(
        [sys.executable, "-m", "muster", "--conf", str(lab.conf), "logs", "-f", str(task_id)],
        cwd=ROOT, env=lab.environment(), stdout=subprocess.PIPE,
    ) as follower:  # fmt: skip
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"one\n"
        flag.touch()
        assert follower.stdout.readline() == b"two\xff\n"
        with lab.client() as client:
            client.wait([task_id])
        assert follower.stdout.read() == b"\nProgram Exit With Code 0\n"
        assert follower.wait(60) == 0
    shown = json.loads(lab.muster("logs", str(task_id), "--json").stdout)["text"]
    assert shown.startswith("one\ntwo\ufffd\n")


def test_a_log_that_is_deleted_meanwhile_is_empty_and_no_error(lab: Lab) -> None:
    lab.start()
    with lab.client() as client:
        task_id = client.submit("echo one")
        client.wait([task_id])
        log = lab.folder / "train_logs" / f"{task_id}.log"
        until("the log is there", log.exists)
        log.unlink()
        assert b"".join(client.logs(task_id, follow=True)) == b""
        assert list(client.collapsed_logs(task_id, follow=True)) == [(b"", b"")]
