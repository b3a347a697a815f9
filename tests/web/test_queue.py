"""The queue's page: ten thousand tasks, the keyboard, filters in the address, actions on many, what others change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.system.lab import Lab
from tests.waiting import until
from tests.web.browser import LANGUAGES, NARROW, Visit, signed_in
from tests.web.console import Console

MANY = 10_000
MOST_ELEMENTS = 1_500
ROWS = ".table-box tbody tr:not(.spacer)"


@pytest.fixture(scope="module", autouse=True)
def queue(lab: Lab) -> None:
    with lab.client() as client:
        client.submit_batch(["true"] * MANY, name="many", hold=True)


@pytest.fixture
def seen(browser: Browser, console: Console) -> Iterator[Visit]:
    with signed_in(browser, console) as made:
        made.go("queue")
        made.page.wait_for_selector(ROWS)
        yield made


def elements(seen: Visit) -> int:
    return int(seen.page.evaluate("document.querySelectorAll('*').length"))


def scroll_to(seen: Visit, share: float) -> None:
    seen.page.evaluate(
        "share => { const box = document.querySelector('.table-box'); box.scrollTop = box.scrollHeight * share }", share
    )


def test_ten_thousand_rows_are_few_elements_wherever_one_scrolls(seen: Visit) -> None:
    assert seen.page.get_attribute("table", "aria-rowcount") == str(MANY + 1)
    for share in (0, 0.5, 1):
        scroll_to(seen, share)
        at = int(MANY * share) or 1
        expect(seen.page.locator(f"{ROWS}[aria-rowindex='{at + 1}']")).to_be_visible()
        assert elements(seen) < MOST_ELEMENTS


def test_keys_move_select_and_ask_before_they_cancel(seen: Visit, lab: Lab) -> None:
    for key in ("j", "x", "j", "j", "x", "c"):
        seen.page.keyboard.press(key)
    seen.page.wait_for_selector("dialog[open]")
    assert [text.split()[0] for text in seen.texts("dialog .hits li")] == ["1", "3"]
    assert seen.texts("dialog .command code") == ["muster cancel 1 3"]
    seen.page.keyboard.press("Enter")
    with lab.client() as client:
        until("both are cancelled", lambda: {client.show(one)["state"] for one in (1, 3)} == {"cancelled"})
    expect(seen.page.locator(".action-count")).to_have_text(f"{MANY - 2:,} tasks")


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_that_can_be_done_with_two_tasks_is_in_sight(browser: Browser, console: Console, language: str) -> None:
    with signed_in(browser, console, language=language) as seen:
        seen.go("queue")
        for key in "jxjx":
            seen.page.keyboard.press(key)
        buttons = seen.page.locator(".action-bar :is(button, a)")
        expect(buttons).to_have_count(15)
        for button in buttons.all():
            expect(button).to_be_in_viewport(ratio=1)


def test_a_dialog_that_is_left_does_nothing(seen: Visit, lab: Lab) -> None:
    for key in ("j", "c"):
        seen.page.keyboard.press(key)
    seen.page.wait_for_selector("dialog[open]")
    hit = int(seen.texts("dialog .hits li")[0].split()[0])
    seen.page.keyboard.press("Escape")
    expect(seen.page.locator("dialog")).to_have_count(0)
    with lab.client() as client:
        assert client.show(hit)["state"] == "held"


def test_a_filter_stands_in_the_address_and_comes_back_with_it(seen: Visit) -> None:
    seen.page.keyboard.press("/")
    seen.page.keyboard.type("id<=20 id>10")
    expect(seen.page.locator(ROWS)).to_have_count(10)
    seen.page.click("th button:has-text('ID')")
    seen.page.click("th button:has-text('ID')")
    assert "q=id" in seen.page.url
    assert "sort=-id" in seen.page.url
    seen.page.goto(seen.page.url)
    expect(seen.page.locator(ROWS)).to_have_count(10)
    assert seen.texts("td.of-id") == [str(number) for number in range(20, 10, -1)]
    assert seen.page.get_attribute("th[aria-sort]", "aria-sort") == "descending"


def test_what_is_selected_stands_in_the_address_and_comes_back_with_it(seen: Visit) -> None:
    seen.go("queue?q=id>30+id<=40")
    boxes, bar = seen.page.locator(f"{ROWS} input"), seen.page.locator(".action-count")
    expect(boxes).to_have_count(10)
    for at in (1, 2, 5):
        boxes.nth(at).click()
    expect(bar).to_have_text("3 selected")
    assert re.search(r"[?&]selected=\d+-\d+,\d+(&|$)", seen.page.url), seen.page.url
    seen.page.goto(seen.page.url)
    expect(bar).to_have_text("3 selected")
    seen.page.locator("td.of-name").first.click()
    expect(seen.page.locator(".task-head")).to_be_visible()
    seen.page.keyboard.press("Escape")
    expect(bar).to_have_text("3 selected")
    seen.page.click(".action-bar button:has-text('Select none')")
    expect(bar).to_have_text("10 tasks")
    assert "selected" not in seen.page.url


def test_whatever_stands_in_an_address_as_selected_is_read_in_bounds(seen: Visit) -> None:
    read = "async ([url, text]) => [...(await import(url)).IDS.read(text)]"
    module = f"{seen.console.url}/static/core/selection.js"
    assert seen.page.evaluate(read, [module, "3-5,9,x,7-,-8,12"]) == [3, 4, 5, 9, 12]
    assert len(seen.page.evaluate(read, [module, "1-99999999999,1-99999999999"])) == 100_000


def test_an_arrow_says_the_command_that_moves_as_it_does(seen: Visit) -> None:
    seen.go("queue?show=waiting&q=id>30+id<=40")
    seen.page.locator(f"{ROWS} input").nth(3).click()
    arrow = seen.page.get_by_role("button", name="To the front", exact=True)
    arrow.hover()
    moved = seen.texts("td.of-id")[3]
    expect(arrow).to_have_attribute("title", re.compile(rf"muster move {moved} 1$"))


def test_many_are_released_at_once_and_each_refusal_is_told(seen: Visit, lab: Lab) -> None:
    seen.go("queue?q=id>9990")
    seen.page.wait_for_selector(ROWS)
    seen.page.click("thead input")
    seen.page.click(".action-bar button:has-text('Release')")
    with lab.client() as client:
        until("they are over", lambda: client.show(MANY)["state"] == "succeeded")
    expect(seen.page.locator(".toast").first).to_contain_text("Released: 10")


def test_what_another_does_is_seen_without_asking(seen: Visit, lab: Lab) -> None:
    seen.go("queue?show=waiting&q=name:told")
    with lab.client() as client:
        number = client.submit(["true"], name="told to all", hold=True)
    expect(seen.page.locator("td.of-name")).to_have_text("told to all")
    with lab.client() as client:
        client.cancel([number])
    expect(seen.page.locator("td.of-name")).to_have_count(0)


def test_nothing_moves_while_text_is_selected_and_all_comes_after(seen: Visit, lab: Lab) -> None:
    seen.go("queue?show=waiting&q=name:still")
    seen.page.evaluate("getSelection().selectAllChildren(document.querySelector('main'))")
    with lab.client() as client:
        client.submit(["true"], name="still", hold=True)
    expect(seen.page.locator(".chip.is-held")).to_contain_text("wait")
    assert seen.count("td.of-name") == 0
    seen.page.click(".chip.is-held")
    expect(seen.page.locator("td.of-name")).to_have_text("still")


def test_what_is_told_while_a_long_list_is_on_its_way_is_not_taken_back_by_it(seen: Visit) -> None:
    held = seen.page.evaluate(
        """async () => {
          const { Store } = await import("./static/core/store.js");
          const lists = [];
          const call = (verb) => verb === "task.list" ? new Promise((come) => lists.push(come)) : Promise.resolve([]);
          const live = { call };
          const store = new Store(live);
          const drawn = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
          const task = (id, seq) => ({ id, seq, state: "waiting" });
          live.opened();
          live.told("task.changed", { task: task(2, 7) });
          live.told("task.changed", { gone: true, id: 1 });
          await drawn();
          live.opened();  // the line broke, and is back
          live.told("task.changed", { task: task(3, 9) });
          live.told("task.changed", { gone: true, id: 4 });
          lists[1]({ tasks: [task(2, 8), task(4, 5)] });
          await drawn();
          lists[0]({ tasks: [task(1, 6)] });
          await drawn();
          return [...store.cluster.tasks.keys()];
        }"""
    )
    assert held == [2, 3]


def test_the_columns_are_chosen_and_stand_in_the_address(seen: Visit) -> None:
    seen.page.click(".tools > button.quiet")
    seen.page.check("dialog input[value=command]")
    seen.page.uncheck("dialog input[value=owner]")
    seen.page.click("dialog button.primary")
    expect(seen.page.locator("td.of-command").first).to_have_text("true")
    assert seen.count("td.of-owner") == 0
    assert "columns=" in seen.page.url


def test_tasks_are_moved_by_keys_by_dragging_and_by_their_priority(seen: Visit, lab: Lab) -> None:
    with lab.client() as client:
        first, second, third, fourth = client.submit_batch(["true"] * 4, name="moved", hold=True, project="order")
    ids = [str(one) for one in (first, second, third, fourth)]
    seen.go("queue?show=waiting&q=project:order")
    expect(seen.page.locator("td.of-id")).to_have_text(ids)
    for key in ("j", "j", "j", "j", "K"):
        seen.page.keyboard.press(key)
    expect(seen.page.locator("td.of-id")).to_have_text([ids[0], ids[1], ids[3], ids[2]])
    seen.page.keyboard.press("J")
    expect(seen.page.locator("td.of-id")).to_have_text(ids)
    row = seen.page.locator(ROWS)
    row.nth(2).locator("td.pick").drag_to(row.nth(0).locator("td.of-name"), target_position={"x": 5, "y": 4})
    expect(seen.page.locator("td.of-id")).to_have_text([ids[2], ids[0], ids[1], ids[3]])
    seen.page.keyboard.press("+")
    expect(seen.page.locator("td.of-id")).to_have_text([ids[3], ids[2], ids[0], ids[1]])
    with lab.client() as client:
        assert client.show(fourth)["priority"] == 1
        client.cancel([first, second, third, fourth])


def test_a_phone_shows_state_name_and_time(browser: Browser, console: Console) -> None:
    with signed_in(browser, console, size=NARROW) as seen:
        seen.go("queue")
        seen.page.wait_for_selector(ROWS)
        assert not seen.is_wider_than_the_window()
        assert seen.page.evaluate("document.querySelector('.table-box').scrollWidth <= innerWidth")
        seen.page.click(f"{ROWS}:first-child td.of-name")
        seen.page.wait_for_selector(".task-head")


def test_tasks_are_shown_in_groups_that_open_and_are_chosen_as_a_whole(seen: Visit, lab: Lab) -> None:
    with lab.client() as client:
        of_sweep = client.submit_array(
            "echo {lr}", sweep={"lr": ["1", "2", "3"]}, name="学习率-{lr}", hold=True, project="sorted"
        )
        alone = client.submit(["true"], name="alone", hold=True, project="sorted")
    seen.go("queue?show=waiting&q=project:sorted")
    expect(seen.page.locator(ROWS)).to_have_count(4)
    seen.page.select_option("select[name=group]", "array")
    heads = seen.page.locator("tr.group")
    expect(heads).to_have_count(2)
    expect(heads.first).to_contain_text(f"学习率 {of_sweep[0]}/")
    expect(heads.first).to_contain_text("3 tasks")
    expect(heads.nth(1)).to_contain_text("all others")
    assert "group=array" in seen.page.url
    heads.first.locator("button").click()
    expect(seen.page.locator("td.of-id")).to_have_text([str(one) for one in of_sweep])
    heads.first.locator("input").click()
    expect(seen.page.locator(".action-count")).to_have_text("3 selected")
    heads.first.locator("button").click()
    expect(seen.page.locator("td.of-id")).to_have_count(0)
    seen.page.keyboard.press("u")
    with lab.client() as client:
        until("what was chosen was released, also while it is folded", lambda: _ended(client, of_sweep))
        assert client.show(alone)["state"] == "held"
        client.cancel([alone])


def _ended(client: Any, ids: list[int]) -> bool:
    return all(client.show(one)["state"] == "succeeded" for one in ids)
