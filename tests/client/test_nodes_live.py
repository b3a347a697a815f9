"""The registry and its nodes through the command line, with a real master, real agents and a file that is edited."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults import link_of, says
from tests.system.lab import rewrite
from tests.waiting import until
from tests.wrong_input.mistakes import Lab8, the_line

LOCAL = ("--driver", "local", "--gpu-probe", "declared")


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab8]:
    made = Lab8(tmp_path / "lab")
    made.start()
    yield made
    left = made.close()
    made.no_traceback()
    assert not left


def said(lab: Lab8, *words: str) -> str:
    """What a command that must succeed printed."""
    done = lab.muster(*words)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def nodes(lab: Lab8) -> dict[str, dict[str, Any]]:
    return {node["name"]: node for node in json.loads(said(lab, "nodes", "--json"))}


def becomes(lab: Lab8, name: str, **fields: Any) -> None:
    """Wait until a node says so of itself."""
    until(f"{name}: {fields}", lambda: fields.items() <= nodes(lab).get(name, {}).items())


def test_a_node_comes_works_is_drained_edited_and_goes(lab: Lab8) -> None:
    said(lab, "node", "add", "新", *LOCAL, "--gpus", "2", "--gpu-model", "A100", "--label", "room=二楼")
    becomes(lab, "新", state="online", schedulable=True)
    first = lab.submit("--node", "新", "--gpus", "2", "--", "sleep", "60")
    becomes(lab, "新", tasks=[first])
    assert f"1 task runs there ({first})" in said(lab, "node", "drain", "新", "--reason", "fan")
    second = lab.submit("--node", "新", "--gpus", "1", "--", "true")
    until("why it waits is told", lambda: "drained" in said(lab, "why", str(second)))
    page = said(lab, "node", "show", "新")
    assert all(part in page for part in ("draining", "fan", "room=二楼", "sleep 60"))
    lab.kill_master()
    lab.start()
    becomes(lab, "新", drained="fan", state="online", tasks=[first])
    said(lab, "cancel", str(first))
    assert "nothing runs there any more" in said(lab, "node", "drain", "新", "--wait")
    assert lab.tasks()[second]["state"] == "waiting"
    said(lab, "node", "resume", "新")
    assert lab.ended(second)["state"] == "succeeded"
    said(lab, "node", "edit", "新", "gpus=3", "gpu-model=A100")
    assert len(nodes(lab)["新"]["gpus"]) == 3
    said(lab, "node", "rm", "新", "--yes")
    assert list(nodes(lab)) == ["node0"]
    assert [entry["name"] for entry in json.loads(lab.registry.read_text(encoding="utf-8"))] == ["node0"]


def test_a_busy_node_that_is_removed_ends_its_task_first(lab: Lab8) -> None:
    gate = lab.folder / "gate"
    task_id = lab.submit("--gpus", "8", "--", "bash", "-c", f"until [ -e {gate} ]; do sleep 0.05; done")
    becomes(lab, "node0", tasks=[task_id])
    assert f"it is gone when its last task has ended: 1 task runs there ({task_id})" in (
        said(lab, "node", "rm", "node0", "--yes")
    )
    assert nodes(lab)["node0"]["registry"] == "leaving"
    assert lab.refused("submit", "--node", "node0", "--gpus", "9", "--", "true").code == "impossible"
    gate.touch()
    assert lab.ended(task_id)["state"] == "succeeded"
    until("the node is gone", lambda: not nodes(lab))
    assert lab.refused("node", "show", "node0").code == "not_found"
    assert json.loads(lab.registry.read_text(encoding="utf-8")) == []


def test_the_file_is_followed_while_tasks_run_and_a_broken_one_is_told_and_harmless(lab: Lab8) -> None:
    task_id = lab.submit("--gpus", "1", "--", "sleep", "60")
    becomes(lab, "node0", tasks=[task_id])
    good = json.loads(lab.registry.read_text(encoding="utf-8"))
    lab.write_registry([*good, {**good[0], "name": "by-hand", "//": "mine"}])
    becomes(lab, "by-hand", state="online")
    for broken in ("", "garbage", [*good, good[0]], [{**good[0], "gpu_count": -1}], [{**good[0], "gpus": 1}]):
        text = broken if isinstance(broken, str) else json.dumps(broken)
        rewrite(lab.registry, text)
        fault = until("the fault is told", lambda: _fault(lab, str(lab.registry)))
        assert said(lab, "nodes").splitlines()[0].endswith(fault)
        assert said(lab, "status").splitlines()[0].endswith(fault)
        assert list(nodes(lab)) == ["node0", "by-hand"]
        refusal = the_line(lab.muster("node", "rm", "by-hand", "--yes"), 1)
        assert (refusal.code, refusal.message) == ("config", fault)
        assert lab.registry.read_text(encoding="utf-8") == text
        lab.write_registry([*good, {**good[0], "name": "by-hand"}])
        until("the fault is over", lambda: not _fault(lab, ""))
    assert lab.tasks()[task_id]["state"] == "running"
    said(lab, "cancel", str(task_id))
    lab.ended(task_id)


def _fault(lab: Lab8, part: str) -> str | None:
    fault: str | None = json.loads(said(lab, "status", "--json"))["registry_fault"]
    return fault if fault and part in fault else None


def test_agents_stop_and_start_and_their_tasks_run_on(lab: Lab8) -> None:
    gate = lab.folder / "gate"
    task_id = lab.submit("--gpus", "1", "--", "bash", "-c", f"until [ -e {gate} ]; do sleep 0.05; done; exit 3")
    becomes(lab, "node0", tasks=[task_id])
    agent = lab.agent_pid("node0")
    assert said(lab, "agents", "stop") == "node node0: agent stopped\n"
    becomes(lab, "node0", state="unreachable", tasks=[task_id])
    until("the agent is gone", lambda: lab.agent_pid("node0") != agent)
    lab.kill_master()
    lab.start()
    assert says(link_of(nodes(lab)["node0"]), "agent_stopped_start", name="node0")
    gate.touch()
    said(lab, "agents", "start", "node0")
    ended = lab.ended(task_id)
    assert (ended["state"], ended["exit_code"]) == ("failed", 3)
    said(lab, "agents", "restart")
    becomes(lab, "node0", state="online")


def test_mistakes_with_nodes_are_one_line_each(lab: Lab8) -> None:
    becomes(lab, "node0", state="online")
    before = lab.registry.read_bytes()
    for words, code in (
        (("node", "add", "node0", *LOCAL, "--gpus", "1"), "conflict"),
        (("node", "add", "b", "--gpus", "1"), "bad_request"),
        (("node", "add", "a,b", *LOCAL, "--gpus", "1"), "bad_request"),
        (("node", "add", "b", *LOCAL, "--gpus", "2", "--gpu-model", "A,B,C"), "bad_request"),
        (("node", "edit", "node0", "gpu-probe=guess"), "bad_request"),
        (("node", "edit", "nobody", "port=1"), "not_found"),
        (("node", "rm", "nobody", "--yes"), "not_found"),
        (("node", "rm", "node0"), "bad_request"),
        (("node", "trust", "node0"), "bad_request"),
        (("node", "lost", "node0", "--yes"), "conflict"),
        (("node", "resume", "node0"), "conflict"),
        (("agents", "stop", "nobody"), "not_found"),
    ):
        assert lab.refused(*words).code == code, words
    assert lab.registry.read_bytes() == before
