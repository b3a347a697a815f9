"""The last 24 hours: which tasks are known, how uPlot draws them, and what stands there without the curve."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Route, expect

from client.api import Client
from tests.system.lab import Lab
from tests.waiting import until
from tests.web.browser import NARROW, WIDE, Visit, signed_in
from tests.web.console import Console
from tests.web.javascript import dictionary
from tests.web.test_accessible import found

WORDS = dictionary("en/overview.js")

THERE = 'document.querySelector("script").src.replace("start.js", "")'
LIBRARY = "**/vendor/uplot.js*"
ONLY_TWO_HOURS = f"""async () => {{
  const {{ store }} = await import({THERE} + "core/context.js");
  store.askEnded = async () => ({{ tasks: [{{ ended_at: Date.now() / 1000 - 7_200 }}], total: 5_000 }});
}}"""
DRAWN = "one => one.toDataURL()"
DRAW = f"""async (values) => {{
  const there = {THERE};
  const {{ Chart }} = await import(there + "parts/chart.js");
  const {{ html, render }} = await import(there + "core/html.js");
  await (await import(there + "core/styles.js")).needStyles(["overview"]);
  const nothing = () => "";
  const curve = {{ values, times: values.map((_, at) => 1_700_000_000 + 60 * at), top: 16, at: null, isPlain: false }};
  const begun = performance.now();
  const words = {{ label: "<img src=x>", say: nothing, onAt: nothing }};
  render(html`<${{Chart}} ...${{curve}} ...${{words}} />`, document.querySelector("main"));
  const canvas = () => document.querySelector("main canvas");
  while (!canvas()) await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  const all = canvas().getContext("2d").getImageData(0, 0, 3_000, 300).data;
  const is = (at, one) => one.every((part, of) => Math.abs(part - all[at + of]) < 9);
  let painted = 0;
  for (let at = 0; at < all.length; at += 4) if (is(at, [0x2f, 0x5b, 0xd7, 255])) painted += 1;
  return [painted, performance.now() - begun, document.querySelectorAll("main img").length];
}}"""
"""Has the part of pages draw these values by itself: how many pixels have the curve's colour, and how long it took."""
COUNT = """
const live = Object.fromEntries(
  ["dppxchange", "ResizeObserver", "MutationObserver", "IntersectionObserver"].map((name) => [name, new Set()]));
for (const [name, ones] of Object.entries(live).slice(1)) {
  const { observe, disconnect } = window[name].prototype;
  window[name].prototype.observe = function (...what) { ones.add(this); observe.apply(this, what); };
  window[name].prototype.disconnect = function () { ones.delete(this); disconnect.apply(this); };
}
const [add, remove] = [addEventListener, removeEventListener];
window.addEventListener = (type, one, how) => { live[type]?.add(one); add(type, one, how); };
window.removeEventListener = (type, one, how) => { live[type]?.delete(one); remove(type, one, how); };
window.kept = () => Object.fromEntries(Object.entries(live).map(([name, ones]) => [name, ones.size]));
"""
"""Counts what watches a page. By `dppxchange` uPlot hears of another size of pixels: once, and once for each curve."""
VALUES: dict[str, tuple[list[float | None], bool]] = {
    "none": ([], False),
    "one": ([7.5], True),
    "gaps": ([None] * 96, False),
    "one between gaps": ([None] * 40 + [7.5] + [None] * 55, True),
    "nothing": ([0.0] * 96, True),
    "many": ([float(at % 17) for at in range(100_000)], True),
}
MOST_MS = 5_000


@pytest.fixture(scope="module", autouse=True)
def ended(lab: Lab) -> tuple[int, int]:
    """Two tasks that have ended, one after the other."""
    with lab.client() as client:
        first, last = (_run(client) for _ in range(2))
    return first, last


def _run(client: Client) -> int:
    number = client.submit(["true"], gpus=1)
    until("it ended", lambda: client.show(number)["state"] == "succeeded")
    return number


def test_of_the_finished_tasks_the_newest_are_asked_for(seen: Visit, ended: tuple[int, int]) -> None:
    seen.go("me")
    known = seen.page.evaluate(
        f"""async () => {{
          const {{ store }} = await import({THERE} + "core/context.js");
          await store.askEnded({{ limit: 1, offset: 0 }});
          return [...store.cluster.ended.keys()];
        }}"""
    )
    assert known == [ended[1]]


def test_what_ended_while_the_connection_was_lost_is_asked_for(seen: Visit, console: Console, lab: Lab) -> None:
    seen.go("")
    failed = seen.page.locator(".figure", has_text=WORDS["overview.failed"]).locator("b")
    expect(failed).to_have_text("0")
    console.kill()
    expect(seen.page.locator(".banner")).to_be_visible()
    with lab.client() as client:
        number = client.submit(["false"])
        until("it failed", lambda: client.show(number)["state"] == "failed")
    console.start()
    expect(failed).to_have_text("1")
    seen.complaints = [one for one in seen.complaints if "WebSocket" not in one]


def test_keys_and_pointer_tell_the_value_of_each_point(seen: Visit) -> None:
    seen.go("")
    curve, caption = seen.page.get_by_role("slider"), seen.page.locator(".day figcaption")
    curve.focus()
    expect(curve).to_have_attribute("aria-valuenow", "95")
    whole = curve.get_attribute("aria-label")
    for key, at in (("ArrowRight", 95), ("ArrowLeft", 94), ("Home", 0), ("ArrowLeft", 0), ("End", 95), ("x", 95)):
        seen.page.keyboard.press(key)
        expect(curve).to_have_attribute("aria-valuenow", str(at))
        expect(caption).to_have_text(curve.get_attribute("aria-valuetext") or "")
    assert found(seen.page) == []
    line = curve.locator(".u-cursor-x")
    expect(line).to_be_in_viewport()
    seen.page.keyboard.press("Tab")
    expect(caption).to_have_text(whole or "")
    expect(line).to_have_class(re.compile("u-off"))
    box = curve.locator(".u-over").bounding_box()
    assert box
    seen.page.mouse.move(box["x"] + 1, box["y"] + 9)
    expect(curve).to_have_attribute("aria-valuenow", "0")
    seen.page.mouse.move(0, 0)
    expect(caption).to_have_text(whole or "")


