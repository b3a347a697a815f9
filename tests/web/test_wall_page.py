"""A screen on a wall: it comes in with its token, shows what anybody may read who passes, and no page besides."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.system.lab import Lab
from tests.waiting import until
from tests.web.browser import NARROW, signed_in, visit
from tests.web.console import Console

HOSTILE = "<img src=x onerror=alert(1)> 王伟"


@pytest.fixture(scope="module")
def token(lab: Lab) -> str:
    with lab.client() as owner:
        return str(owner.people.new_token(name="eve", scopes=["wall"])["token"])


def test_a_screen_shows_what_runs_and_nothing_that_is_private(
    browser: Browser, console: Console, lab: Lab, token: str
) -> None:
    with lab.client() as owner:
        number = owner.submit(["sh", "-c", "sleep 600; : secret-word"], gpus=2, name=HOSTILE)
        until("it runs", lambda: owner.show(number)["state"] == "running")
    with visit(browser, console, size=(1920, 1080)) as seen:
        asked: list[str] = []
        seen.page.on("request", lambda request: asked.append(request.url))
        seen.page.goto(f"{console.url}/wall?lang=zh&theme=dark#token={token}")
        expect(seen.page.locator(".wall-tasks b", has_text=HOSTILE)).to_be_visible()
        expect(seen.page.locator(".wall .gpu.is-other:not(.is-small)")).to_have_count(2)
        expect(seen.page.locator("body")).to_contain_text("已占用 GPU")
        assert "secret-word" not in seen.page.content()
        assert seen.count(".wall-tasks img, .wall a") == 0
        assert not [url for url in asked if token in url], "what stands behind # is sent nowhere"
        assert seen.page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert seen.page.evaluate("document.documentElement.scrollHeight <= innerHeight")
        seen.page.goto(f"{console.url}/queue#token={token}")
        expect(seen.page.locator(".wall-node")).to_be_visible()
    with lab.client() as owner:
        owner.cancel([number])


def test_a_phone_shows_each_gpu_whole(browser: Browser, console: Console, token: str) -> None:
    with visit(browser, console, size=NARROW) as seen:
        seen.page.goto(f"{console.url}/wall#token={token}")
        gpus = seen.page.locator(".wall-node .gpu")
        expect(gpus).to_have_count(8)
        edge = seen.page.locator(".wall-grid").evaluate("one => one.getBoundingClientRect().right")
        rights = gpus.evaluate_all("all => all.map((one) => one.getBoundingClientRect().right)")
        assert max(rights) <= edge


def test_a_screen_shows_reserved_gpus_by_the_number_of_the_task(
    browser: Browser, console: Console, lab: Lab, token: str
) -> None:
    with lab.client() as owner:
        first = next(node for node in owner.nodes() if node["gpus"])
        holder = owner.submit(["sleep", "600"], gpus=1, node=first["name"], time_limit_s=3600)
        until("it runs", lambda: owner.show(holder)["state"] == "running")
        large = owner.submit(["true"], gpus=len(first["gpus"]), node=first["name"], urgent=True)
        try:
            with visit(browser, console, size=(1920, 1080)) as seen:
                seen.page.goto(f"{console.url}/wall?lang=en#token={token}")
                kept = seen.page.locator(".wall-node small", has_text=f"reserved for #{large}")
                expect(kept).to_be_visible()
                owner.cancel([large])
                expect(kept).to_have_count(0)
        finally:
            owner.cancel([large, holder])


def test_a_token_that_opens_nothing_leads_to_the_page_to_sign_in(browser: Browser, console: Console) -> None:
    with visit(browser, console) as seen:
        seen.page.goto(f"{console.url}/wall#token=mst_00000000_nothing")
        expect(seen.page.locator("form input[name=user]")).to_be_visible()
        expect(seen.page.locator(".toast.is-bad")).to_be_visible()
        seen.complaints = [one for one in seen.complaints if "401" not in one]


def test_the_last_day_counts_each_task_for_as_long_as_it_held_its_gpus(browser: Browser, console: Console) -> None:
    with signed_in(browser, console) as seen:
        seen.go("")
        held = seen.page.evaluate(
            """async () => {
              const { heldOver } = await import("./static/core/held.js");
              const on = (gpus, started_at, ended_at) => ({ allocation: [{ node: "n", gpus }], started_at, ended_at });
              const tasks = [on([0, 1], 100, 200), on([2], 150, null), on([3], -500, 50)];
              tasks.push(on([], 0, 400), on([4], null, null));
              return [heldOver(tasks, 400, 400, 4, 0), heldOver(tasks, 400, 400, 4, 150)];
            }"""
        )
    assert held == [[0.5, 2.5, 1, 1], [None, None, 1, 1]]
