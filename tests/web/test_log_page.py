"""A task's log in the browser: the end first, what stands before while scrolling, what is written meanwhile."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.system.lab import Lab
from tests.waiting import until
from tests.web.browser import Visit

LINES = 200_000
LONG = f"seq -f 'line %.0f of many that stand here' {LINES}; echo 'ValueError: in the middle'; seq 100000"


def run(lab: Lab, command: str, state: str) -> int:
    with lab.client() as client:
        number = client.submit(command)
        until(f"it is {state}", lambda: client.show(number)["state"] == state)
    return number


def scroll(seen: Visit, top: str) -> None:
    seen.page.evaluate(f"() => {{ const log = document.querySelector('.log-lines'); log.scrollTop = {top}; }}")


def test_a_long_log_begins_at_its_end_and_goes_back_as_one_scrolls(seen: Visit, lab: Lab) -> None:
    number = run(lab, LONG, "succeeded")
    seen.go(f"tasks/{number}?tab=log")
    expect(seen.page.locator(".log-line", has_text="Program Exit With Code 0")).to_be_visible()
    first = seen.page.evaluate("document.querySelector('.log-sheet').offsetHeight")
    scroll(seen, "0")
    seen.page.wait_for_function("before => document.querySelector('.log-sheet').offsetHeight > before", arg=first)
    assert seen.page.evaluate("document.querySelectorAll('.log-line').length") < 200


def test_wrapped_lines_go_back_to_the_first_and_stay_few(seen: Visit, lab: Lab) -> None:
    number = run(lab, "for i in $(seq 1 1500); do echo \"line $i $(printf 'x%.0s' $(seq 1 400))\"; done", "succeeded")
    seen.go(f"tasks/{number}?tab=log")
    seen.page.check(".log-tools input[type=checkbox]")
    expect(seen.page.locator(".log-line", has_text="Program Exit With Code 0")).to_be_visible()
    first = seen.page.locator(".log-line", has_text="line 1 x")

    def scrolled() -> bool:
        scroll(seen, "log.scrollHeight / 20")
        scroll(seen, "0")
        return first.count() == 1

    until("the first line is there", scrolled)
    assert seen.count(".log-line") <= 600
    seen.page.fill("#log-search", "line 750 ")
    seen.page.keyboard.press("Enter")
    seen.page.click(".log-found li button")
    expect(seen.page.locator(".log-line.is-marked")).to_contain_text("line 750 x")
    expect(seen.page.locator(".log-line.is-marked")).to_be_in_viewport()


def test_the_first_error_is_gone_to_and_its_line_has_an_address(seen: Visit, lab: Lab) -> None:
    number = run(lab, LONG, "succeeded")
    seen.go(f"tasks/{number}?tab=log")
    seen.page.wait_for_selector(".log-line")
    seen.page.keyboard.press("e")
    marked = seen.page.locator(".log-line.is-marked")
    expect(marked).to_contain_text("ValueError: in the middle")
    seen.page.goto(seen.page.url)
    expect(seen.page.locator(".log-line.is-marked")).to_contain_text("ValueError: in the middle")


def test_who_goes_to_a_line_stays_there_whatever_was_scrolled_before(seen: Visit, lab: Lab) -> None:
    number = run(lab, LONG, "succeeded")
    seen.go(f"tasks/{number}?tab=log")
    seen.page.wait_for_selector(".log-line")
    # The browser tells of scrolling later than it was done, on a busy machine much later.
    seen.page.evaluate("setInterval(() => document.querySelector('.log-lines')?.dispatchEvent(new Event('scroll')), 1)")
    seen.page.keyboard.press("e")
    expect(seen.page.locator(".log-line.is-marked")).to_contain_text("ValueError: in the middle")


def test_of_two_stretches_the_one_that_was_asked_for_last_is_shown(seen: Visit) -> None:
    seen.go("")
    shown = seen.page.evaluate(
        """async () => {
          const { LogWindow } = await import("./static/core/log-window.js");
          const come = [];
          const log = new LogWindow((asked) => new Promise((done) => come.push(() => {
            const offset = asked.offset < 0 ? 300_000 : asked.offset;
            done({ data: btoa("before\\nat " + offset + "\\n"), offset, size: 300_100, ended: true });
          })));
          const both = [log.toEnd(), log.toOffset(100_000)];
          come[1]();
          await both[1];
          come[0]();
          await both[0];
          return log.lines.map((line) => line.text);
        }"""
    )
    assert shown == ["at 67232"]


def test_a_search_finds_lines_and_leads_to_them(seen: Visit, lab: Lab) -> None:
    number = run(lab, LONG, "succeeded")
    seen.go(f"tasks/{number}?tab=log")
    seen.page.wait_for_selector(".log-line")
    seen.page.keyboard.press("/")
    seen.page.keyboard.type("line 77777 OF")
    seen.page.keyboard.press("Enter")
    seen.page.click(".log-found li button")
    expect(seen.page.locator(".log-line.is-marked")).to_contain_text("line 77777 of many")


STEPS = """async () => {
  const name = performance.getEntriesByType("resource").find((one) => one.name.endsWith("core/context.js")).name;
  const { live } = await import(name);
  const call = live.call.bind(live);
  window.steps = [];
  const step = () => new Promise((done) => window.steps.push(done));
  live.call = (verb, asked) => verb === "log.search" ? step() : call(verb, asked);
}"""
"""From now on searches are answered by `steps`, one after the other."""


def test_a_long_search_tells_how_far_it_came_and_moves_nobody_who_went_elsewhere(seen: Visit, lab: Lab) -> None:
    number = run(lab, "echo 'ValueError: here'; seq 1000", "succeeded")
    seen.go(f"tasks/{number}?tab=log")
    seen.page.wait_for_selector(".log-line")
    seen.page.evaluate(STEPS)
    told = seen.page.locator(".log-tools [role=status]")
    seen.page.keyboard.press("e")
    expect(told).to_have_text("Searching… 0 %")
    seen.page.keyboard.press("e")
    seen.page.evaluate("steps[0]({ matches: [], next: 40, size: 100 })")
    expect(told).to_have_text("Searching… 40 %")
    assert seen.page.evaluate("steps.length") == 2, "it is not asked for twice"
    seen.page.get_by_role("button", name="End", exact=True).click()
    expect(told).to_have_count(0)
    seen.page.evaluate("steps[1]({ matches: [{ offset: 0, text: '', begin: 0, end: 0 }], next: 50, size: 100 })")
    seen.page.keyboard.press("E")
    expect(told).to_have_text("Searching… 0 %")
    seen.page.evaluate("steps[2]({ matches: [], next: 30, size: 100 })")
    expect(told).to_have_text("Searching… 70 %")
    expect(seen.page.locator(".log-line.is-marked")).to_have_count(0)
    seen.page.evaluate("steps[3]({ matches: [], next: null, size: 100 })")
    expect(seen.page.locator(".toast")).to_contain_text("No line tells of an error")
    expect(told).to_have_count(0)


def test_who_scrolls_up_is_told_what_comes_and_is_not_moved(seen: Visit, lab: Lab) -> None:
    number = run(lab, "seq 2000; while true; do echo more; sleep 0.2; done", "running")
    seen.go(f"tasks/{number}?tab=log")
    expect(seen.page.locator(".log-line", has_text="more").first).to_be_visible()
    scroll(seen, "200")
    expect(seen.page.locator(".log-tools .chip.is-held")).to_contain_text("new lines")
    assert seen.page.evaluate("document.querySelector('.log-lines').scrollTop") < 1_000
    seen.page.click(".log-tools .chip.is-held")
    expect(seen.page.locator(".log-tools .chip.is-live")).to_be_visible()
    with lab.client() as client:
        client.cancel([number])


def test_the_page_of_a_task_that_waits_says_why(seen: Visit, lab: Lab) -> None:
    with lab.client() as client:
        number = client.submit(["true"], gpus=8, hold=True)
    seen.go(f"tasks/{number}")
    expect(seen.page.locator(".why-reason")).to_contain_text(f"muster release {number}")
    seen.page.click(".task-actions button:has-text('Release')")
    expect(seen.page.locator(".task-title .state")).to_contain_text("succeeded")


def test_who_goes_from_one_task_to_another_sees_the_log_of_that_one(seen: Visit, lab: Lab) -> None:
    first, second = (run(lab, f"echo this is {word}", "succeeded") for word in ("one", "two"))
    seen.go(f"tasks/{first}?tab=log")
    expect(seen.page.locator(".log-line", has_text="this is one")).to_be_visible()
    seen.page.fill(".search input", str(second))
    seen.page.keyboard.press("Enter")
    expect(seen.page.locator(".log-line", has_text="this is two")).to_be_visible()
    expect(seen.page.locator(".log-line", has_text="this is one")).to_have_count(0)
