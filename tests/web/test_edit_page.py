"""Changing a task in the browser: what is written, what is refused, what others change meanwhile, and who may."""

from __future__ import annotations

import shlex
import subprocess
import sys
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.faults import sentence_of
from tests.system.lab import ROOT, Lab
from tests.waiting import until
from tests.web.browser import LANGUAGES, Visit, signed_in, visit
from tests.web.console import PASSWORD, Console
from tests.web.javascript import sentences

LINE = ".edit aside .command code"
DO = ".edit button.primary"
WISH: dict[str, Any] = {
    "gpus": 2, "priority": 3, "variables": {"SEED": "1", "MODE": "a b"}, "node": "node0", "time_limit_s": 7200,
    "cpus": 2,
    "max_retries": 2, "retry_on": ["oom"], "exclude": ["other"], "share": True, "gpu_memory_mib": 900, "name": "before",
    "setup": "set -e", "signal": {"name": "USR1", "before_s": 120}, "on_timeout": "requeue", "min_free_util": 50.0,
}  # fmt: skip
"""What a task asks for before it is edited."""


def submitted(console: Console, user: str = "root2", **wish: Any) -> int:
    """A task of this user's, which is held unless the wish says otherwise."""
    with console.sign_in(user).live() as live:
        return int(live.ask("task.submit", **{"command": ["echo", "a b"], "hold": True, **wish})["id"])


def shown(console: Console, number: int) -> Any:
    """The task, with the values of its variables if it is root2's."""
    with console.sign_in("root2").live() as live:
        return live.ask("task.show", id=number)


def edit(seen: Visit, number: int) -> None:
    """Open its form."""
    seen.go(f"tasks/{number}?tab=edit")
    expect(seen.page.locator(".edit form")).to_be_visible()


