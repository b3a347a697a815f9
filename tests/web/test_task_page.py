"""A task's page in the browser: the folder that it runs in, and what it is compared with."""

from __future__ import annotations

from playwright.sync_api import Browser, expect

from tests.system.lab import Lab
from tests.waiting import until
from tests.web.browser import Visit, signed_in
from tests.web.console import Console


def test_the_folder_of_a_task_is_shown_and_its_keys_are_meant_for_files(seen: Visit, lab: Lab) -> None:
    folder = lab.folder / "data" / "run 王"
    folder.mkdir()
    (folder / "model.pt").write_bytes(b"weights")
    with lab.client() as client:
        number = client.submit(["true"], cwd=str(folder), hold=True)
    seen.go(f"tasks/{number}")
    seen.page.keyboard.press("F")
    expect(seen.page.locator("td.of-name")).to_have_text("model.pt")
    seen.page.keyboard.press("j")
    seen.page.keyboard.press("c")
    expect(seen.page.locator("dialog .command code")).to_have_text(
        "muster files cp -r 'data/run 王/model.pt' 'data/run 王'"
    )
    seen.page.keyboard.press("Escape")
    for key in ("x", "Escape"):
        seen.page.keyboard.press(key)
        expect(seen.page.locator("td.of-name")).to_have_text("model.pt")
    seen.page.keyboard.press("Escape")
    expect(seen.page).to_have_url(f"{seen.url}/queue")
    seen.go(f"tasks/{number}?tab=files")
    seen.page.click("td.of-name a")
    expect(seen.page.locator("pre.file-text")).to_have_text("weights")


def test_a_folder_that_people_may_not_see_is_told_and_not_shown(browser: Browser, console: Console, lab: Lab) -> None:
    beside = lab.folder / "data-of-nobody"  # begins like a visible one
    beside.mkdir()
    with lab.client() as client:
        number = client.submit(["true"], cwd=str(beside), hold=True)
    for language, told in (("en", "outside of the visible folders"), ("zh-CN", "不在可见文件夹之内")):
        with signed_in(browser, console, language=language) as seen:
            seen.go(f"tasks/{number}?tab=files")
            expect(seen.page.locator(".panel .empty")).to_contain_text(told)
            expect(seen.page.locator(".panel .empty code")).to_have_text(str(beside))
            assert seen.count(".files") == 0


def rows(seen: Visit) -> dict[str, list[str]]:
    """What stands beside each name in the table of differences."""
    seen.page.wait_for_selector(".compare-table")
    lines = seen.page.locator(".compare-table tbody tr:has(td)")
    return {
        lines.nth(at).locator("th").inner_text(): [
            text.strip() for text in lines.nth(at).locator("td").all_inner_texts()
        ]
        for at in range(lines.count())
    }


def test_a_task_is_told_beside_another_and_the_words_that_differ_are_marked(seen: Visit, console: Console) -> None:
    wish = {"variables": {"SEED": "<b>1"}, "hold": True}
    with console.sign_in("root2").live() as live:
        one = live.ask("task.submit", command=["python3", "train.py", "--lr", "0.1"], **wish)["id"]
        other = live.ask("task.submit", command=["python3", "train.py", "--lr", "1"], gpus=2, hold=True)["id"]
        live.ask("task.cancel", ids=[other])
    seen.go(f"tasks/{one}?tab=compare")
    seen.page.click(f".compare .chip:has-text('{other}')")
    assert rows(seen) == {
        "Command": ["python3 train.py --lr 0.1", "python3 train.py --lr 1"],
        "GPUs": ["0", "2"],
        "Variable SEED": ["<b>1", "–"],
        "State": ["held", "cancelled"],
    }
    assert seen.texts(".compare-table mark") == ["0.1", "1"]
    assert seen.texts(".compare .command code") == [f"muster diff {one} {other}"]
    seen.page.fill(".compare input[name=with]", "99999")
    seen.page.keyboard.press("Enter")
    expect(seen.page.locator(".compare .refusal")).to_contain_text("99999")


def test_what_may_not_be_compared_is_named(seen: Visit, lab: Lab) -> None:
    with lab.client() as client:  # whose tasks the admin who looks may see, but for their variables
        one, other = (client.submit(["true"], variables={"KEY": str(gpus)}, gpus=gpus, hold=True) for gpus in (1, 2))
    seen.go(f"tasks/{one}?tab=compare&with={other}")
    assert rows(seen) == {"GPUs": ["1", "2"]}
    expect(seen.page.locator(".compare > .dim")).to_have_text("Not compared, for they are their owner's: variables")


def test_of_scripts_the_lines_that_differ_are_shown_among_their_neighbours(seen: Visit, lab: Lab) -> None:
    script = "#!/bin/bash\n" + "".join(f"step {number}\n" for number in range(50))
    with lab.client() as client:
        one = client.submit(script, hold=True)
        other = client.submit(script.replace("step 7\n", "-- step seven\n"), hold=True)
    seen.go(f"tasks/{one}?tab=compare&with={other}")
    lines = ["@@ 7 @@", " step 5", " step 6", "-step 7", "+-- step seven", " step 8", " step 9"]
    expect(seen.page.locator(".compare .diff span")).to_have_text(lines, use_inner_text=True)


def test_two_attempts_of_a_task_are_told_side_by_side(seen: Visit, lab: Lab) -> None:
    flag = lab.folder / "data" / "was-here"
    with lab.client() as client:
        number = client.submit(
            f"if [ -e {flag} ]; then echo well; else touch {flag}; echo odd; exit 3; fi", max_retries=1
        )
        until("it was tried twice", lambda: client.show(number)["state"] == "succeeded")
    seen.go(f"tasks/{number}?tab=compare")
    seen.page.click(".compare .chip:has-text('Attempts')")
    told = rows(seen)
    assert told["Exit code"] == ["3", "0"]
    assert told["Last line"][0] == "odd"
    seen.page.select_option(".compare select >> nth=0", "2")
    expect(seen.page.locator(".compare .empty")).to_have_text("They do not differ.")


def test_two_tasks_that_were_chosen_in_the_queue_are_compared(seen: Visit, lab: Lab) -> None:
    with lab.client() as client:
        two = [client.submit(["true"], name=name, hold=True) for name in ("one of two", "two of two")]
    seen.go("queue?q=of%20two")
    seen.page.click("thead input")
    seen.page.keyboard.press("d")
    assert rows(seen) == {"Name": ["one of two", "two of two"]}
    assert seen.page.url.endswith(f"tasks/{two[0]}?tab=compare&with={two[1]}")
