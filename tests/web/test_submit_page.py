"""Submitting in the browser: where a task would go, refusals at their field, many lines, a kept draft."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.system.lab import ROOT, Lab
from tests.waiting import until
from tests.web.browser import Visit, signed_in
from tests.web.console import Console


@pytest.fixture
def seen(browser: Browser, console: Console, lab: Lab) -> Iterator[Visit]:
    with lab.client() as client:
        until("the node is there", lambda: client.call("node.show", {"name": "node0"})["state"] == "online")
    with signed_in(browser, console) as made:
        made.go("submit")
        yield made


def test_it_says_where_the_task_would_go_while_one_writes(seen: Visit) -> None:
    seen.page.fill("textarea[name=command]", "true")
    seen.page.fill("input[name=gpus]", "2")
    expect(seen.page.locator(".placement li")).to_have_text("node0 · GPU 0-1")
    seen.page.fill("input[name=gpus]", "9")
    expect(seen.page.locator(".placement")).to_contain_text("can never start")


def test_the_command_line_that_is_shown_submits_the_same(seen: Visit, lab: Lab) -> None:
    seen.page.fill("textarea[name=command]", "echo 'a b'; exit 3")
    seen.page.fill("input[name=name]", "王伟的 task")
    seen.page.click("form > details:not(.sweep) > summary")
    seen.page.fill("input[name=time_limit_s]", "1-02:00")
    line = seen.texts("aside .command code")[0]
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(line)], cwd=ROOT, env={**lab.environment(), "MUSTER_CONF": str(lab.conf)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with lab.client() as client:
        task = client.show(int(done.stdout))
    assert (task["name"], task["time_limit_s"]) == ("王伟的 task", 26 * 3600)
    assert task["command"] == ["bash", "-c", "echo 'a b'; exit 3"]


def test_what_is_submitted_is_a_task_and_the_form_is_kept(seen: Visit, lab: Lab) -> None:
    seen.page.fill("textarea[name=command]", "echo from the page")
    seen.page.fill("input[name=name]", "by hand")
    seen.page.click("button.primary")
    expect(seen.page.locator("h1")).to_have_text("by hand")
    number = int(seen.texts(".task-id")[0])
    with lab.client() as client:
        assert client.show(number)["command"] == "echo from the page"
    seen.go("submit")
    assert seen.page.input_value("input[name=name]") == "by hand"
    assert seen.page.input_value("textarea[name=command]") == ""


def test_many_lines_are_many_tasks(seen: Visit, lab: Lab) -> None:
    seen.page.fill("textarea[name=command]", "echo one\n# not this\necho two\n")
    seen.page.check("input[name=many]")
    seen.page.click("button:has-text('Submit 2 tasks')")
    expect(seen.page.locator(".toast")).to_contain_text("2 tasks are queued")
    with lab.client() as client:
        tasks, _ = client.list_tasks(ended=True)
    assert {"echo one", "echo two"} <= {str(task["command"]) for task in tasks}


def test_a_sweep_shows_its_tasks_and_submits_what_its_command_line_says(seen: Visit, lab: Lab) -> None:
    seen.page.fill("textarea[name=command]", "echo {lr} {bs}")
    seen.page.click("details.sweep summary")
    seen.page.fill("textarea[name=sweep]", "lr = 0.1, 0.01\nbs=32,a\\,b, 64\nnot one\nunused=1")
    expect(seen.page.locator(".sweep tbody code")).to_have_text(
        ["echo 0.1 32", "echo 0.1 a,b", "echo 0.1 64", "echo 0.01 32", "echo 0.01 a,b", "echo 0.01 64"]
    )
    expect(seen.page.locator(".sweep .field-fault")).to_contain_text("not one")
    expect(seen.page.locator(".sweep .warned")).to_contain_text("{unused}")
    seen.page.fill("textarea[name=sweep]", "lr = 0.1, 0.01\nbs=32,a\\,b")
    line = seen.texts("aside .command code")[0]
    assert "--sweep lr=0.1,0.01 --sweep 'bs=32,a\\,b' -- bash -c" in line
    seen.page.click("button:has-text('Submit 4 tasks')")
    expect(seen.page.locator(".toast")).to_contain_text("4 tasks are queued")
    with lab.client() as client:
        tasks, _ = client.list_tasks(ended=True)
    assert {"echo 0.1 32", "echo 0.1 a,b", "echo 0.01 32", "echo 0.01 a,b"} <= {str(one["command"]) for one in tasks}


def test_what_cannot_be_is_told_at_its_field(seen: Visit) -> None:
    seen.page.fill("textarea[name=command]", "true")
    seen.page.click("form > details:not(.sweep) > summary")
    seen.page.fill("input[name=cpus]", "many")
    expect(seen.page.locator(".refusal")).to_contain_text("cpus")
    expect(seen.page.locator("input[name=cpus]")).to_have_attribute("aria-invalid", "true")


def test_one_like_another_takes_over_what_that_one_asked_for(seen: Visit, lab: Lab) -> None:
    with lab.client() as client:
        number = client.submit(["echo", "a b"], gpus=1, name="pattern", time_limit_s=90, hold=True)
    seen.go(f"tasks/{number}?tab=details")
    seen.page.click("a.button")
    expect(seen.page.locator("textarea[name=command]")).to_have_value("echo 'a b'")
    assert seen.page.input_value("input[name=gpus]") == "1"
    assert seen.page.input_value("input[name=time_limit_s]") == "90"


SHARED: dict[str, Any] = {
    "gpus": 1, "share": True, "gpu_memory_mib": 8000, "min_free_util": 50.0, "exclude": ["other"], "urgent": True,
    "max_retries": 2, "retry_on": ["oom", "lost"], "time_limit_s": 7200, "on_timeout": "requeue", "cpus": 2,
    "signal": {"name": "USR1", "before_s": 120, "main_only": True},
}  # fmt: skip
NAMED: dict[str, Any] = {"gpus_on": {"node0": [0, 1]}, "priority": 3, "memory_mib": 10, "tmp_disk_mib": 20}
EXACT: dict[str, Any] = {"gpu_ids": [0, 1], "node": "node0", "setup": "set -e", "cpus": 1}


@pytest.mark.parametrize("wish", [SHARED, NAMED, EXACT], ids=["shared", "named", "exact"])
def test_one_like_another_and_the_line_that_submits_it_again_ask_for_all_that_it_asked_for(
    seen: Visit, lab: Lab, wish: dict[str, Any]
) -> None:
    with lab.client() as client:
        number = client.submit(["echo", "a b"], name="pattern", hold=True, **wish)
        before: Any = client.show(number)
    seen.go(f"tasks/{number}?tab=details")
    line = seen.texts(".details .command code")[0]
    seen.page.click("a.button")
    expect(seen.page.locator("textarea[name=command]")).to_have_value("echo 'a b'")
    seen.page.check("input[name=hold]")
    seen.page.click("button.primary")
    expect(seen.page.locator(".task-head")).to_be_visible()
    command, _, rest = line.partition(" submit ")
    done = subprocess.run(
        [sys.executable, "-m", command, "submit", "--hold", *shlex.split(rest)], cwd=ROOT,
        env={**lab.environment(), "MUSTER_CONF": str(lab.conf)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with lab.client() as client:
        by_form: Any = client.show(int(seen.texts(".task-id")[0]))
        by_line: Any = client.show(int(done.stdout))
    asked = {field: before[field] for field in (*wish, "gpus", "name")}
    assert {field: by_line[field] for field in asked} == asked
    assert {field: by_form[field] for field in asked} == asked


@pytest.mark.parametrize("is_script", [True, False], ids=["script", "words"])
def test_the_line_that_submits_it_again_keeps_line_ends_and_what_is_not_seen(
    seen: Visit, lab: Lab, *, is_script: bool
) -> None:
    script = "for x in 1 2; do\n\techo \"it's $x \\\\n\"\ndone\nprintf 'a\u200bb\x1b[0m\U000e0041'\n"
    command = script if is_script else ["bash", "-c", script, "a\nb"]
    with lab.client() as client:
        number = client.submit(command, hold=True)
    seen.go(f"tasks/{number}?tab=details")
    line = str(seen.page.locator(".details .command code").text_content())
    assert not {"\u200b", "\x1b", "\U000e0041"} & set(line)
    begin, _, words = line.partition("muster submit")
    done = subprocess.run(
        ["bash", "-c", f"{begin}{shlex.quote(sys.executable)} -m muster submit --hold{words}"], cwd=ROOT,
        env={**lab.environment(), "MUSTER_CONF": str(lab.conf), "LC_ALL": "C.UTF-8"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with lab.client() as client:
        again = client.show(int(done.stdout))["command"]
    assert again == (["bash", "-c", script] if is_script else command)


def test_what_is_asked_of_gpus_and_of_time_is_submitted(seen: Visit, lab: Lab) -> None:
    begun = time.time()
    seen.page.fill("textarea[name=command]", "true")
    seen.page.click("form > details:not(.sweep) > summary")
    seen.page.check("input[name=share]")
    for name, text in (("gpus", "1"), ("gpu_memory_mib", "900"), ("exclude", "gpu7, gpu8"), ("begin_at", "now+1h")):
        seen.page.fill(f"input[name={name}]", text)
    seen.page.fill("input[name=licences]", "matlab")
    expect(seen.page.locator(".placement")).to_contain_text("matlab")
    seen.page.fill("input[name=licences]", "")
    line = seen.texts("aside .command code")[0]
    assert "--exclude 'gpu7, gpu8' --begin now+1h --share -- bash" in line
    seen.page.click("button.primary")
    expect(seen.page.locator(".task-head")).to_be_visible()
    with lab.client() as client:
        task = client.show(int(seen.texts(".task-id")[0]))
    assert (task["share"], task["gpu_memory_mib"], task["exclude"]) == (True, 900, ["gpu7", "gpu8"])
    assert begun - 0.5 <= (task["begin_at"] or 0) - 3600 <= time.time() + 0.5, "to the nearest second"


def test_many_lines_are_shown_as_a_table_before_they_are_sent(seen: Visit) -> None:
    seen.page.fill("textarea[name=command]", "\n".join(f"echo {number}" for number in range(10)) + "\n# not this")
    assert seen.count(".batch") == 0
    seen.page.check("input[name=many]")
    expect(seen.page.locator(".batch tbody tr")).to_have_count(8)
    assert seen.texts(".batch tbody tr:first-child td") == ["1", "echo 0"]
    expect(seen.page.locator(".batch small")).to_contain_text("2")


def test_an_elastic_task_is_submitted_and_what_it_lacks_is_told_at_its_field(seen: Visit, lab: Lab) -> None:
    seen.page.fill("textarea[name=command]", "true")
    seen.page.click("form > details:not(.sweep) > summary")
    seen.page.check("input[name=elastic]")
    expect(seen.page.locator("input[name=gpus]")).to_have_attribute("aria-invalid", "true")
    seen.page.fill("input[name=gpus]", "1-2")
    expect(seen.page.locator("input[name=checkpoint]")).to_have_attribute("aria-invalid", "true")
    seen.page.fill("input[name=checkpoint]", "out/*.pt")
    expect(seen.page.locator(".placement li")).to_have_text("node0 · GPU 0-1")
    assert "muster submit --checkpoint 'out/*.pt' --gpus 1-2 --elastic -- " in seen.texts("aside .command code")[0]
    seen.page.click("button.primary")
    expect(seen.page.locator(".task-head")).to_be_visible()
    with lab.client() as client:
        task = client.show(int(seen.texts(".task-id")[0]))
    assert (task["elastic"], task["checkpoint"], task["gpus_max"]) == (True, "out/*.pt", 2)


def test_an_environment_elsewhere_is_given_by_its_path(seen: Visit) -> None:
    seen.page.select_option("select[name=env]", "/")
    expect(seen.page.locator("input[name=env]")).to_be_focused()
    seen.page.keyboard.type("data/venv")
    expect(seen.page.locator("aside .command code").first).to_contain_text("--env /data/venv")
    seen.page.fill("input[name=env]", "")
    expect(seen.page.locator("select[name=env]")).to_have_value("")
