"""Three things that somebody wants who never saw the console and reads no manual: how many clicks and how much typing
each takes, from the first page on. He finds everything by the words that stand on it."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.system.lab import Lab
from tests.waiting import until
from tests.web.browser import Visit, signed_in
from tests.web.console import PASSWORD, Console

OURS = pwd.getpwuid(os.geteuid()).pw_name
"""Whoever runs the master: his environments are asked with no other account's rights."""
BEFORE = 12
"""Tasks that wait before his: more than the first page tells of."""
TRAINING = "python -c 'print(6 * 7)'"
FAILS = r"""
echo 'epoch 1'
python3 -c 'raise ValueError("the labels have 11 classes, the model 10")' || code=$?
seq 400 | sed 's/^/cleaning up /'
exit $code
"""


class Newcomer:
    """What he does, counted: `clicks`, and `typed`, how often he turned to the keyboard."""

    def __init__(self, seen: Visit) -> None:
        self.seen = seen
        self.clicks = 0
        self.typed = 0
        seen.go("")

    def click(self, target: Locator) -> None:
        """What stands there, once, without scrolling for it."""
        expect(target).to_be_in_viewport()
        target.click()
        self.clicks += 1

    def choose(self, target: Locator, option: str) -> None:
        """Of a list: a click opens it, another takes the option."""
        expect(target.get_by_role("option", name=option)).to_be_attached()
        expect(target).to_be_in_viewport()
        target.select_option(option)
        self.clicks += 2

    def types(self, *keys: str) -> None:
        """Into whatever has the focus: single keys by their names, anything else letter by letter."""
        for one in keys:
            if one == "Tab":
                self.seen.page.keyboard.press(one)
            else:
                self.seen.page.keyboard.type(one)
        self.typed += 1


@pytest.fixture(scope="module")
def lab(lab: Lab) -> Lab:
    """With an environment, and a node that answers."""
    place = lab.folder / "envs" / "miniconda3" / "envs" / "digits"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    with lab.client() as client:
        client.people.add(OURS, role="admin", password=PASSWORD)
        until("the node is there", lambda: client.call("node.show", {"name": "node0"})["state"] == "online")
    return lab


@pytest.fixture
def newcomer(browser: Browser, console: Console) -> Iterator[Newcomer]:
    with signed_in(browser, console, OURS) as made:
        yield Newcomer(made)


def test_a_training_with_an_environment_is_submitted_with_four_clicks(newcomer: Newcomer, lab: Lab) -> None:
    page = newcomer.seen.page
    newcomer.click(page.get_by_role("link", name="Submit"))
    expect(page.get_by_label("Command", exact=True)).to_be_focused()
    newcomer.types(TRAINING)
    newcomer.choose(page.get_by_label("Environment"), "digits")
    page.get_by_label("Environment").focus()  # as after a choice by hand
    newcomer.types("Tab", "1")
    newcomer.click(page.get_by_role("button", name="Submit", exact=True))
    expect(page.locator(".task-head")).to_be_visible()
    with lab.client() as client:
        task = client.show(int(newcomer.seen.texts(".task-id")[0]))
        assert (task["command"], task["env"], task["gpus"], task["owner"]) == (TRAINING, "digits", 1, OURS)
        until("it ran in its environment", lambda: client.show(task["id"])["state"] == "succeeded")
    expect(page.locator(".log-line").filter(has_text="42")).to_be_in_viewport()
    assert newcomer.clicks <= 4
    assert newcomer.typed <= 2


def test_why_a_task_waits_is_found_with_two_clicks(newcomer: Newcomer, console: Console, lab: Lab) -> None:
    with console.sign_in(OURS).live() as page_of_his:
        others = [page_of_his.ask("task.submit", command="sleep 600", gpus=8, name="one before")["id"]]
        others += [
            page_of_his.ask("task.submit", command="true", gpus=8, name="one before")["id"] for _ in range(BEFORE)
        ]
        mine = page_of_his.ask("task.submit", command="true", gpus=8, name="为什么还在等待")["id"]
    page = newcomer.seen.page
    try:
        newcomer.click(page.get_by_role("link", name=re.compile(r"^Waiting \d")))
        newcomer.click(page.get_by_text("为什么还在等待"))
        expect(page.locator(".why-reason")).to_contain_text("needs 8 GPUs")
        expect(page.locator(".why li").filter(has_text="GPUs free")).to_be_in_viewport()
    finally:
        with lab.client() as client:
            client.cancel([*others, mine])
    assert newcomer.clicks <= 2
    assert newcomer.typed == 0


def test_the_error_of_a_failed_task_is_found_with_two_clicks(newcomer: Newcomer, console: Console, lab: Lab) -> None:
    with console.sign_in(OURS).live() as page_of_his:
        number = page_of_his.ask("task.submit", command=FAILS, name="finetune")["id"]
    with lab.client() as client:
        until("it failed", lambda: client.show(number)["state"] == "failed")
    page = newcomer.seen.page
    newcomer.click(page.get_by_role("link", name="finetune"))
    newcomer.click(page.get_by_role("button", name="Last traceback"))
    error = page.locator(".log-line").filter(has_text="ValueError: the labels have 11 classes, the model 10")
    expect(error).to_be_in_viewport()
    assert newcomer.clicks <= 2
    assert newcomer.typed == 0
