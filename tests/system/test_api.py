"""`muster api` with a real master: what is typed becomes a request that it takes, or refuses in its words."""

from __future__ import annotations

import json
from typing import Any

from tests.system.lab import Lab
from tests.waiting import PATIENCE_S


def asked(lab: Lab, *words: str) -> Any:
    done = lab.muster("api", *words)
    assert (done.returncode, done.stderr) == (0, ""), done
    return json.loads(done.stdout)


def test_a_task_is_filed_edited_listed_and_cancelled_by_the_names_of_the_wire(lab: Lab) -> None:
    lab.start()
    task_id = asked(lab, "task.submit", "command=sleep 1000", "name=7", "hold=true", "cpus=1")["id"]
    edited = asked(lab, "task.edit", f"id={task_id}", 'changes={"priority": 5}')
    assert (edited["name"], edited["priority"], edited["command"]) == ("7", 5, "sleep 1000")
    listed = asked(lab, "task.list", "states=held,lost", "limit=3", "search=sleep")
    assert [task["id"] for task in listed["tasks"]] == [task_id]
    assert asked(lab, "task.cancel", f"ids={task_id}")["cancelled"] == [task_id]
    wrong = lab.muster("api", "task.list", "limit=many")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "error: bad_request: " in wrong.stderr
    assert "'many'" in wrong.stderr or '"many"' in wrong.stderr
    unknown = lab.muster("api", "task.list", "limits=3")
    assert "limit" in unknown.stderr
    assert unknown.returncode == 1


def test_who_ends_the_master_is_answered(lab: Lab) -> None:
    lab.start()
    assert asked(lab, "server.stop") == {}
    assert lab.master is not None
    assert lab.master.wait(PATIENCE_S) == 0
    lab.master = None


def test_the_master_tells_how_long_it_keeps_people_waiting_and_begins_when_it_serves(lab: Lab) -> None:
    lab.start()
    info = asked(lab, "server.info")
    loop = info["loop"]
    assert loop["turns"] == sum(loop["by_wall"]) == sum(loop["by_cpu"]) > 0
    assert loop["cpu"] > 0
    assert info["started_at"] < loop["since"]
