"""Arrays and sweeps with a real master, agent and shims: what a task finds, that no more run than may, also over a
killed master, and that failures hold the rest."""

from __future__ import annotations

import json
import re

from tests.system.lab import Lab
from tests.waiting import until


def test_a_sweep_runs_with_its_values_and_no_more_at_once_than_its_cap_over_a_killed_master(lab: Lab) -> None:
    lab.start()
    marks = lab.folder / "marks"
    marks.mkdir()
    # Each one leaves what it is and how many it sees beside it, itself among them.
    line = (
        'cd "$0" && touch "run.$MUSTER_TASK_ID" && ls | grep -c ^run >"seen.$MUSTER_TASK_ID" && sleep 0.3 && '
        'echo "$1|$MUSTER_SWEEP_lr|$MUSTER_ARRAY_INDEX|$MUSTER_ARRAY_ID|'
        '$MUSTER_ARRAY_COUNT|$MUSTER_ARRAY_MIN|$MUSTER_ARRAY_MAX" >"told.$MUSTER_TASK_ID" && '
        'rm "run.$MUSTER_TASK_ID"'
    )
    sweep = {"lr": ["0.1", "a b;$(id)", "x", "y", "z", "u"]}
    with lab.client() as client:
        ids = client.submit_array(["bash", "-c", line, str(marks), "{lr}"], sweep=sweep, cap=2)
    assert ids == [1, 2, 3, 4, 5, 6]
    until("two of them run or have run", lambda: len([*marks.glob("seen.*")]) >= 2)
    lab.kill_master()
    lab.start()
    assert lab.muster("wait", "1/").returncode == 0
    seen = [int(path.read_text(encoding="utf-8")) for path in marks.glob("seen.*")]
    assert len(seen) == len(ids)
    assert max(seen) <= 2
    told = {path.name: path.read_text(encoding="utf-8").strip() for path in marks.glob("told.*")}
    assert told["told.2"] == "a b;$(id)|a b;$(id)|1|1|6|0|5"


def test_failures_hold_the_rest_of_an_array_until_somebody_lets_it_go_on(lab: Lab) -> None:
    lab.start()
    good = lab.folder / "good"
    script = lab.folder / "job.sh"
    script.write_text(f"#MUSTER --array 0-5%1 --max-fails 2 --name job\n[ -e {good} ] || exit 7\n", encoding="utf-8")
    assert lab.muster("submit", "--script", str(script)).stdout == "1-6\n"
    held = until("the rest is held", lambda: tasks if len(tasks := _held(lab)) == 4 else None)
    assert "exit code 7" in held[0]["reason"]
    assert "muster release 1/" in lab.muster("why", "5").stdout
    good.touch()
    assert re.search(r"tasks 3-6: released", lab.muster("release", "1/").stdout)
    assert "changed cap" in lab.muster("edit", "1/", "cap=3").stdout
    assert lab.muster("retry", "1/", "--state", "failed").returncode == 0
    job = lab.folder / "after.sh"
    job.write_text("true\n", encoding="utf-8")
    assert lab.muster("submit", "--after", "1/", "--script", str(job)).stdout == "7\n"
    assert lab.muster("wait", "1/", "7").returncode == 0
    assert json.loads(lab.muster("show", "7", "--json").stdout)["after"] == [{"id": 1, "on": "ok", "array": True}]
    assert re.search(r"after: +1/:ok", lab.muster("show", "7").stdout)
    assert lab.muster("rm", "1/").returncode == 0
    assert lab.muster("hold", "1/").returncode == 1


def _held(lab: Lab) -> list[dict[str, str]]:
    return [task for task in json.loads(lab.muster("queue", "--json").stdout) if task["state"] == "held"]
