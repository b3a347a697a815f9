"""The program on a screen that a test reads, with keys that a test presses, fed by hand: also with a large cluster."""

from __future__ import annotations

import asyncio
import base64
import itertools
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Input

from client.address import Address
from client.live.state import State
from client.top import app as top_app
from client.top import frame
from client.top.app import Top
from client.top.rows import Rows, changed_span
from client.top.screens import LogScreen, Page, Question
from tests.calls import instructions_of
from tests.client.fake_master import FakeMaster, Refusal, task, unknown_node
from tests.client.top_cluster import gpu, large, message, node, running, sample, sampled
from tests.client.top_screen import Screen
from wire.errors import NotFoundError
from wire.message import Message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.live.worker import Tell

Story = Callable[[], Coroutine[Any, Any, None]]


class Stub:
    """A source that tells what the test says."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self.running = False

    def start(self) -> None:
        self.running = True

    def end(self) -> None:
        self.running = False

    def join(self) -> None:
        assert not self.running


class StubAsker(Stub):
    """Asks nobody, and keeps for what it was asked."""

    def __init__(self, tell: Tell) -> None:
        super().__init__(tell)
        self.asked: list[str] = []

    def ask(self, to: str, _question: Any) -> None:
        self.asked.append(to)


class FedScreen(Screen):
    """The program whose news come from the test."""

    def __init__(self, app: Top, pilot: Pilot[None], stub: Stub) -> None:
        super().__init__(app, pilot)
        self.stub = stub

    def told(self, method: str, params: Any) -> None:
        self.stub.tell(message(method, params))


@asynccontextmanager
async def opened(
    size: tuple[int, int] = (80, 24), address: Address | None = None, **how: Any
) -> AsyncIterator[FedScreen]:
    stubs: list[Stub] = []

    def sources(tell: Tell) -> list[Any]:
        stubs.append(Stub(tell))
        return stubs

    app = Top(address or Address("127.0.0.1", 1), None, sources, "ada", **how)
    async with app.run_test(size=size) as pilot:
        yield FedScreen(app, pilot, stubs[0])
    assert not stubs[0].running


@asynccontextmanager
async def small(
    size: tuple[int, int] = (80, 24), address: Address | None = None, **how: Any
) -> AsyncIterator[FedScreen]:
    """Two nodes, one running task, two waiting ones."""
    async with opened(size, address, **how) as screen:
        screen.told("nodes", [node("alpha", [gpu(0, held_by=[1]), gpu(1)], tasks=[1]), node("beta", 2)])
        screen.told("tasks", [running(1, "alpha", [0], name="bert"), task(2, name="wait-大", owner="bob"), task(3)])
        await screen.shows("wait-大")
        await screen.until("both lists have their sizes", lambda: _is_laid_out(screen.app))
        yield screen


def _is_laid_out(app: Top) -> bool:
    """What was drawn first may still stand in rooms of another size: these are shared anew when it is known."""
    nodes, tasks = app.lists.node_rows, app.lists.task_rows
    height = nodes.styles.height
    return (
        height is not None
        and nodes.size.height == height.value
        and all(len(rows._drawn) == rows.size.height for rows in (nodes, tasks))
    )


def test_the_cluster_on_a_small_screen_and_a_wide_one() -> None:
    async def story() -> None:
        async with small() as screen:
            text = screen.text()
            assert "2 nodes  GPUs 1/4 held  1 run, 2 wait" in text
            assert "● live" in text
            assert "alpha:0" in text
            assert "q" in screen.lines()[-1]
            assert all(len(line) <= 80 for line in screen.lines())
        async with small((200, 50)) as screen:
            assert " #  0 A100" in screen.text()
            assert "1 ada bert" in screen.text()

    asyncio.run(story())


def test_news_change_the_lines_they_are_about() -> None:
    async def story() -> None:
        async with small() as screen:
            screen.told("node.sample", sample("alpha", sampled(0, 88.0, 40960), cpu=77.0))
            await screen.shows("77%  50% 1 of 2 GPUs free")
            assert " #  0 █████░  88%  ███░░░ 40.0/80G" in screen.text()
            screen.told("task.changed", {"task": running(2, "beta", [1], name="wait-大")})
            await screen.shows("beta:1")
            screen.told("task.changed", {"task": task(2, "succeeded", ended_at=1.0, seq=9)})
            await screen.until("it is gone", lambda: "wait-大" not in screen.text())
            await screen.press("e")
            await screen.shows("succeeded")
            screen.told("node.changed", {"node": node("beta", 2, state="unreachable", reason="rack is dark")})
            await screen.shows("rack is dark")

    asyncio.run(story())


def test_a_master_that_goes_away_is_told_and_what_was_known_stays() -> None:
    async def story() -> None:
        async with small() as screen:
            screen.told("lost", {"feed": "tasks", "why": "refused"})
            await screen.shows("NO MASTER for ")
            assert "alpha" in screen.text()
            screen.told("tasks", [task(9, name="after")])
            await screen.shows("after")
            assert "● live" in screen.text()

    asyncio.run(story())


def test_a_drawing_that_comes_due_while_it_ends_is_left_out() -> None:
    async def story() -> None:
        async with small() as screen:
            pass
        screen.told("task.changed", {"task": task(4)})
        screen.app.draw()

    asyncio.run(story())


def test_a_drawing_that_comes_due_while_its_screen_is_taken_down_is_left_out() -> None:
    async def story() -> None:
        async with small() as screen:
            await screen.app.screen.remove_children()
            screen.told("task.changed", {"task": task(4)})
            screen.app.draw()

    asyncio.run(story())


def test_screens_are_drawn_at_most_twice_a_second_however_much_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with small() as screen:
            await screen.pilot.pause(top_app.DRAW_EVERY_S)  # what the start itself draws, it draws at once
            drawn: list[float] = []
            draw = screen.app.draw

            def noted() -> None:
                drawn.append(time.monotonic())
                draw()

            monkeypatch.setattr(screen.app, "draw", noted)
            for number in range(300):
                screen.told("node.sample", sample("alpha", cpu=float(number % 100)))
                await screen.pilot.pause(0.005)
            gaps = [later - sooner for sooner, later in itertools.pairwise(drawn)]
            assert len(drawn) >= 2
            assert min(gaps) > top_app.DRAW_EVERY_S * 0.99

    asyncio.run(story())


def test_only_the_columns_that_differ_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with small() as screen:
            screen.told("node.sample", sample("beta", cpu=11.0))
            await screen.shows("11%")
            refreshed: list[Any] = []
            rows = screen.app.lists.node_rows
            monkeypatch.setattr(rows, "refresh", lambda *regions: refreshed.append(regions))
            rows.redraw()
            assert refreshed == [], "nothing changed"
            screen.told("node.sample", sample("beta", cpu=12.0))
            await screen.until("a refresh", lambda: refreshed)
            ((region,),) = refreshed
            assert (region.y, region.height) == (4, 1)
            assert region.width < 15

    asyncio.run(story())


def test_when_the_cursor_goes_to_the_other_list_two_lines_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with small() as screen:
            refreshed: list[Any] = []
            refresh = Widget.refresh

            def noted(widget: Widget, *regions: Any, **how: Any) -> Widget:
                refreshed.append((widget.id, [region.height for region in regions]))
                return refresh(widget, *regions, **how)

            monkeypatch.setattr(Widget, "refresh", noted)
            await screen.press("tab")
            assert sorted(refreshed) == [("nodes", [1]), ("tasks", [1])]
            assert screen.app.lists.on_nodes

    asyncio.run(story())


def test_the_span_that_differs() -> None:
    old, new = (("ab", ""), ("大", "good"), ("xyz", "")), (("ab", ""), ("cd", "bad"), ("xyz", ""))
    assert changed_span(old, new) == (2, 2)
    assert changed_span(old, old) == (7, 0)


def test_a_hundred_nodes_and_ten_thousand_tasks_only_what_is_visible_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, tasks = large()
    built: list[Any] = []
    line = frame.row_line

    def noted(state: State, row: Any, size: int, *, packed: bool) -> Any:
        built.append(row)
        return line(state, row, size, packed=packed)

    monkeypatch.setattr(frame, "row_line", noted)

    async def story() -> None:
        async with opened() as screen:
            screen.told("nodes", nodes)
            screen.told("tasks", tasks)
            await screen.shows("of 10,000")
            assert "100 run, 9,900 wait" in screen.text()
            await screen.press("G")
            await screen.shows("10000 waiting")
            await screen.press("g", "tab", "x")
            await screen.shows("of 900")
            await screen.press("G")
            await screen.shows("node099")
            for number in range(100):
                screen.told("node.sample", sample(f"node{number:03}", *(sampled(one, 50.0, 1) for one in range(8))))
            built.clear()
            assert instructions_of(screen.app.draw) < 120 * 10_000, "to count the tasks, and to build 24 rows"
            assert 0 < len(set(built)) <= 24

    asyncio.run(story())


def test_the_cursor_stays_on_its_task_while_others_come_and_go() -> None:
    async def story() -> None:
        async with opened() as screen:
            screen.told("nodes", [])
            screen.told("tasks", [task(number) for number in range(10, 60)])
            await screen.shows("of 50")
            await screen.press("down", "j", "j", "k")
            rows = screen.app.lists.task_rows
            assert rows.selected == 12
            screen.told("task.changed", {"task": running(99, "a", [], name="first")})
            await screen.shows("first")
            assert rows.selected == 12
            await screen.press("G")
            assert rows.selected == 59
            assert " 59 waiting" in screen.text()
            screen.told("task.changed", {"id": 59, "gone": True})
            await screen.until("the last is another", lambda: rows.selected == 58)
            await screen.press("ctrl+u", "pageup", "g")
            assert rows.selected == 99

    asyncio.run(story())


def test_filter_mine_sort_zoom_and_pack_by_key() -> None:
    async def story() -> None:
        async with small() as screen:
            await screen.press("slash", *"bert")
            await screen.until("others are gone", lambda: "wait-大" not in screen.text())
            assert screen.app.query_one(Input).has_focus
            await screen.press("enter")
            assert "/bert 1" in screen.text()
            await screen.press("escape", "m")
            assert "wait-大" not in screen.text()
            assert "mine 2" in screen.text()
            await screen.press("m", "o")
            assert "by owner 3" in screen.text()
            await screen.press("tab", "o", "o")
            assert "busy 6" in screen.text()
            await screen.press("slash", *"beta", "enter")
            assert "alpha " not in screen.text()
            await screen.press("escape", "x", "x")
            assert "GPUs packed" in screen.text()
            assert " ·  1" not in screen.text()
            await screen.press("enter")
            assert " ·  1" in screen.text()
            await screen.press("z")
            assert "OWNER" not in screen.text()
            await screen.press("z", "tab", "z")
            assert "NODE  " not in screen.text()

    asyncio.run(story())


def test_the_log_pane_follows_and_closes() -> None:

    async def story(master: FakeMaster) -> None:
        async with small(address=Address("127.0.0.1", master.port)) as screen:
            await screen.press("l")
            await screen.shows("log of task 1 bert")
            await screen.shows("步骤 40 of 40")
            await screen.shows("unfinished 7%")
            await screen.shows("the task has ended")
            await screen.press("g")
            await screen.shows("步骤 1 of 40")
            await screen.press("q")
            await screen.shows("alpha")
            assert not isinstance(screen.app.screen, LogScreen)

    lines = b"".join(f"步骤 {number} of 40\n".encode() for number in range(1, 41))

    def read(params: dict[str, Any]) -> dict[str, Any]:
        size = len(lines) + 13
        if not params.get("collapse"):
            return {"data": "", "offset": 0, "size": size, "ended": True, "path": ""}
        data = lines[params["offset"] :]
        rest = base64.b64encode(b"unfinished 7%").decode()
        return {"data": base64.b64encode(data).decode(), "rest": rest, "next": len(lines), "size": size,
                "offset": params["offset"], "ended": True, "path": ""}  # fmt: skip

    with FakeMaster({"log.read": read}) as master:
        asyncio.run(story(master))


def test_the_log_pane_of_a_task_that_has_said_nothing_says_so() -> None:
    def read(_: dict[str, Any]) -> dict[str, Any]:
        return {"data": "", "rest": "", "next": 0, "size": 0, "offset": 0, "ended": False, "path": ""}

    async def story(master: FakeMaster) -> None:
        async with small(address=Address("127.0.0.1", master.port)) as screen:
            await screen.press("l")
            await screen.shows("no output yet")

    with FakeMaster({"log.read": read}) as master:
        asyncio.run(story(master))


def test_cancel_asks_why_and_show_open_a_page_and_an_error_is_one_line() -> None:
    why = {"id": 1, "state": "running", "reason": None, "blocked_by": [], "details": ["all is well"]}

    def no_node(params: dict[str, Any]) -> Any:
        raise Refusal("not_found", unknown_node(params["name"]))

    verbs: dict[str, Callable[[dict[str, Any]], Any]] = {
        "node.show": no_node,
        "task.why": lambda _: why,
        "task.show": lambda params: task(params["id"], name="whole"),
        "task.cancel": lambda params: {"cancelled": [], "signalled": params["ids"], "refused": {}, "codes": {}},
    }

    async def story(master: FakeMaster) -> None:
        async with small(address=Address("127.0.0.1", master.port)) as screen:
            await screen.press("c")
            await screen.shows("Cancel task 1 bert of ada (running)?")
            await screen.press("n")
            assert not isinstance(screen.app.screen, Question)
            assert master.asked("task.cancel") == []
            await screen.press("c", "y")
            await screen.shows("task 1 is told to end")
            assert master.asked("task.cancel") == [{"ids": [1]}]
            await screen.press("w")
            await screen.shows("all is well")
            await screen.press("q", "s")
            await screen.shows("whole")
            await screen.press("escape")
            await screen.press("tab", "down", "s")
            await screen.until("it asks for the task that holds the GPU", lambda: len(master.asked("task.show")) == 2)
            await screen.until("the page", lambda: isinstance(screen.app.screen, Page))
            await screen.press("q", "down", "w")
            assert "no task holds this" in screen.lines()[-1]
            await screen.press("g", "s")
            await screen.shows(f"not_found: {unknown_node('alpha')}")

    with FakeMaster(verbs) as master:
        asyncio.run(story(master))


def test_d_tells_in_what_two_tasks_differ_and_one_of_an_array_from_its_nearest() -> None:
    def diff(params: dict[str, Any]) -> Any:
        other = params.get("other", 77)
        field = {"field": "gpus", "here": 1, "there": 2, "change": "changed"}
        return {"id": params["id"], "other": other, "fields": [field], "hidden": []}

    async def story(master: FakeMaster) -> None:
        async with small(address=Address("127.0.0.1", master.port)) as screen:
            await screen.press("d")
            await screen.shows("task 1: d on another one tells in what they differ")
            await screen.press("down", "d")
            await screen.until("it asks for both", lambda: len(master.asked("task.diff")) == 1)
            (asked,) = master.asked("task.diff")
            assert asked["id"] == 1
            assert asked["other"] != 1
            await screen.shows("gpus:")
            await screen.press("q")
            of_array: Any = {**running(1, "alpha", [0], name="sweep"), "array": {"id": 1, "index": 0}}
            screen.told("task.changed", {"task": {**of_array, "seq": 9}})
            await screen.shows("sweep")
            await screen.press("g", "d")
            await screen.until("the page", lambda: isinstance(screen.app.screen, Page))
            assert master.asked("task.diff")[-1] == {"id": 1}

    with FakeMaster({"task.diff": diff, "task.list": lambda _: {"tasks": []}}) as master:
        asyncio.run(story(master))


def test_why_of_a_node_needs_no_question_and_help_tells_the_keys() -> None:
    async def story() -> None:
        async with small() as screen:
            screen.told("node.changed", {"node": node("alpha", [gpu(0, health="Xid 79")], reason="half of it is ill")})
            await screen.shows("Xid 79")
            await screen.press("tab", "w")
            await screen.shows("node alpha: half of it is ill")
            await screen.press("q", "question_mark")
            await screen.shows("cancel it, after a question")
            await screen.press("q")
            await screen.shows("alpha")

    asyncio.run(story())


def test_why_tasks_wait_is_asked_again_for_those_on_the_screen_when_something_changed() -> None:
    askers: list[StubAsker] = []

    def asker(tell: Tell) -> StubAsker:
        askers.append(StubAsker(tell))
        return askers[0]

    async def story() -> None:
        async with small(asker=asker, reasons_every_s=0.0) as screen:
            asked = askers[0].asked
            await screen.until("asked", lambda: asked)
            count = len(asked)
            screen.app.draw()
            assert len(asked) == count, "nothing changed"
            screen.told("node.sample", sample("alpha"))
            await screen.shows("25%")
            assert len(asked) == count, "a sample changes no reason"
            reasons = {"tasks": [task(2, reason="beta is full")], "defaults": {}, "reasons": {}}
            screen.told("answer", {"to": "reasons", "result": reasons})
            await screen.shows("beta is full")
            screen.told("task.changed", {"task": running(3, "beta", [])})
            await screen.until("asked again", lambda: len(asked) > count)
            screen.told("answer", {"to": "reasons", "error": NotFoundError(Message("no_task", id=2))})
            screen.app.draw()
            assert "not_found" not in screen.text()

    asyncio.run(story())


def test_the_share_of_the_queue_is_asked_for_and_shown_where_much_of_it_is_taken() -> None:
    askers: list[StubAsker] = []

    def asker(tell: Tell) -> StubAsker:
        askers.append(StubAsker(tell))
        return askers[0]

    async def story() -> None:
        async with small(asker=asker) as screen:
            assert askers[0].asked.count("share") == 1
            share = {"waiting": 7, "most_waiting": 9, "bytes": 0, "most_bytes": 1 << 30}
            screen.told("answer", {"to": "share", "result": {"share": share}})
            await screen.shows("yours 7/9")
            screen.app._ask_share()
            screen.app._ask_share()
            assert askers[0].asked.count("share") == 2
            screen.told("answer", {"to": "share", "error": NotFoundError(Message("no_task", id=2))})
            await screen.until("it is gone", lambda: "yours" not in screen.text())

    asyncio.run(story())


def test_without_colour_the_cursor_and_the_marks_are_still_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def story() -> None:
        async with small() as screen:
            strips = screen.strips()
            rows = screen.app.query_one("#tasks", Rows)
            y = rows.region.y + 1
            filtered = strips[y].apply_filter(screen.app._filters[-1], screen.app.screen.background_colors[1])
            styles = [segment.style for segment in filtered if segment.style]
            assert any(style.reverse for style in styles)
            assert all(style.color is None or style.color.is_default for style in styles)

    asyncio.run(story())