def test_colours_and_width_follow_theme_and_window(seen: Visit) -> None:
    seen.go("")
    canvas = seen.page.locator(".day canvas")
    light = canvas.evaluate(DRAWN)
    seen.page.emulate_media(color_scheme="dark")
    until("it is dark", lambda: canvas.evaluate(DRAWN) != light)
    seen.page.emulate_media(color_scheme="light")
    until("it is as before", lambda: canvas.evaluate(DRAWN) == light)
    wide = canvas.evaluate("one => one.width")
    seen.page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    until("it is narrower", lambda: canvas.evaluate("one => one.width") < wide)
    assert not seen.is_wider_than_the_window()


def test_what_is_not_known_is_a_gap_and_told(seen: Visit) -> None:
    seen.go("me")
    seen.page.evaluate(ONLY_TWO_HOURS)
    seen.page.click("nav a[href='./']")
    curve, unknown = seen.page.get_by_role("slider"), WORDS["day.unknown"]
    curve.focus()
    assert unknown not in (curve.get_attribute("aria-valuetext") or "")
    seen.page.keyboard.press("Home")
    expect(curve).to_have_attribute("aria-valuetext", re.compile(unknown))
    seen.page.click(".day summary")
    hours = seen.page.locator(".day tr")
    expect(hours).to_have_count(24)
    assert [unknown in hour for hour in hours.all_inner_texts()] == [False] + 23 * [True]


def test_where_the_library_does_not_come_words_stay_and_it_is_asked_for_again(seen: Visit) -> None:
    seen.page.clock.install()
    seen.page.route(LIBRARY, lambda route: route.abort("internetdisconnected"))
    seen.go("")
    lost = seen.page.locator(".chart", has_text=WORDS["chart.lost"])
    expect(lost).to_be_visible()
    expect(seen.page.locator(".day figcaption")).not_to_be_empty()
    seen.page.click(".day summary")
    expect(seen.page.locator(".day tr")).to_have_count(24)
    seen.page.unroute(LIBRARY)
    seen.page.clock.fast_forward(11_000)
    expect(seen.page.locator(".day canvas")).to_be_visible()
    expect(lost).to_have_count(0)


def test_who_leaves_while_the_library_is_on_its_way_is_followed_by_nothing(seen: Visit) -> None:
    held: list[Route] = []
    seen.page.route(LIBRARY, lambda route: held.append(route))  # noqa: PLW0108 - its own attributes are set
    seen.go("")
    seen.page.locator(".day").scroll_into_view_if_needed()
    until("it is asked for", lambda: seen.page.evaluate("1") and bool(held))
    seen.page.click("nav a[href=queue]")
    expect(seen.page.locator(".day")).to_have_count(0)
    with seen.page.expect_event("requestfinished", lambda request: "/vendor/uplot.js" in request.url):
        held[0].continue_()
    expect(seen.page.locator("canvas")).to_have_count(0)
    seen.page.click("nav a[href='./']")
    expect(seen.page.locator(".day canvas")).to_be_visible()
    assert len(held) == 1


def test_a_page_that_is_left_leaves_no_curve_behind(seen: Visit) -> None:
    seen.page.add_init_script(COUNT)
    seen.go("")
    kept: list[dict[str, int]] = []
    for _ in range(3):
        expect(seen.page.locator(".day canvas")).to_be_visible()
        kept.append(seen.page.evaluate("kept()"))
        seen.page.click("nav a[href=me]")
        expect(seen.page.locator("canvas")).to_have_count(0)
        kept.append(seen.page.evaluate("kept()"))
        seen.page.click("nav a[href='./']")
    assert kept[::2] == 3 * [kept[0]]
    assert kept[1::2] == 3 * [kept[1]]
    of_a_curve = {"dppxchange": 1, "ResizeObserver": 1, "MutationObserver": 1, "IntersectionObserver": 0}
    assert {name: kept[0][name] - kept[1][name] for name in kept[0]} == of_a_curve


@pytest.mark.parametrize("name", VALUES)
def test_any_number_of_points_is_drawn(browser: Browser, console: Console, name: str) -> None:
    values, is_seen = VALUES[name]
    with signed_in(browser, console) as seen:
        seen.go("me")
        painted, took_ms, pictures = seen.page.evaluate(DRAW, values)
        assert ((painted > 0), pictures) == (is_seen, 0)
        assert took_ms < MOST_MS


def test_the_curve_comes_where_there_is_one_once_it_is_in_sight(browser: Browser, console: Console) -> None:
    with signed_in(browser, console, size=(WIDE[0], 300)) as seen:
        asked: list[str] = []
        seen.page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
        for path in ("me", "queue", ""):
            seen.go(path)
        seen.page.wait_for_load_state("networkidle")
        assert not [name for name in asked if name.startswith("uplot")]
        seen.page.locator(".day").scroll_into_view_if_needed()
        expect(seen.page.locator(".day canvas")).to_be_visible()
        assert sorted(name for name in asked if name.startswith("uplot")) == ["uplot.css", "uplot.js"]
