"""What a first visit loads of the console: of each page, in each language, and no word that it does not need."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from client.api import Client
from tests.system.lab import Lab
from tests.waiting import until
from tests.web.browser import LANGUAGES, signed_in, visit
from tests.web.console import PASSWORD, Console
from tests.web.javascript import dictionary

PAGES = (
    *("", "queue", "tasks/1", *(f"tasks/1?tab={name}" for name in ("why", "details", "files", "compare", "edit"))),
    *("sweeps/2", "submit", "nodes", "nodes/node0"),
    *("files", "environments", "admin", "admin/settings", "admin/log", "me"),
)
LOADED = """() => performance.getEntriesByType("resource")
    .filter((one) => one.name.includes("/static/"))
    .map((one) => [one.name.split("/static/")[1].replace(/^v-[^/]*\\//, ""), one.decodedBodySize, one.encodedBodySize])
"""
MOST, MOST_SENT = 250_000, 80_000
OF_A_CURVE = {"vendor/uplot.js", "vendor/uplot.css"}


@pytest.fixture(scope="module", autouse=True)
def tasks(lab: Lab) -> None:
    with lab.client() as client:
        client.submit(["true"])
        client.submit_array("echo {lr}", sweep={"lr": ["1", "2"]}, hold=True)
        until("it ended", lambda: client.show(1)["state"] == "succeeded")


def loaded(browser: Browser, console: Console, path: str, language: str) -> list[Any]:
    with signed_in(browser, console, language=language) as seen:
        seen.go(path)
        seen.page.wait_for_load_state("networkidle")
        return list(seen.page.evaluate(LOADED))


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_page_takes_long_to_come_over_a_slow_line(browser: Browser, console: Console, language: str) -> None:
    for path in PAGES:
        files = loaded(browser, console, path, language)
        assert len(files) > 30, path
        assert sum(size for _, size, _ in files) < MOST, path
        assert sum(sent for _, _, sent in files) < MOST_SENT, path


def test_a_curve_comes_with_one_file_of_a_script_and_one_of_its_style(browser: Browser, console: Console) -> None:
    with signed_in(browser, console) as seen:
        seen.go("")
        seen.page.locator(".day").scroll_into_view_if_needed()
        expect(seen.page.locator(".day canvas")).to_be_visible()
        names = [name for name, _, _ in seen.page.evaluate(LOADED) if name.startswith("vendor/uplot")]
    assert sorted(names) == sorted(OF_A_CURVE)


def test_who_reads_chinese_is_sent_no_english_and_no_page_the_words_of_another(
    browser: Browser, console: Console
) -> None:
    for language in LANGUAGES:
        names = {name for name, _, _ in loaded(browser, console, "queue", language) if name.startswith("words/")}
        assert {name for name in names if not name.startswith(f"words/{language}/")} == set()
        assert {f"words/{language}/ui.js", f"words/{language}/queue.js"} <= names
        assert f"words/{language}/admin.js" not in names
        assert "words/zh-CN/doctor.js" not in names


def test_a_refusal_is_told_in_chinese_though_its_words_came_with_it(browser: Browser, console: Console) -> None:
    with signed_in(browser, console, language="zh-CN") as seen:
        seen.go("tasks/99999")
        expect(seen.page.locator("main .empty p")).to_contain_text("99999")
        expect(seen.page.locator("main .empty p")).to_contain_text("不存在")
        assert any(name == "words/zh-CN/errors.js" for name, _, _ in seen.page.evaluate(LOADED))


def test_what_the_master_says_in_a_list_is_told_in_chinese_once_its_words_have_come(
    browser: Browser, console: Console, lab: Lab
) -> None:
    with lab.client() as owner:
        owner.people.add("leaver", role="user", password=PASSWORD)
        before = owner.submit(["sleep", "600"], gpus=8)
        until("it has all GPUs", lambda: owner.show(before)["state"] == "running")
        with console.sign_in("leaver").live() as live:
            number = live.ask("task.submit", command=["true"], gpus=8)["id"]
        owner.people.disable("leaver")
    with signed_in(browser, console, language="zh-CN") as seen:
        seen.go("queue?q=owner:leaver")
        expect(seen.page.locator("td.of-id")).to_have_text(str(number))
        expect(seen.page.locator("td.of-why")).to_contain_text("停用")
    with lab.client() as owner:
        owner.cancel([before, number])


def _state(client: Client, node: str) -> str | None:
    """Of a node; None where the master has not read of it yet."""
    return next((one["state"] for one in client.nodes() if one["name"] == node), None)


def test_why_a_node_cannot_be_reached_is_told_in_chinese_once_its_words_have_come(
    browser: Browser, console: Console, lab: Lab, tmp_path: Path
) -> None:
    entries = json.loads(lab.registry.read_text(encoding="utf-8"))
    there = {"ip": "127.0.0.1", "port": 1, "user_name": "nobody", "key_file": str(tmp_path / "none")}
    lab.write_registry([*entries, {"name": "far", "driver": "ssh", "gpu_count": 0, "slots": 1, **there}])
    try:
        with lab.client() as client:
            until("it is not reached", lambda: _state(client, "far") == "unreachable")
            reasons = client.node("far")["reason_messages"]
        assert {why["key"] for why in reasons} & dictionary("zh-CN/links.js").keys()
        with signed_in(browser, console, language="zh-CN") as seen:
            for path, place in (("", "aside.needs li:has-text('far') p"), ("nodes", "tr:has-text('far')")):
                seen.go(path)
                expect(seen.page.locator(place)).to_contain_text(re.compile("key_file.*：|连接："))
    finally:
        lab.write_registry(entries)


def test_nobody_is_sent_the_style_or_the_script_of_what_they_do_not_see(browser: Browser, console: Console) -> None:
    here = {name for name, _, _ in loaded(browser, console, "queue", "en")}
    assert "style/pages.css" in here
    assert here & {"style/overview.css", "style/wall.css", "style/sign-in.css", "pages/sign-in.js"} == set()
    with visit(browser, console) as seen:
        seen.page.goto(console.url)
        expect(seen.page.locator(".sign-in form")).to_be_visible()
        there = {name for name, _, _ in seen.page.evaluate(LOADED)}
    assert {"style/sign-in.css", "pages/sign-in.js"} <= there
    assert there & {"style/overview.css", "style/wall.css", "style/pages.css"} == set()