def by_line(console: Console, line: str, number: int, other: int) -> None:
    """Do to another task what the command line that is shown does to this one, as their owner."""
    lab = console.lab
    with console.sign_in("root2").live() as live:
        token = live.ask("token.new", label=line[:40])["token"]
    begin = f"muster edit {number} "
    assert line.startswith(begin)
    done = subprocess.run(
        [sys.executable, "-m", "muster", "edit", str(other), *shlex.split(line.removeprefix(begin))], cwd=ROOT,
        env={**lab.environment(), "MUSTER_CONF": str(lab.conf), "MUSTER_TOKEN": token},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_waiting_task_is_changed_by_its_key_and_the_form(seen: Visit, console: Console) -> None:
    number = submitted(console, name="by hand")
    seen.go(f"tasks/{number}")
    expect(seen.page.locator(".why-reason")).to_be_visible()
    seen.page.keyboard.press("M")
    expect(seen.page.locator(".edit textarea[name=command]")).to_have_value("echo 'a b'")
    expect(seen.page.locator(DO)).to_be_disabled()
    seen.page.fill(".edit textarea[name=command]", "echo otherwise")
    seen.page.fill(".edit input[name=name]", "王伟的 task")
    expect(seen.page.locator(LINE)).to_have_text(f"muster edit {number} 'command=echo otherwise' 'name=王伟的 task'")
    seen.page.click(DO)
    expect(seen.page.locator(".edit")).to_have_count(0)
    expect(seen.page.locator("h1")).to_have_text("王伟的 task")
    task = shown(seen.console, number)
    assert (task["command"], task["name"], task["state"]) == ("echo otherwise", "王伟的 task", "held")


def test_the_command_line_that_is_shown_changes_the_same(seen: Visit, console: Console) -> None:
    first = submitted(console)
    pair = [submitted(console, **WISH) for _ in range(2)]
    edit(seen, pair[0])
    texts = {"gpus": "1-2", "priority": "", "node": "", "time_limit_s": "1-02:00", "cpus": "", "retry_on": "fail,lost"}
    texts |= {"exclude": "", "gpu_memory_mib": "", "setup": "", "signal": "TERM@60", "after": f"{first}:any"}
    texts |= {"begin_at": "2099-01-02T03:04:05Z", "project": "vision", "min_free_util": ""}
    for name, text in texts.items():
        seen.page.fill(f".edit input[name={name}]", text)
    for name in ("share", "requeue"):
        seen.page.uncheck(f".edit input[name={name}]")
    seen.page.fill(".edit [name=variable-1-value]", "two\twords")
    seen.page.fill(".edit [name=variable-2]", "ADDED")
    seen.page.fill(".edit [name=variable-2-value]", "x")
    expect(seen.page.locator(LINE)).to_contain_text("var.ADDED=x")
    line = str(seen.page.evaluate(f"document.querySelector({LINE!r}).textContent")).replace(r"\t", "\t")
    seen.page.click(DO)
    expect(seen.page.locator(".edit")).to_have_count(0)
    by_line(console, line, *pair)
    by_form, by_command = (shown(seen.console, number) for number in pair)
    fields = {*texts, *WISH, "gpus_max", "on_timeout", "command"} - {"requeue"}
    assert {name: by_form[name] for name in fields} == {name: by_command[name] for name in fields}
    assert by_form["variables"] == {"SEED": "1", "MODE": "two\twords", "ADDED": "x"}
    assert (by_form["gpus"], by_form["gpus_max"], by_form["node"], by_form["priority"]) == (1, 2, None, 0)
    assert (by_form["share"], by_form["on_timeout"], by_form["time_limit_s"]) == (False, "fail", 26 * 3600)


def test_which_gpus_and_variables_are_taken_back(seen: Visit, console: Console) -> None:
    wish: dict[str, Any] = {"gpu_ids": [0, 1], "node": "node0", "variables": {"A": "1"}}
    pair = [submitted(console, **wish) for _ in range(2)]
    edit(seen, pair[0])
    seen.page.fill(".edit input[name=gpu_ids]", "")
    seen.page.fill(".edit input[name=gpus]", "1")
    seen.page.fill(".edit [name=variable-0]", "")
    seen.page.fill(".edit [name=variable-0-value]", "")
    expect(seen.page.locator(LINE)).to_have_text(f"muster edit {pair[0]} gpus=1 gpu-ids= var=")
    seen.page.click(DO)
    expect(seen.page.locator(".edit")).to_have_count(0)
    by_line(console, f"muster edit {pair[0]} gpus=1 gpu-ids= var=", *pair)
    for number in pair:
        task = shown(seen.console, number)
        assert (task["gpus"], task["gpu_ids"], task["variables"]) == (1, None, {})


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_refused_is_told_and_what_was_written_stays(browser: Browser, console: Console, language: str) -> None:
    number = submitted(console)
    with signed_in(browser, console, language=language) as seen:
        edit(seen, number)
        seen.page.fill(".edit input[name=name]", "stays")
        seen.page.click(".edit details summary")
        seen.page.fill(".edit input[name=node]", "nowhere, node0")
        seen.page.click(DO)
        told = sentence_of("no_such_node", sentences(language))
        expect(seen.page.locator(".edit .refusal")).to_contain_text(told)
        expect(seen.page.locator(".edit .refusal")).to_contain_text("nowhere")
        expect(seen.page.locator(".edit input[name=name]")).to_have_value("stays")
        seen.page.click("#tab-details")
        expect(seen.page.locator(".details")).to_be_visible()
        seen.page.keyboard.press("M")
        expect(seen.page.locator(".edit input[name=node]")).to_have_value("nowhere, node0")
        seen.page.fill(".edit input[name=node]", "node0")
        seen.page.click(DO)
        expect(seen.page.locator(".edit")).to_have_count(0)
    task = shown(console, number)
    assert (task["name"], task["node"]) == ("stays", "node0")


def test_a_form_that_is_sent_twice_in_a_moment_is_sent_once(seen: Visit, console: Console) -> None:
    number = submitted(console)
    asked: list[str] = []
    seen.page.on("websocket", lambda socket: socket.on("framesent", lambda said: asked.append(str(said))))
    edit(seen, number)
    seen.page.fill(".edit input[name=name]", "once")
    seen.page.dblclick(DO)
    expect(seen.page.locator("h1")).to_have_text("once")
    expect(seen.page.locator(".edit")).to_have_count(0)
    assert len([one for one in asked if "task.edit" in one]) == 1


def test_what_was_written_and_not_sent_is_shown_to_nobody_who_signs_in_next_at_the_same_window(
    browser: Browser, console: Console, lab: Lab
) -> None:
    number = submitted(console, name="as it is")
    with lab.client() as owner:
        owner.people.add("next", role="admin", password=PASSWORD)
    with visit(browser, console) as seen:
        name = seen.page.locator(".edit input[name=name]")
        seen.sign_in("root2")
        for user, shown_first in (("root2", "as it is"), ("next", "as it is"), ("root2", "mine alone")):
            expect(seen.page.locator(".who")).to_have_text(user)
            seen.page.fill(".search input", str(number))
            seen.page.press(".search input", "Enter")
            seen.page.click(".task-actions button:has-text('Edit')")
            expect(name).to_have_value(shown_first)
            if user == "root2":
                name.fill("mine alone")
                expect(seen.page.locator(LINE)).to_contain_text("mine alone")
            seen.page.click("a.who")
            seen.page.click("button:has-text('Sign out')")
            seen.page.fill("input[name=user]", "next" if user == "root2" else "root2")
            seen.page.fill("input[name=password]", PASSWORD)
            seen.page.click("button[type=submit]")


def test_what_another_changes_meanwhile_is_not_overwritten_unseen(seen: Visit, console: Console, lab: Lab) -> None:
    number = submitted(console, name="mine", project="old")
    edit(seen, number)
    seen.page.fill(".edit input[name=name]", "typed")
    with lab.client() as client:
        client.edit(number, name="theirs", project="new")
    expect(seen.page.locator(".edit label:has(input[name=name]) .field-fault")).to_contain_text("theirs")
    expect(seen.page.locator(".edit input[name=name]")).to_have_value("typed")
    expect(seen.page.locator(".edit input[name=project]")).to_have_value("new")
    expect(seen.page.locator(LINE)).to_have_text(f"muster edit {number} name=typed")
    seen.page.click(".edit button[type=button]")
    expect(seen.page.locator(".edit")).to_have_count(0)
    assert shown(seen.console, number)["name"] == "theirs"


def test_one_that_has_ended_is_changed_and_queued_again(seen: Visit, lab: Lab) -> None:
    flag = lab.folder / "data" / "it-may-succeed"
    with lab.client() as client:
        number = client.submit(["test", "-e", str(flag)])
        until("it failed", lambda: client.show(number)["state"] == "failed")
    flag.touch()
    edit(seen, number)
    seen.page.fill(".edit input[name=name]", "again")
    expect(seen.page.locator(DO)).to_have_text("Change it and queue it again")
    seen.page.click(DO)
    expect(seen.page.locator(".task-head .is-succeeded")).to_be_visible()
    assert shown(seen.console, number)["attempt"] == 2


def test_who_may_not_is_told_why_and_a_running_one_is_left_alone(browser: Browser, console: Console, lab: Lab) -> None:
    number = submitted(console, "ann")
    with signed_in(browser, console, "eve") as seen:
        edit(seen, number)
        expect(seen.page.locator(".edit .warned")).to_contain_text("look on only")
        expect(seen.page.locator(DO)).to_be_disabled()
    with lab.client() as client:
        runs = client.submit(["sleep", "600"])
        until("it runs", lambda: client.show(runs)["state"] == "running")
    with signed_in(browser, console) as seen:
        edit(seen, runs)
        expect(seen.page.locator(".edit .warned")).to_contain_text("cancel it first")
    with lab.client() as client:
        client.cancel([runs])


def test_who_looks_after_others_is_shown_what_he_may_change_of_theirs(
    browser: Browser, console: Console, lab: Lab
) -> None:
    with lab.client() as owner:
        owner.people.add("mei", role="user", password=PASSWORD)
        owner.people.add_group("vision")
        owner.people.edit_group("vision", add=["ann"], add_mentors=["mei"])
    number = submitted(console, "ann", variables={"KEY": "secret"})
    with signed_in(browser, console, "mei") as seen:
        edit(seen, number)
        names = seen.page.locator(".edit :is(input, textarea, select)").evaluate_all(
            "all => all.map((one) => one.name)"
        )
        assert names == ["priority", "project", "urgent"]
        seen.page.fill(".edit input[name=project]", "vision")
        seen.page.click(DO)
        expect(seen.page.locator(".edit")).to_have_count(0)
    with signed_in(browser, console) as seen:
        edit(seen, number)
        expect(seen.page.locator(".edit input[name=owner]")).to_have_value("ann")
        expect(seen.page.locator(".edit input[name=project]")).to_have_value("vision")
        assert seen.count(".edit .variables") == 0, "their values are the owner's"


def test_of_several_chosen_tasks_none_is_changed(seen: Visit, console: Console) -> None:
    for _ in range(2):
        submitted(console, name="one of several")
    seen.go("queue?q=of%20several")
    seen.page.click("thead input")
    button = seen.page.locator(".action-bar button", has_text="Edit")
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(button).to_have_attribute("title", "Only one at a time.")
