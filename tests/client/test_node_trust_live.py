"""A machine behind a real sshd, from its first line in the registry to its last: trusted, changed, given up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults import error_line
from tests.master.drivers.real_sshd import USER, RealSshd
from tests.waiting import until
from tests.wrong_input.mistakes import Lab8


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[RealSshd]:
    made = RealSshd(tmp_path / "far")
    made.start()
    yield made
    made.close()


@pytest.fixture
def lab(tmp_path: Path, sshd: RealSshd) -> Iterator[Lab8]:
    made = Lab8(tmp_path / "lab")
    made.start()
    said(made, "node", "rm", "node0", "--yes")  # far is this machine, which is served as one node
    words = ("--ip", "127.0.0.1", "--port", str(sshd.port), "--user", USER, "--key-file", str(sshd.client_key))
    added = said(made, "node", "add", "far", *words, "--gpus", "1", "--gpu-probe", "declared")
    assert "muster node trust far" in added
    yield made
    left = made.close()
    made.no_traceback()
    assert not left


def said(lab: Lab8, *words: str) -> str:
    """What a command that must succeed printed."""
    done = lab.muster(*words)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def far(lab: Lab8, **fields: Any) -> dict[str, Any]:
    """The node, once it says so of itself."""

    def look() -> dict[str, Any] | None:
        node: dict[str, Any] = json.loads(said(lab, "node", "show", "far", "--json"))
        return node if fields.items() <= node.items() else None

    return until(f"far: {fields}", look)


def test_a_machine_is_used_only_while_it_shows_the_key_that_was_looked_at(lab: Lab8, sshd: RealSshd) -> None:
    first = sshd.host_key.fingerprint
    reason = far(lab, state="untrusted", schedulable=False)["reason"]
    assert first in reason
    assert "`muster node trust far`" in reason
    assert "nothing was pinned" in lab.refused("node", "trust", "far", "--fingerprint", "SHA256:" + "x" * 43).message
    told = json.loads(said(lab, "node", "trust", "far", "--yes", "--json"))
    assert told == [{
        "name": "far", "offered": {"type": "ssh-ed25519", "fingerprint": first}, "known": None, "pinned": True,
    }]  # fmt: skip
    far(lab, state="online")
    gate = lab.folder / "gate"
    task_id = lab.submit("--node", "far", "--gpus", "1", "--", "bash", "-c", f"until [ -e {gate} ]; do sleep 0.1; done")
    far(lab, tasks=[task_id])

    sshd.stop()
    sshd.new_host_key()
    sshd.start()
    second = sshd.host_key.fingerprint
    reason = far(lab, state="untrusted", tasks=[task_id])["reason"]
    assert first in reason
    assert second in reason
    refused = lab.muster("node", "trust", "--all", "--yes")
    assert refused.returncode == 1
    assert error_line("conflict", "pinned_key_differs", node="far") in refused.stderr
    shown = said(lab, "node", "trust", "far", "--fingerprint", second)
    assert "pinned" in shown
    far(lab, state="online", tasks=[task_id])
    gate.touch()
    assert lab.ended(task_id)["state"] == "succeeded"
    assert "known already" in said(lab, "node", "trust", "--all")


def test_a_machine_that_is_given_up_has_nothing_left_of_its_tasks_when_it_comes_back(lab: Lab8, sshd: RealSshd) -> None:
    said(lab, "node", "trust", "far", "--fingerprint", sshd.host_key.fingerprint)
    far(lab, state="online")
    alive = lab.folder / "alive"
    task_id = lab.submit("--node", "far", "--gpus", "1", "--", "bash", "-c", f"echo $$ > {alive}; sleep 600")
    until("it runs", lambda: alive.exists() and alive.read_text(encoding="ascii").strip())
    pid = int(alive.read_text(encoding="ascii"))
    sshd.stop()
    far(lab, state="unreachable")
    assert "no host key" in lab.refused("node", "trust", "far").message
    assert f"1 task runs there ({task_id})" in said(lab, "node", "lost", "far", "--yes")
    assert lab.ended(task_id)["state"] == "lost"
    assert Path(f"/proc/{pid}").exists()
    sshd.start()
    second = lab.submit("--node", "far", "--gpus", "1", "--", "test", "!", "-e", f"/proc/{pid}")
    assert lab.ended(second)["state"] == "succeeded"
