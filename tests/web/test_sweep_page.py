"""A sweep as a table of its values, live, and what failed of it put together."""

from __future__ import annotations

from playwright.sync_api import Browser, expect

from tests.faults import sentence_of
from tests.system.lab import Lab
from tests.waiting import until
from tests.web.browser import signed_in
from tests.web.console import Console
from wire.english import SENTENCES

FAILS = "echo starting; case {lr} in 1) echo 'ValueError: loss is nan';; esac; test {lr} != 1"


def test_a_sweep_is_a_table_whose_failures_stand_together(browser: Browser, console: Console, lab: Lab) -> None:
    with lab.client() as client:
        ids = client.submit_array(FAILS, sweep={"lr": ["1", "2"], "wd": ["a", "b", "c"]}, name="s-{lr}{wd}", hold=True)
        for one in ids[:4]:
            client.release(one)
        until("four ended", lambda: all(client.show(one)["state"] in {"failed", "succeeded"} for one in ids[:4]))
    with signed_in(browser, console) as seen:
        seen.go(f"sweeps/{ids[0]}")
        expect(seen.page.locator("h1")).to_have_text("s")
        assert seen.texts(".matrix th[scope=row]") == ["1", "2"]
        assert seen.texts(".matrix thead th") == ["lr ↓ wd →", "a", "b", "c"]
        assert seen.count(".matrix td .is-failed") == 3
        assert seen.count(".matrix td .is-succeeded") == 1
        assert seen.count(".matrix td .is-held") == 2
        expect(seen.page.locator(".needs li")).to_have_count(1)
        expect(seen.page.locator(".needs li")).to_contain_text("3 × ValueError: loss is nan")
        with lab.client() as client:
            for one in ids[4:]:
                client.release(one)
        expect(seen.page.locator(".matrix td .is-succeeded")).to_have_count(3)
        seen.page.locator(".matrix td a").first.click()
        expect(seen.page.locator(".task-id")).to_have_text(str(ids[0]))
        seen.page.goto(f"{console.url}/tasks/{ids[0]}?tab=details")
        seen.page.locator(f"a[href='sweeps/{ids[0]}']").click()
        expect(seen.page.locator(".matrix")).to_be_visible()


def test_an_array_of_numbers_stands_in_rows_and_none_is_said_to_be_none(
    browser: Browser, console: Console, lab: Lab
) -> None:
    with lab.client() as client:
        first, *others = client.submit_array("echo {index}", "8-12", name="numbers", hold=True)
    with signed_in(browser, console) as seen:
        seen.go(f"sweeps/{first}")
        assert seen.texts(".matrix th[scope=row]") == ["0", "10"]
        assert seen.count(".matrix td a") == 1 + len(others)
        seen.page.goto(f"{console.url}/sweeps/999999")
        expect(seen.page.locator("main .empty p")).to_contain_text(sentence_of("no_array", SENTENCES, id=999999))


def test_what_is_no_number_is_no_sweep_and_no_task(browser: Browser, console: Console, lab: Lab) -> None:
    with lab.client() as client:
        client.submit(["true"], name="of no array", hold=True)
    with signed_in(browser, console) as seen:
        for path in ("sweeps/x", "sweeps/0", "tasks/abc", "tasks/1e3", f"tasks/{'9' * 20}"):
            seen.go(path)
            expect(seen.page.locator("main .empty")).to_contain_text("There is no such page")
            assert seen.count("main button") == 0, path
