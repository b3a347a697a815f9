"""Settings and quotas under a real master: they hold at once and outlive its death; where conf.json differs is told."""

from __future__ import annotations

import json
import os
import signal
from itertools import islice, pairwise
from typing import Any

from tests.faults import link_of, reason_of, says
from tests.system.lab import Lab
from tests.waiting import until
from wire.agent import SAMPLE_S
from wire.message import Message


def told(lab: Lab, *words: str) -> Any:
    done = lab.muster(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def limited(view: Any, owner: str) -> bool:
    """Does the task wait since one task, of this owner, may run in the cluster?"""
    why = reason_of(view)
    return (
        says(why, "over_quota")
        and says(why, "cluster_runs_enough", most=1, used=1)
        and says(why, "used_by_one", name=owner, count=1)
    )


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
        owner = client.show(first)["owner"]
        until("why is told", lambda: limited(client.show(second), owner), seen=lambda: client.show(second))
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


def test_a_node_is_sampled_and_pinged_as_an_admin_says_while_it_runs_and_after_the_master_was_killed(lab: Lab) -> None:
    lab.start()
    await_online(lab)
    for name, value in (("sample_s", 0.5), ("heartbeat_s", 1)):
        assert told(lab, "set", f"scheduler.{name}", str(value))["value"] == value
    assert is_sampled_often(lab)
    lab.kill_master()
    lab.start()
    await_online(lab)
    agent = lab.agent_pid("node0")
    assert agent is not None
    os.kill(agent, signal.SIGSTOP)
    try:
        with lab.client() as client:
            silent = Message("agent_silent", seconds=3.0)
            until("its silence is noticed", lambda: link_of(client.node("node0")) == silent)
    finally:
        os.kill(agent, signal.SIGCONT)
    await_online(lab)
    assert is_sampled_often(lab)


def await_online(lab: Lab) -> None:
    with lab.client() as client:
        until("the node is online", lambda: client.node("node0")["state"] == "online")


def is_sampled_often(lab: Lab) -> bool:
    """Whether two of some samples of the node lie as close together as no agent's do by itself."""
    with lab.client() as client:
        samples = (one["params"]["at"] for one in client.watch("nodes") if one["method"] == "node.sample")
        return any(later - earlier < SAMPLE_S / 2 for earlier, later in pairwise(islice(samples, 20)))


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
