"""Settings and quotas under a real master: they hold at once and outlive its death; where conf.json differs is told."""

from __future__ import annotations

import json
from typing import Any

from tests.system.lab import Lab
from tests.waiting import until


def told(lab: Lab, *words: str) -> Any:
    done = lab.muster(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_was_set_holds_at_once_and_after_the_master_was_killed_and_the_log_says_what_conf_json_says(
    lab: Lab,
) -> None:
    lab.write_conf(scheduler={"grace_s": 2.0, "reserve_after": 60})
    lab.start()
    done = lab.muster("set", "scheduler.reserve_after", "2h")
    assert done.stdout == "scheduler.reserve_after: 2h (was 1m); conf.json says 1m, which does not hold now\n"
    assert told(lab, "set", "scheduler.max_running", "1")["value"] == 1
    with lab.client() as client:
        first, second = client.submit("sleep 1000"), client.submit("true")
        client.wait([first], until="started")
        told_of = f"waits for a quota: scheduler.max_running is 1, and 1 task runs ({client.show(first)['owner']} 1)"
        until("why is told", lambda: client.show(second)["reason"] == told_of, seen=lambda: client.show(second))
    lab.kill_master()
    lab.start()
    assert "scheduler.reserve_after is 7200.0" in lab.server_log()
    assert f"what {lab.folder / 'conf.json'} says does not hold" in lab.server_log()
    found = {one["name"]: one for one in told(lab, "set")}
    assert (found["scheduler.reserve_after"]["value"], found["scheduler.reserve_after"]["default"]) == (7200, 60)
    with lab.client() as client:
        until("the first one is found again", lambda: client.show(first)["state"] == "running")
        assert client.show(second)["state"] == "waiting"
        assert lab.muster("set", "--default", "scheduler.max_running").returncode == 0
        assert client.wait([second])[second]["state"] == "succeeded"
        client.cancel([first])
        client.wait([first])
    verbs = [(line["verb"], line["target"]) for line in told(lab, "audit", "--verb", "setting")]
    assert verbs == [
        ("setting.reset", "scheduler.max_running = none"),
        ("setting.set", "scheduler.max_running = 1"),
        ("setting.set", "scheduler.reserve_after = 7200.0"),
    ]


def test_the_quota_of_a_project_holds_for_whoever_is_alone_and_survives_the_master(lab: Lab) -> None:
    lab.start()
    assert told(lab, "projects", "edit", "crawl", "max_running=1")["quota"]["max_running"] == 1
    with lab.client() as client:
        first, second = (client.submit("sleep 1000", project="crawl") for _ in range(2))
        client.wait([first], until="started")
        lab.kill_master()
        lab.start()
        until("the first one is found again", lambda: client.show(first)["state"] == "running")
        told_of = "max_running of project crawl is 1, and 1 task runs ("
        until(
            "why is told",
            lambda: any(line.startswith(told_of) for line in client.why(second)["details"][:1]),
            seen=lambda: client.why(second),
        )
        client.start(second)  # whoever is alone is an admin
        client.wait([second], until="started")
        client.cancel([first, second])
        client.wait([first, second])
