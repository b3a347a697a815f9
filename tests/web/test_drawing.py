"""How often a page is drawn: figures that come one after the other together, what anybody does at once."""

from __future__ import annotations

import pytest

from tests.web.browser import Visit

FIGURES, APART_MS = 60, 25
COUNT = """async ([figures, apart, told]) => {
    const { store } = await import(document.querySelector("script").src.replace("start.js", "core/context.js"));
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const pause = (ms) => new Promise((done) => setTimeout(done, ms));
    let draws = 0;
    const leave = store.watch(() => { draws += 1; });
    if (told) {
        store.live.told("task.changed", { id: 1_000_000, gone: true });
        await frame();
        await frame();
    } else {
        for (let at = 0; at < figures; at += 1) {
            store.live.told("node.sample", { node: "node0", cpu_percent: at, gpus: [] });
            await pause(apart);
        }
    }
    leave();
    return draws;
}"""


@pytest.fixture
def seen(seen: Visit) -> Visit:
    seen.go("")
    return seen


def test_the_figures_of_many_nodes_are_drawn_together(seen: Visit) -> None:
    draws = seen.page.evaluate(COUNT, [FIGURES, APART_MS, False])
    assert 1 <= draws < FIGURES / 2


def test_what_somebody_does_is_drawn_in_the_next_frame(seen: Visit) -> None:
    assert seen.page.evaluate(COUNT, [0, 0, True]) >= 1
